"""Growable columns: node labels as integers, and counters by row.

A label column maps each row to a small integer, so that a selector is evaluated once per distinct value and
then looked up for all nodes at once.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

__all__ = ["ABSENT", "LabelColumn", "RowCounter"]

ABSENT = -1
"""Value id of a node that lacks the label."""


class LabelColumn:
    """The values of one label key over all rows.

    `value_ids` has shape (capacity,), int32; `values[id]` is the text. Ids are never reused, so they stay
    valid for readers.
    """

    __slots__ = ("_id_of", "value_ids", "values")

    def __init__(self, capacity: int) -> None:
        """Start with every row lacking the label."""
        self.value_ids: NDArray[np.int32] = np.full(capacity, ABSENT, dtype=np.int32)
        self.values: list[str] = []
        self._id_of: dict[str, int] = {}

    def set(self, row: int, value: str | None) -> None:
        """Set the label of `row`; None removes it."""
        if value is None:
            self.value_ids[row] = ABSENT
            return
        value_id = self._id_of.get(value)
        if value_id is None:
            value_id = self._id_of[value] = len(self.values)
            self.values.append(value)
        self.value_ids[row] = value_id

    def id_of(self, value: str) -> int:
        """Return the id of `value`, or ABSENT when no node ever had it."""
        return self._id_of.get(value, ABSENT)

    def copy(self) -> LabelColumn:
        """Return an independent copy."""
        other = LabelColumn(0)
        other.value_ids = self.value_ids.copy()
        other.values = self.values.copy()
        other._id_of = self._id_of.copy()
        return other

    def grow(self, capacity: int) -> None:
        """Make room for `capacity` rows."""
        grown = np.full(capacity, ABSENT, dtype=np.int32)
        grown[: len(self.value_ids)] = self.value_ids
        self.value_ids = grown


class RowCounter:
    """How many times something occurs on each row; rows with none are not stored."""

    __slots__ = ("_count_of",)

    def __init__(self) -> None:
        """Start empty."""
        self._count_of: dict[int, int] = {}

    def add(self, row: int, count: int = 1) -> None:
        """Count `count` more on `row` (negative to remove); a row that reaches zero is dropped."""
        total = self._count_of.get(row, 0) + count
        if total:
            self._count_of[row] = total
        else:
            self._count_of.pop(row, None)

    def __getitem__(self, row: int) -> int:
        """Return the count on `row`."""
        return self._count_of.get(row, 0)

    def __iter__(self) -> Iterator[int]:
        """Iterate over the rows that have any, in order of first occurrence."""
        return iter(self._count_of)

    def __len__(self) -> int:
        """Return the number of rows that have any."""
        return len(self._count_of)

    def items(self) -> Iterator[tuple[int, int]]:
        """Iterate over (row, count)."""
        return iter(self._count_of.items())

    def copy(self) -> RowCounter:
        """Return an independent copy."""
        other = RowCounter()
        other._count_of = self._count_of.copy()
        return other

    def total(self) -> int:
        """Return the sum over all rows."""
        return sum(self._count_of.values())

    def arrays(self) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """Return rows and counts, shapes (rows,)."""
        size = len(self._count_of)
        rows = np.fromiter(self._count_of.keys(), dtype=np.intp, count=size)
        counts = np.fromiter(self._count_of.values(), dtype=np.int64, count=size)
        return rows, counts
