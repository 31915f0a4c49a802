"""JSON patches (RFC 6902) that are written while a document is changed, so that the two cannot differ.

The document itself is never written to: what lies on the way to a change is copied, all else is shared. That
keeps unknown fields and their order, and is safe where YAML aliases made one object stand in two places.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from stowplan.kube.argo.objects import Json

__all__ = ["Draft", "Operation", "Pointer", "pointer_text"]

Pointer = tuple[str | int, ...]
"""The way to a value: keys of mappings and numbers of list elements."""


def pointer_text(path: Pointer) -> str:
    """Return a pointer as RFC 6901 writes it."""
    return "".join("/" + str(token).replace("~", "~0").replace("/", "~1") for token in path)


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation: `test`, `add` or `replace`."""

    op: str
    path: Pointer
    value: object

    def to_json(self) -> dict[str, object]:
        """Return the operation as it stands in a patch."""
        return {"op": self.op, "path": pointer_text(self.path), "value": self.value}


class Draft:
    """A document that is being changed, and the operations that change it.

    Attributes:
        document: the document as it is by now.
        operations: what has been done to it, in order.
    """

    def __init__(self, document: Json) -> None:
        """Begin with a document, which stays as it is."""
        self.document = document
        self.operations: list[Operation] = []
        self._guarded: set[Pointer] = set()

    def get(self, path: Pointer) -> object:
        """Return the value at a pointer, None where there is none."""
        value: object = self.document
        for token in path:
            if isinstance(token, int):
                value = cast("list[object]", value)[token]
            elif isinstance(value, Mapping):
                value = cast("Json", value).get(token)
            else:
                return None
        return value

    def put(self, path: Pointer, value: object) -> bool:
        """Set the value at a pointer whose last token is a key; mappings that lack on the way are made.

        A patch may be applied to a version that has changed meanwhile: elements of lists are held by their
        names, and what is replaced by its value. Returns whether anything had to be changed.
        """
        if self.get(path) == value:
            return False
        at = 1
        while at < len(path) and self.get(path[:at]) is not None:
            at += 1
        for token in reversed(path[at:]):
            value = {token: value}
        path = path[:at]
        self._guard(path)
        old = self.get(path)
        if old is None:  # absent, or null, which the API server leaves out: `add` does for both
            self.operations.append(Operation("add", path, value))
        else:
            self.operations += [Operation("test", path, old), Operation("replace", path, value)]
        self.document = cast("dict[str, object]", _changed(self.document, path, value))
        return True

    def _guard(self, path: Pointer) -> None:
        """Have the patch fail where a list has other elements by now."""
        for end in range(1, len(path)):
            name = (*path[:end], "name")
            if isinstance(path[end - 1], int) and name not in self._guarded:
                value = self.get(name)
                if isinstance(value, str):
                    self._guarded.add(name)
                    self.operations.append(Operation("test", name, value))


def _changed(value: object, path: Pointer, new: object) -> object:
    """Return `value` with what is at `path` replaced."""
    if not path:
        return new
    token, rest = path[0], path[1:]
    if isinstance(token, int):
        items = list(cast("list[object]", value))
        items[token] = _changed(items[token], rest, new)
        return items
    fields = dict(cast("Mapping[str, object]", value))
    fields[token] = _changed(fields.get(token), rest, new)
    return fields
