"""How kube-scheduler scores resources: NodeResourcesFit (LeastAllocated) and BalancedAllocation.

Integer arithmetic and truncation are those of the scheduler (Kubernetes 1.37, plugins `noderesources`),
because scores that differ by less than one point must tie there and here alike. Both look at CPU and memory
with weight 1. The first counts requests as scoring does (a container without a request counts as 100
milli-cores and 200 MiB), the second as they are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stowplan.core.policy.feed import ChangeFeed

__all__ = ["MAX_NODE_SCORE", "ResourceScores", "balanced_allocation", "least_allocated"]

MAX_NODE_SCORE = 100
_FEW_ROWS = 12


def least_allocated(allocatable: NDArray[np.int64], scored: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return 0–100 per node: the mean free share of CPU and memory once the pod is there, shape (nodes,).

    Args:
        allocatable: (nodes, 2) milli-cores and bytes; a resource that a node lacks is left out of its mean.
        scored: (nodes, 2) requested as scoring counts it, the pod included; beyond allocatable scores 0.
    """
    shares = np.maximum((allocatable - scored) * MAX_NODE_SCORE // np.maximum(allocatable, 1), 0)
    if allocatable.all():
        return (shares[:, 0] + shares[:, 1]) >> 1
    counted = allocatable > 0
    shares[~counted] = 0
    return shares.sum(axis=1) // np.maximum(counted.sum(axis=1), 1)


def balanced_allocation(
    allocatable: NDArray[np.int64], requested: NDArray[np.int64], pod: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return 50–100 per node: about 75 when the pod changes nothing, more when it evens the node out.

    The balance of a node is 100·(1 − σ), σ the standard deviation of the used shares of CPU and memory, cut
    to an integer; with one resource σ is 0. The score is 50 + (50 + balance with the pod − balance
    without)/2.

    Args:
        allocatable: (nodes, 2) milli-cores and bytes.
        requested: (nodes, 2) what is there.
        pod: (2,) what the pod adds. A pod that asks for neither is not scored at all (the caller leaves it
            out).
    """
    shares = np.empty((2, *allocatable.shape), dtype=np.float64)
    capacity = np.maximum(allocatable, 1)
    np.divide(requested, capacity, out=shares[0])
    np.divide(requested + pod, capacity, out=shares[1])
    np.minimum(shares, 1.0, out=shares)
    deviation = np.abs(shares[:, :, 0] - shares[:, :, 1])
    deviation *= 0.5
    if not allocatable.all():
        deviation[:, (allocatable == 0).any(axis=1)] = 0.0
    without_pod, with_pod = ((1 - deviation) * float(MAX_NODE_SCORE)).astype(np.int64)
    half = MAX_NODE_SCORE // 2
    return (with_pod - without_pod + half) // 2 + half


class ResourceScores:
    """LeastAllocated plus BalancedAllocation of every node for pods that ask alike, following the feed.

    Pods of many shapes ask for the same CPU and memory, so their shapes share one of these.
    """

    __slots__ = ("_asked", "_epoch", "_feed", "_position", "_requests", "_scored", "_values")

    def __init__(self, feed: ChangeFeed, *, scored: tuple[int, int], requests: tuple[int, int]) -> None:
        """Score for a pod.

        Args:
            feed: the feed of the state.
            scored: what the pod adds as scoring counts it, milli-cores and bytes.
            requests: what the pod really asks for; a pod that asks for neither is not scored by
                BalancedAllocation.
        """
        self._feed = feed
        self._epoch = -1
        self._position = 0
        self._asked = scored, requests
        self._scored = np.array(scored, dtype=np.int64)
        self._requests = np.array(requests, dtype=np.int64) if any(requests) else None
        self._values: NDArray[np.int64] = np.zeros(0, dtype=np.int64)

    def values(self) -> NDArray[np.int64]:
        """Return the scores by row, shape (capacity,); within an epoch it is one array, kept up to date."""
        feed = self._feed
        if feed.epoch != self._epoch:
            self._values = self.of_rows(np.arange(feed.state.capacity, dtype=np.intp))
        elif feed.length - self._position <= _FEW_ROWS:
            for row in feed.rows_since(self._position).tolist():
                self._values[row] = self._of_row(row)
        else:
            is_touched = np.zeros(self._values.size, dtype=np.bool_)
            is_touched[feed.rows_since(self._position)] = True
            rows = is_touched.nonzero()[0]
            self._values[rows] = self.of_rows(rows)
        self._epoch, self._position = feed.epoch, feed.length
        return self._values

    def of_rows(self, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return the scores of `rows`, made anew, shape (rows,)."""
        return self.least_allocated(rows) + self.balanced_allocation(rows)

    def least_allocated(self, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return the score of NodeResourcesFit for `rows`, shape (rows,)."""
        state = self._feed.state
        return least_allocated(state.allocatable[rows][:, :2], state.scored[rows] + self._scored)

    def balanced_allocation(self, rows: NDArray[np.intp]) -> NDArray[np.int64] | int:
        """Return the score of BalancedAllocation for `rows`, shape (rows,); 0 when it does not score."""
        if self._requests is None:
            return 0
        state = self._feed.state
        return balanced_allocation(
            state.allocatable[rows][:, :2], state.requested[rows][:, :2], self._requests
        )

    def _of_row(self, row: int) -> int:
        """Return the score of one row: the same arithmetic on plain numbers, faster for a few rows."""
        state = self._feed.state
        cpu, memory = state.allocatable.item(row, 0), state.allocatable.item(row, 1)
        if cpu == 0 or memory == 0:
            return int(self.of_rows(np.array([row], dtype=np.intp))[0])
        (cpu_scored, memory_scored), (cpu_asked, memory_asked) = self._asked
        cpu_left = cpu - state.scored.item(row, 0) - cpu_scored
        memory_left = memory - state.scored.item(row, 1) - memory_scored
        cpu_score = cpu_left * MAX_NODE_SCORE // cpu if cpu_left > 0 else 0
        memory_score = memory_left * MAX_NODE_SCORE // memory if memory_left > 0 else 0
        score = (cpu_score + memory_score) // 2
        if self._requests is None:
            return score
        cpu_used, memory_used = state.requested.item(row, 0), state.requested.item(row, 1)
        without_pod = _balance(cpu_used / cpu, memory_used / memory)
        with_pod = _balance((cpu_used + cpu_asked) / cpu, (memory_used + memory_asked) / memory)
        half = MAX_NODE_SCORE // 2
        return score + half + (half + with_pod - without_pod) // 2


def _balance(cpu_share: float, memory_share: float) -> int:
    """Return 50–100 for the used shares of a node."""
    deviation = abs((min(cpu_share, 1.0) - min(memory_share, 1.0)) / 2)
    return int((1 - deviation) * float(MAX_NODE_SCORE))
