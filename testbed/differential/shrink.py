"""A case that shows a mismatch, made as small as it goes while it still shows the same one.

Delta debugging (A. Zeller, R. Hildebrandt, Simplifying and isolating failure-inducing input, 2002): first
objects go, then fields of those that are left. A step is kept when the objects are still valid and show a
mismatch of the same kind and filter; whatever else they show does not count.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

from testbed.differential.generator import Manifest

__all__ = ["Test", "shrink", "shrink_list"]

T = TypeVar("T")
Test = Callable[[Sequence[Manifest]], bool]
"""Tells whether objects still show what is looked for."""

_KEPT_FIELDS: Final = frozenset({"apiVersion", "kind", "name", "namespace"})
"""What an object is known by; without it, it would be another."""


def shrink(objects: Sequence[Manifest], is_wrong: Test) -> list[Manifest]:
    """Return the smallest objects found that still show it.

    Args:
        objects: They show it; they are left as they are.
        is_wrong: Whether some objects show it.

    Raises:
        ValueError: the objects do not show it.
    """
    if not is_wrong(objects):
        raise ValueError("the objects do not show what is looked for, so they cannot be made smaller")
    left = copy.deepcopy(list(objects))
    while True:
        before = _size(left)
        left = shrink_list(left, is_wrong)
        _drop_fields(left, is_wrong)
        if _size(left) == before:
            return left


def shrink_list(items: Sequence[T], is_wrong: Callable[[list[T]], bool]) -> list[T]:
    """Return the items that are left when runs of them, ever shorter, were dropped wherever that goes."""
    left = list(items)
    length = max(len(left) // 2, 1)
    while left:
        start, has_dropped = 0, False
        while start < len(left):
            fewer = left[:start] + left[start + length :]
            if is_wrong(fewer):
                left, has_dropped = fewer, True
            else:
                start += length
        if length == 1 and not has_dropped:
            break
        length = max(length // 2, 1)
    return left


def _drop_fields(objects: list[Manifest], is_wrong: Test) -> None:
    """Drop every field and element that is not needed, outermost first, in place."""
    for one in objects:
        pending: list[tuple[dict[str, Any] | list[Any], Any]] = list(_parts(one))
        while pending:
            owner, key = pending.pop(0)
            if isinstance(owner, list):
                _drop_elements(owner, objects, is_wrong)
                pending += [part for inner in owner for part in _parts(inner)]
                continue
            kept = owner.pop(key)
            if is_wrong(objects):
                continue
            owner[key] = kept
            pending += [(kept, None)] if isinstance(kept, list) else list(_parts(kept))


def _drop_elements(owner: list[Any], objects: list[Manifest], is_wrong: Test) -> None:
    index = len(owner)
    while index:
        index -= 1
        kept = owner.pop(index)
        if not is_wrong(objects):
            owner.insert(index, kept)


def _parts(value: Any) -> Iterator[tuple[dict[str, Any] | list[Any], Any]]:  # noqa: ANN401  (parsed JSON)
    """Yield where the parts of a value are that can be dropped, or looked into."""
    if isinstance(value, list):
        yield value, None
    elif isinstance(value, dict):
        for key in value:
            if key not in _KEPT_FIELDS:
                yield value, key


def _size(objects: Sequence[Manifest]) -> int:
    def count(value: object) -> int:
        if isinstance(value, dict):
            return 1 + sum(map(count, value.values()))
        return 1 + sum(map(count, value)) if isinstance(value, list) else 1

    return sum(map(count, objects))
