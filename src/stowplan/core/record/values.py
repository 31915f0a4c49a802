"""Values of the domain as plain data and back: named fields, those left out that have their default.

Plain data are what MessagePack knows: numbers (floats and integers stay what they are, bit for bit), text,
bytes, lists, maps. A record so says what it holds without the code that wrote it, and the same value gives
the same bytes in any process: hashes of text, which differ between processes, are not among the fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, Final, TypeVar, cast

import msgspec

from stowplan.core.domain import Resources
from stowplan.errors import InternalError, InvalidFile

__all__ = ["Plain", "pack", "to_plain", "to_value", "unpack"]

Plain = Any
"""Plain data: None, bool, int, float, str, bytes, and lists and maps of them."""

T = TypeVar("T")
_ATOMS: Final = frozenset({bool, int, float, str, bytes, type(None)})
_NOTHING: Final = object()
_ENCODER: Final = msgspec.msgpack.Encoder()


def to_plain(value: object) -> Plain:
    """Return a value of the domain (or a tuple, list or map of such) as plain data.

    Raises:
        InternalError: it is of a type that records do not know.
    """
    kind = type(value)
    if kind in _ATOMS:
        return value
    if isinstance(value, (tuple, list)):
        return [to_plain(each) for each in cast("Sequence[object]", value)]
    if isinstance(value, str):  # an enumeration of texts
        return str(value)
    if isinstance(value, Mapping):
        named = cast("Mapping[str, object]", value)
        return {name: to_plain(each) for name, each in named.items()}
    if is_dataclass(value):
        plain: dict[str, Plain] = {}
        for name, default in _fields_of(kind):
            each = getattr(value, name)
            if each is default or (type(each) is type(default) and each == default):
                continue
            plain[name] = to_plain(each)
        return plain
    raise InternalError(f"{kind.__name__} cannot be written into a record: {value!r}")


@cache
def _fields_of(kind: type) -> tuple[tuple[str, object], ...]:
    return tuple((item.name, _default(item)) for item in fields(kind) if item.init)


def _default(item: Any) -> object:  # noqa: ANN401  (`dataclasses.Field` of whatever type)
    if item.default is not MISSING:
        return item.default
    return item.default_factory() if item.default_factory is not MISSING else _NOTHING


def to_value(plain: Plain, kind: type[T]) -> T:
    """Return plain data as a value of type `kind`.

    Raises:
        InvalidFile: they are not those of such a value.
    """
    try:
        return msgspec.convert(plain, type=kind, dec_hook=_decode)
    except (msgspec.ValidationError, ValueError, TypeError) as error:
        raise InvalidFile(f"the record does not hold a {kind.__name__}: {error}") from None


def _decode(kind: type, plain: Any) -> object:  # noqa: ANN401  (whatever stands there)
    if kind is Resources:
        return Resources(plain)
    raise NotImplementedError(kind)  # so msgspec is told that a type is not among those it may meet


def pack(plain: Plain) -> bytes:
    """Return plain data as bytes (MessagePack)."""
    return _ENCODER.encode(plain)


def unpack(content: bytes) -> Plain:
    """Return the plain data that `content` holds.

    Raises:
        InvalidFile: it is no MessagePack.
    """
    try:
        return msgspec.msgpack.decode(content)
    except (msgspec.DecodeError, ValueError) as error:
        raise InvalidFile(f"the record cannot be read: {error}") from None
