"""Limits are data: `limits.toml` says what a measured number must hold, who demands it, and what was seen."""

import operator
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

import msgspec

from bench.harness import Row

__all__ = ["LIMITS_FILE", "Limit", "Verdict", "check", "read_limits"]

LIMITS_FILE: Final = Path(__file__).with_name("limits.toml")


class Operator(StrEnum):
    """How the measured number must compare with the limit's value."""

    AT_LEAST = ">="
    AT_MOST = "<="
    EQUAL = "=="


class Measured(StrEnum):
    """Which number of the row is held to the limit."""

    MEDIAN = "median"
    RATIO = "ratio"


HOLDS: Final[Mapping[Operator, Callable[[float, float], bool]]] = {
    Operator.AT_LEAST: operator.ge,
    Operator.AT_MOST: operator.le,
    Operator.EQUAL: operator.eq,
}


class Limit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One demand: the row's `of` must be `op` `value`; `source` demands it, `runs` are what was measured."""

    op: Operator
    value: float
    source: str
    of: Measured = Measured.MEDIAN
    runs: list[str] = []


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a row holds its limit. `measured` None: no such row, which is a failure of its own."""

    name: str
    limit: Limit
    measured: float | None

    @property
    def holds(self) -> bool:
        """True when the number was measured and is on the right side of the limit."""
        return self.measured is not None and HOLDS[self.limit.op](self.measured, self.limit.value)

    @property
    def word(self) -> str:
        """The verdict as it is printed."""
        if self.measured is None:
            return "NOT MEASURED"
        return "holds" if self.holds else "FAILS"


def read_limits(path: Path = LIMITS_FILE) -> dict[str, Limit]:
    """Return the limits by row name.

    Raises:
        msgspec.ValidationError: an entry has an unknown key or operator, or lacks its source.
    """
    return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), dict[str, Limit])


def check(rows: Iterable[Row], limits: Mapping[str, Limit]) -> list[Verdict]:
    """Return a verdict per limit, in the order of the limits."""
    by_name = {row.name: row for row in rows}
    return [
        Verdict(name, limit, getattr(by_name[name], limit.of) if name in by_name else None)
        for name, limit in limits.items()
    ]
