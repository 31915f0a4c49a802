"""Typed access to a parsed Kubernetes object, with the path of each field for errors.

Absent and null are the same, as in the API. Every complaint is an `InvalidObject` that names the object,
the field, the value and the mend.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Final, NoReturn, cast

from stowplan.core.domain import Labels, freeze_labels, parse_quantity
from stowplan.errors import InvalidObject, InvalidQuantity

__all__ = ["Cursor"]

_NOTHING: Final[Mapping[str, object]] = {}


class Cursor:
    """A value inside an object, and where it is."""

    __slots__ = ("_key", "_parent", "_value")

    def __init__(self, value: object, parent: Cursor | str, key: str | int = "") -> None:
        """Point at `value`: an object that the text `parent` names, or the part `key` of another value."""
        self._value = value
        self._parent = parent
        self._key = key

    def _whereabouts(self) -> tuple[str, str]:
        """Return the name of the object, and the path of this value in it (made up only for complaints)."""
        if isinstance(self._parent, str):
            return self._parent, ""
        owner, path = self._parent._whereabouts()  # noqa: SLF001  (same class)
        if isinstance(self._key, int) or self._key.startswith("["):
            return owner, f"{path}[{self._key}]" if isinstance(self._key, int) else f"{path}{self._key}"
        return owner, f"{path}.{self._key}" if path else self._key

    def fail(self, mend: str) -> NoReturn:
        """Raise the complaint about this value.

        Raises:
            InvalidObject: always.
        """
        owner, path = self._whereabouts()
        raise InvalidObject(f"{owner}: {path or 'the object'} is {self._value!r}; {mend}")

    @property
    def is_set(self) -> bool:
        """Whether there is a value."""
        return self._value is not None

    def __getitem__(self, key: str) -> Cursor:
        """Return the field `key`; of an absent mapping, an absent field."""
        return Cursor(self._mapping().get(key), self, key)

    def _mapping(self) -> Mapping[str, object]:
        value = self._value
        if value is None:
            return _NOTHING
        if not isinstance(value, dict | Mapping):
            self.fail("write a mapping")
        return cast("Mapping[str, object]", value)

    def entries(self) -> Iterator[tuple[str, Cursor]]:
        """Iterate over the fields of a mapping."""
        for key, value in self._mapping().items():
            if not isinstance(key, str):  # pyright: ignore[reportUnnecessaryIsInstance]  (YAML allows other keys)
                self.fail(f"its key {key!r} is not text, quote it")
            yield key, Cursor(value, self, f"[{key}]")

    def items(self) -> Iterator[Cursor]:
        """Iterate over the elements of a list."""
        if self._value is None:
            return
        values = self._value
        if not isinstance(values, list | tuple):
            self.fail("write a list")
        for number, value in enumerate(cast("list[object]", values)):
            yield Cursor(value, self, number)

    def text(self, default: str = "") -> str:
        """Return a string."""
        if self._value is None:
            return default
        if not isinstance(self._value, str):
            self.fail("write text; quote what YAML reads as something else")
        return self._value

    def optional_text(self) -> str | None:
        """Return a string, or None when there is none."""
        return self.text() if self.is_set else None

    def required_text(self, mend: str) -> str:
        """Return a string that must be there and not be empty."""
        value = self.text()
        if not value:
            self.fail(mend)
        return value

    def integer(self, default: int = 0) -> int:
        """Return an integer."""
        if self._value is None:
            return default
        if isinstance(self._value, bool) or not isinstance(self._value, int):
            self.fail("write a whole number")
        return self._value

    def flag(self, *, default: bool = False) -> bool:
        """Return a boolean."""
        if self._value is None:
            return default
        if not isinstance(self._value, bool):
            self.fail("write true or false")
        return self._value

    def texts(self) -> tuple[str, ...]:
        """Return a list of strings."""
        found: list[str] = []
        for item in self.items():
            if not item.is_set:
                item.fail("write text")
            found.append(item.text())
        return tuple(found)

    def one_of(self, known: tuple[str, ...], default: str = "") -> str:
        """Return a string out of a closed vocabulary."""
        value = self.text(default)
        if value not in known:
            self.fail(f"write one of {', '.join(known)}")
        return value

    def label_map(self) -> dict[str, str]:
        """Return a mapping of text to text."""
        return {key: value.text() for key, value in self.entries()}

    def labels(self) -> Labels:
        """Return labels as sorted pairs."""
        return freeze_labels(self.label_map())

    def quantity(self) -> Fraction:
        """Return a quantity, rounded up to thousandths as the API server does when it stores one."""
        if isinstance(self._value, Mapping | list | None):
            self.fail("write a quantity such as '500m' or '2Gi'")
        try:
            exact = parse_quantity(cast("str", self._value)) * 1000
        except InvalidQuantity as error:
            owner, path = self._whereabouts()
            raise InvalidObject(f"{owner}: {path}: {error}") from error
        return Fraction(-(-exact.numerator // exact.denominator), 1000)

    def quantities(self) -> dict[str, Fraction]:
        """Return quantities by name."""
        return {name: value.quantity() for name, value in self.entries()}

    def whole_quantity(self) -> int:
        """Return a quantity in whole units, rounded up."""
        amount = self.quantity()
        return -(-amount.numerator // amount.denominator)

    def raw(self) -> object:
        """Return the value as it was parsed."""
        return self._value
