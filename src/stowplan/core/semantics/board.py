"""The board of readings: what was last measured of every node, by row of the cluster state.

Readings come node by node, every few seconds, some late and some never; a policy wants columns of numbers.
The board stands between the two. It holds physical numbers of the catalogue, NaN where none is known: not
measured here, too old (the catalogue says when) or impossible. What changed since a policy last looked is
told by `version`, so that a cache of what follows from readings is brought up to date row by row.

It is filled by a driver (simulator, live cluster, replay) between two cycles, never within one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.semantics.catalogue import quantity
from stowplan.core.semantics.value import Value
from stowplan.errors import InvalidInput

__all__ = ["NODE_QUANTITIES", "NodeReadings"]

NODE_QUANTITIES: Final[tuple[str, ...]] = (
    "memory_bandwidth_utilisation",
    "memory_bandwidth_pressure",
    "storage_await_s",
    "storage_queue_depth",
    "storage_utilisation",
    "storage_bytes_per_s",
    "storage_level",
    "memory_working_set_share",
    "memory_cache_share",
    "cpu_utilisation",
    "cpu_wait_share",
    "nic_utilisation",
    "rtt_tail_s",
    "pcie_link_share",
)
"""Columns of the board, each of the whole node: of several devices the one that is worst off; `rtt_tail_s` is
the median over the other nodes."""


class NodeReadings:
    """Readings of the nodes in the rows of a cluster state, R rows and Q quantities.

    Attributes:
        quantities: (Q,) names in the catalogue.
        values: float64 (R, Q) in the catalogue's units, NaN where not known at `now_s`. Only to be read.
        measured_s: float64 (R, Q) when each was measured, NaN where it never was. Only to be read.
        now_s: as of when values are known; a driver moves it on before each cycle.
        version: grows with every change.
    """

    __slots__ = (
        "_changed",
        "_limit_s",
        "_next_stale_s",
        "measured_s",
        "now_s",
        "quantities",
        "values",
        "version",
    )

    def __init__(self, rows: int, quantities: Sequence[str] = NODE_QUANTITIES) -> None:
        """Begin with nothing known of `rows` rows.

        Raises:
            UnknownName: a quantity is not in the catalogue.
        """
        self.quantities = tuple(quantities)
        shape = (rows, len(self.quantities))
        self.values: NDArray[np.float64] = np.full(shape, math.nan)
        self.measured_s: NDArray[np.float64] = np.full(shape, math.nan)
        self.now_s = 0.0
        self.version = 0
        self._changed: NDArray[np.int64] = np.zeros(rows, dtype=np.int64)
        self._limit_s = np.array([quantity(name).stale_after_s for name in self.quantities])
        self._next_stale_s = math.inf

    # ---- looking ----

    def __len__(self) -> int:
        """Return the number of rows."""
        return self.values.shape[0]

    def column(self, name: str) -> NDArray[np.float64]:
        """Return one quantity of all rows, float64 (R,), NaN where not known; only to be read.

        Raises:
            InvalidInput: the board does not hold it.
        """
        if name not in self.quantities:
            raise InvalidInput(
                f"the board of readings holds no {name!r}; it holds {', '.join(self.quantities)}"
            )
        return self.values[:, self.quantities.index(name)]

    @property
    def age_s(self) -> NDArray[np.float64]:
        """Seconds since each known value was measured, float64 (R, Q); NaN where none is known."""
        return np.where(np.isnan(self.values), math.nan, np.maximum(self.now_s - self.measured_s, 0.0))

    def rows_changed_since(self, version: int) -> NDArray[np.intp]:
        """Return the rows of which some value became known, changed or unknown since `version`, ascending."""
        return np.flatnonzero(self._changed > version)

    # ---- filling ----

    def advance(self, now_s: float) -> None:
        """Go on to `now_s`: what has become too old is no longer known.

        Raises:
            InvalidInput: time would go back.
        """
        if not now_s >= self.now_s:
            raise InvalidInput(f"readings are as of {self.now_s} s; they cannot go back to {now_s} s")
        self.now_s = now_s
        if now_s <= self._next_stale_s:
            return
        until_s = np.where(np.isnan(self.values), math.inf, self.measured_s + self._limit_s)
        stale = until_s < now_s
        self.values[stale] = math.nan
        self._note(np.flatnonzero(stale.any(axis=1)))
        self._next_stale_s = float(until_s[~stale].min(initial=math.inf))

    def put(self, row: int, values: Mapping[str, Value]) -> None:
        """Take in what was measured of the node in `row`; quantities that are not named stay as they are.

        A value that is not present as of `now_s` makes its quantity unknown. One measured before the one that
        is held came late, and is left out.

        Raises:
            InvalidInput: the board has no such row, or a value stands under the name of another quantity.
        """
        self._require(row)
        for name, value in values.items():
            if name not in self.quantities:
                continue
            if value.quantity != name:
                raise InvalidInput(f"a value of {value.quantity} is no {name}")
            measured_s = math.nan if value.measured_s is None else value.measured_s
            known = value.at(self.now_s).known
            self._put(row, self.quantities.index(name), math.nan if known is None else known, measured_s)

    def put_rows(
        self, rows: NDArray[np.intp], values: NDArray[np.float64], measured_s: NDArray[np.float64]
    ) -> None:
        """Replace whole rows, for example by those of a record.

        Args:
            rows: (n,) distinct.
            values: (n, Q) in the catalogue's units, NaN where not known.
            measured_s: (n, Q).

        Raises:
            InvalidInput: a row does not exist, or an array has another shape.
        """
        for row in rows.tolist():
            self._require(row)
        shape = (rows.size, len(self.quantities))
        if values.shape != shape or measured_s.shape != shape:
            raise InvalidInput(
                f"readings of shapes {values.shape} and {measured_s.shape} for {rows.size} rows; give {shape}"
            )
        self.values[rows], self.measured_s[rows] = values, measured_s
        until_s = np.where(np.isnan(values), math.inf, measured_s + self._limit_s)
        self._next_stale_s = min(self._next_stale_s, float(until_s.min(initial=math.inf)))
        self._note(rows)

    def clear(self, row: int) -> None:
        """Forget a row, whose node left: the next node there is another one.

        Raises:
            InvalidInput: the board has no such row.
        """
        self._require(row)
        if not np.isnan(self.measured_s[row]).all():
            self.values[row] = self.measured_s[row] = math.nan
            self.version += 1
            self._changed[row] = self.version

    def grow(self, rows: int) -> None:
        """Make room for `rows` rows, as the cluster state grew; no fewer than there are."""
        more = rows - len(self)
        if more > 0:
            unknown = np.full((more, len(self.quantities)), math.nan)
            self.values = np.concatenate([self.values, unknown])
            self.measured_s = np.concatenate([self.measured_s, unknown])
            self._changed = np.concatenate([self._changed, np.zeros(more, dtype=np.int64)])

    def _put(self, row: int, column: int, number: float, measured_s: float) -> None:
        if measured_s < self.measured_s[row, column]:
            return
        before = self.values[row, column]
        self.values[row, column], self.measured_s[row, column] = number, measured_s
        if not math.isnan(number):
            self._next_stale_s = min(self._next_stale_s, measured_s + float(self._limit_s[column]))
        if number != before and not (math.isnan(number) and math.isnan(before)):
            self.version += 1
            self._changed[row] = self.version

    def _note(self, rows: NDArray[np.intp]) -> None:
        if rows.size:
            self.version += 1
            self._changed[rows] = self.version

    def _require(self, row: int) -> None:
        if not 0 <= row < len(self):
            raise InvalidInput(f"the board of readings has no row {row}; it has {len(self)}, counted from 0")
