"""Orders that read what every pending task already knows: arrival, duration, remaining work, upward rank.

Priority classes come first in every order, as kube-scheduler's queue has them: a pod of a higher class never
waits for a lower one because of a heuristic. What follows is per rule, and arrival settles the rest, so every
order is total.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain import PendingTask
from stowplan.core.policy.interface import CycleView

__all__ = ["by_arrival", "by_duration", "by_remaining_work", "by_upward_rank", "collect", "sort_tasks"]


def collect(pending: Sequence[PendingTask], of: Callable[[PendingTask], float]) -> NDArray[np.float64]:
    """Return one number per pending task, shape (tasks,)."""
    return np.fromiter(map(of, pending), dtype=np.float64, count=len(pending))


def sort_tasks(pending: Sequence[PendingTask], *keys: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the order by priority class, then ascending `keys`, then arrival, shape (tasks,).

    Args:
        pending: tasks in order of arrival.
        keys: (tasks,) each, the most significant first.
    """
    priority = collect(pending, _priority)
    if priority.size and (priority != priority[0]).any():
        return np.lexsort((*reversed(keys), -priority))  # lexsort is stable: equal tasks keep their arrival
    if not keys:
        return np.arange(len(pending), dtype=np.intp)
    return np.lexsort(keys[::-1])


def _priority(pending: PendingTask) -> float:
    return pending.task.shape.priority


def by_arrival(view: CycleView) -> NDArray[np.intp]:
    """First come, first served: kube-scheduler's PrioritySort."""
    return sort_tasks(view.pending)


def by_duration(view: CycleView) -> NDArray[np.intp]:
    """Shortest expected task first; the smaller request first among equals.

    Source: R. Wang et al., "A Bi-Level Framework for Learning to Solve Combinatorial Optimization on Graphs",
    NeurIPS 2021, section 4.1 (shortest job first).
    """
    pending = view.pending
    cpu_milli = collect(pending, lambda p: p.task.shape.score_cpu_milli)
    return sort_tasks(pending, collect(pending, lambda p: p.task.expected_s), cpu_milli)


def by_remaining_work(view: CycleView) -> NDArray[np.intp]:
    """Least remaining work of the whole workflow first; within it, the longest remaining path first.

    Source: L. Schrage, "A Proof of the Optimality of the Shortest Remaining Processing Time Discipline",
    Operations Research 16(3), 1968: the rule that minimises mean completion time on one server, here by
    workflow.
    """
    pending = view.pending
    remaining_s = collect(pending, lambda p: p.progress.remaining_work_s)
    return sort_tasks(pending, remaining_s, -collect(pending, _upward_rank_s))


def by_upward_rank(view: CycleView) -> NDArray[np.intp]:
    """Longest remaining path first: critical-path scheduling.

    Source: R. L. Graham, "Bounds on Multiprocessing Timing Anomalies", SIAM Journal on Applied Mathematics
    17(2), 1969, list scheduling; T. C. Hu, Operations Research 9(6), 1961, for the level as priority.
    """
    return sort_tasks(view.pending, -collect(view.pending, _upward_rank_s))


def _upward_rank_s(pending: PendingTask) -> float:
    return float(pending.progress.upward_rank_s[pending.index])
