"""How long a task is expected to take on each machine type: task × machine factors.

A task's expected duration holds on the reference machine; `WorkProfile.machine_factors` stretches it per
machine type. Types are few, so everything is computed per type and looked up by row.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain import Task
from stowplan.core.policy.feed import ChangeFeed

__all__ = ["Machines"]

_NO_NODE = ""


class Machines:
    """Machine types of a state's rows, kept up to date with the feed."""

    __slots__ = ("_counts", "_epoch", "_factors", "_feed", "_ids", "_types", "version")

    def __init__(self, feed: ChangeFeed) -> None:
        """Read the types of the nodes of the feed's state."""
        self._feed = feed
        self._epoch = -1
        self.version = 0
        self._types: tuple[str, ...] = ()
        self._ids: NDArray[np.intp] = np.empty(0, dtype=np.intp)
        self._counts: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._factors: dict[tuple[tuple[str, float], ...], NDArray[np.float64]] = {}

    def _refresh(self) -> None:
        if self._epoch == self._feed.epoch:
            return
        self._epoch = self._feed.epoch
        state = self._feed.state
        id_of: dict[str, int] = {_NO_NODE: 0}
        ids = np.zeros(state.capacity, dtype=np.intp)
        for _, row in state.rows():
            ids[row] = id_of.setdefault(state.node(row).hardware.machine_type, len(id_of))
        counts = np.bincount(ids[state.is_node], minlength=len(id_of))
        if tuple(id_of) != self._types or not np.array_equal(counts, self._counts):
            self.version += 1
            self._factors.clear()
        self._types, self._ids, self._counts = tuple(id_of), ids, counts

    @property
    def types(self) -> tuple[str, ...]:
        """The machine types, in the order of the arrays below; the first is the nameless one."""
        self._refresh()
        return self._types

    @property
    def counts(self) -> NDArray[np.int64]:
        """Nodes of each type, shape (types,)."""
        self._refresh()
        return self._counts

    @property
    def type_ids(self) -> NDArray[np.intp]:
        """Index into `types` by row, shape (capacity,)."""
        self._refresh()
        return self._ids

    def factors(self, task: Task) -> NDArray[np.float64]:
        """Return the time factor of `task` on each type, shape (types,)."""
        self._refresh()
        named = task.work.machine_factors
        factors = self._factors.get(named)
        if factors is None:
            factor_of = dict(named)
            factors = np.array([factor_of.get(name, 1.0) for name in self._types], dtype=np.float64)
            self._factors[named] = factors
        return factors

    def mean_factor(self, task: Task) -> float:
        """Return the time factor of `task` averaged over the nodes; 1 without nodes."""
        factors, counts = self.factors(task), self.counts
        total = int(counts.sum())
        return float((factors * counts).sum() / total) if total else 1.0

    def duration_s(self, task: Task, row: int) -> float:
        """Return the expected seconds of `task` on `row`."""
        if not task.work.machine_factors:
            return task.expected_s
        return task.expected_s * float(self.factors(task)[self.type_ids[row]])

    def durations_s(self, task: Task) -> NDArray[np.float64]:
        """Return the expected seconds of `task` by row, shape (capacity,)."""
        return (task.expected_s * self.factors(task))[self.type_ids]
