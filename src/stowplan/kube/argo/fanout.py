"""Fan-outs: `withItems`, `withParam`, `withSequence`, and how wide they are.

A width is a number where the manifest and its arguments tell it, and unknown otherwise, with the expression
that will tell at run time. Items of a sequence are made when asked for: a million of them take no memory.

Source: Argo Workflows 4.0, `operator.go` (processItem, generateNodeName, expandSequence), `item.go`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast, overload

from stowplan.kube.argo.objects import Json, as_mapping
from stowplan.kube.argo.variables import Variables, has_variable, put_in, variables_in

__all__ = ["Fanout", "FanoutError", "Item", "read_fanout"]

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_FORMAT: Final = re.compile(r"%(?P<flags>[-+ 0#]*)(?P<width>[0-9]{0,3})(?P<verb>[dxXobv%])", re.ASCII)
_BASES: Final = {"d": "d", "v": "d", "x": "x", "X": "X", "o": "o", "b": "b"}


class FanoutError(ValueError):
    """A fan-out that the controller could not expand. `key` is its field, the message the mend."""

    def __init__(self, key: str, value: object, mend: str) -> None:
        """Name the field, its value and the mend."""
        super().__init__(mend)
        self.key = key
        self.value = value


@dataclass(frozen=True, slots=True)
class Item:
    """One item. `label` is what the controller writes in the node's name, `values` what `{{item…}}` means."""

    label: str
    values: Variables


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True)


def _scalar(value: object) -> str:
    return value if isinstance(value, str) else _json(value)


def _item(value: object) -> Item:
    if isinstance(value, Mapping):
        entries = cast("Mapping[str, object]", value)
        label = ",".join(sorted(f"{key}:{_scalar(item)}" for key, item in entries.items()))
        values = {"item": _json(entries), **{f"item.{key}": _scalar(item) for key, item in entries.items()}}
    elif isinstance(value, list):
        elements = cast("list[object]", value)
        label = "[" + " ".join(map(_scalar, elements)) + "]"  # as Go prints a list
        values = {"item": _json(elements)}
    else:
        label = _scalar(value)
        values = {"item": label}
    return Item(label.replace("(", "").replace(")", ""), values)


class _Listed(Sequence[Item]):
    """Items of a list, made when asked for."""

    def __init__(self, values: list[object]) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | Sequence[Item]:
        return _Listed(self._values[index]) if isinstance(index, slice) else _item(self._values[index])


class _Counted(Sequence[Item]):
    """Items of a sequence of numbers, made when asked for."""

    def __init__(self, numbers: range, template: str) -> None:
        self._numbers = numbers
        self._template = template

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> Item: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Item]: ...
    def __getitem__(self, index: int | slice) -> Item | Sequence[Item]:
        if isinstance(index, slice):
            return _Counted(self._numbers[index], self._template)
        return _item(_formatted(self._template, self._numbers[index]))


def _formatted(template: str, number: int) -> str:
    def piece(match: re.Match[str]) -> str:
        if match["verb"] == "%":
            return "%"
        flags = "".join(sorted(set(match["flags"])))
        alternate = "#" in flags and match["verb"] in "xXob"
        digits = format(abs(number), ("#" if alternate else "") + _BASES[match["verb"]])
        sign = "-" if number < 0 else "+" if "+" in flags else " " if " " in flags else ""
        width = int(match["width"] or 0)
        if "-" in flags:
            return (sign + digits).ljust(width)
        return sign + digits.zfill(width - len(sign)) if "0" in flags else (sign + digits).rjust(width)

    return _FORMAT.sub(piece, template)


@dataclass(frozen=True, slots=True)
class Fanout:
    """How a task or step multiplies.

    `width` is the number of items, None where it is only known at run time; `expression` then is what tells
    it. `items` are the items where they are known: a sequence may be known in number but not in name (an
    unusual format), then there are none.
    """

    width: int | None
    items: Sequence[Item] | None = None
    expression: str = ""


def _known_list(values: list[object]) -> Fanout:
    return Fanout(len(values), _Listed(values))


def read_fanout(holder: Json, variables: Variables) -> Fanout | None:
    """Return the fan-out of a step or task, None where it has none.

    Raises:
        FanoutError: it has several, or one that could never be expanded.
    """
    items, param, sequence = holder.get("withItems"), holder.get("withParam"), holder.get("withSequence")
    named = [key for key in ("withItems", "withParam", "withSequence") if holder.get(key)]
    if len(named) > 1:
        raise FanoutError(named[1], holder[named[1]], f"it has {named[0]} as well; keep one")
    if items:
        values = cast("list[object]", put_in(items, variables))
        return _known_list(values)
    if param:
        text = cast("str", put_in(cast("str", param), variables)).strip()
        return _from_param(text)
    if sequence is not None:
        return _from_sequence(as_mapping(put_in(sequence, variables)))
    return None


def _from_param(text: str) -> Fanout:
    if has_variable(text):
        # A variable within a literal list changes an item, but not how many there are.
        values = _json_list(text)
        if values is None or text.startswith("{{"):
            return Fanout(None, None, text)
        return Fanout(len(values), _Listed(values))
    values = _json_list(text)
    if values is None:
        raise FanoutError("withParam", text, 'write a JSON list, as text: \'["a", "b"]\'')
    return _known_list(values)


def _json_list(text: str) -> list[object] | None:
    try:
        values: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast("list[object]", values) if isinstance(values, list) else None


def _bound(sequence: Json, key: str) -> int | None:
    value = sequence.get(key)
    if value is None:
        return None
    text = str(value)
    if _WHOLE.fullmatch(text) is None:
        raise FanoutError(f"withSequence.{key}", value, "write a whole number")
    return int(text)


def _from_sequence(sequence: Json) -> Fanout:
    if sequence.get("count") is not None and sequence.get("end") is not None:
        raise FanoutError("withSequence", dict(sequence), "write either count or end, not both")
    if sequence.get("count") is None and sequence.get("end") is None:
        raise FanoutError("withSequence", dict(sequence), "write a count or an end")
    open_ends = [
        variable for key in ("start", "end", "count") for variable in variables_in(str(sequence.get(key, "")))
    ]
    if open_ends:
        return Fanout(None, None, " ".join(f"{{{{{variable}}}}}" for variable in dict.fromkeys(open_ends)))
    start = _bound(sequence, "start") or 0
    count, end = _bound(sequence, "count"), _bound(sequence, "end")
    if count == 0:
        return _known_list([])
    last = cast("int", end) if count is None else start + count - 1
    numbers = range(start, last + 1) if start <= last else range(start, last - 1, -1)
    template = cast("str", sequence.get("format")) or "%d"
    understood = "%" not in _FORMAT.sub("", template)
    return Fanout(len(numbers), _Counted(numbers, template) if understood else None)
