"""Topology domains: the rows that share the value of one label, with counts per domain.

A domain is a value id of the label's column. Arrays by domain have one entry more than there are values:
the last, which the id −1 of a node without the label selects.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain import ABSENT, ClusterState

__all__ = ["Domains"]


class Domains:
    """The domains of one topology key: `ids` has shape (capacity,), `count` values were ever seen."""

    __slots__ = ("_by_domain", "_starts", "count", "ids", "key", "values")

    def __init__(self, state: ClusterState, key: str) -> None:
        """Read the label column of `key`."""
        column = state.labels.get(key)
        self.key = key
        self.values: list[str] = [] if column is None else column.values
        self.count = len(self.values)
        self.ids: NDArray[np.int32] = (
            np.full(state.capacity, ABSENT, dtype=np.int32) if column is None else column.value_ids.copy()
        )
        self._by_domain: NDArray[np.intp] | None = None
        self._starts: NDArray[np.intp] | None = None

    def rows(self, domain: int) -> NDArray[np.intp]:
        """Return the rows of a domain; all domains are sorted out at the first call."""
        if self._by_domain is None or self._starts is None:
            self._by_domain = np.argsort(self.ids, kind="stable").astype(np.intp)
            self._starts = np.searchsorted(self.ids[self._by_domain], np.arange(self.count + 1)).astype(
                np.intp
            )
        return self._by_domain[self._starts[domain] : self._starts[domain + 1]]

    def zeros(self) -> NDArray[np.int64]:
        """Return a count of zero for every domain and for rows without the label, shape (count + 1,)."""
        return np.zeros(self.count + 1, dtype=np.int64)
