"""Orders by rank, computed once per workflow and set of machines: HEFT, CPOP, PEFT, and by process.

The papers schedule a whole DAG onto idle processors before anything runs. Here the ranks are theirs, while
tasks are taken as they become ready and nodes as they are: the dynamic form of list scheduling that a cluster
allows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain import PendingTask, Workflow
from stowplan.core.policy.feed import ChangeFeed
from stowplan.core.policy.interface import CycleView
from stowplan.core.policy.machines import Machines
from stowplan.core.policy.orders.queue import collect, sort_tasks
from stowplan.core.policy.ranks import critical_tasks, downward_ranks, optimistic_costs, upward_ranks

__all__ = ["CombinedRank", "HeftRank", "OptimisticCost", "ProcessRank", "WorkflowRanks"]

_CACHED_WORKFLOWS = 4096


@dataclass(frozen=True, slots=True)
class Ranks:
    """What is known of one workflow on the cluster's machine types.

    Attributes:
        priority: (tasks,) higher goes first.
        is_critical: (tasks,) on CPOP's critical path; all False for other rules.
        critical_type: index of the machine type that runs the critical path fastest.
        costs_s: (tasks, types) PEFT's optimistic costs; zeros for other rules.
    """

    workflow: Workflow
    priority: NDArray[np.float64]
    is_critical: NDArray[np.bool_]
    critical_type: int
    costs_s: NDArray[np.float64]


class WorkflowRanks:
    """Ranks of the workflows seen lately; base of the rank orders, shared with their node rules."""

    def __init__(self, *, bytes_per_s: float | None = None) -> None:
        """Rank with communication at `bytes_per_s` (a whole output to each child); None: it costs nothing."""
        self._bytes_per_s = bytes_per_s
        self._feed: ChangeFeed | None = None
        self._machines: Machines | None = None
        self._version = -1
        self._ranks: dict[int, Ranks] = {}

    def __call__(self, view: CycleView) -> NDArray[np.intp]:
        """Return the order by descending priority."""
        self.begin(view)
        return sort_tasks(view.pending, -collect(view.pending, lambda p: float(self.of(p).priority[p.index])))

    def begin(self, view: CycleView) -> None:
        """Look at the machines of the cycle; other machines make other ranks."""
        if self._feed is None or self._machines is None or self._feed.state is not view.state:
            self._feed = ChangeFeed(view.state)
            self._machines = Machines(self._feed)
            self._version = -1
        self._feed.catch_up()
        self._machines.counts  # noqa: B018  (reads the machines, so that `version` is current)
        if self._version != self._machines.version or len(self._ranks) > _CACHED_WORKFLOWS:
            self._version = self._machines.version
            self._ranks.clear()

    def of(self, pending: PendingTask) -> Ranks:
        """Return the ranks of the task's workflow."""
        workflow = pending.progress.workflow
        known = self._ranks.get(id(workflow))
        if known is None or known.workflow is not workflow:
            known = self._ranks[id(workflow)] = self._rank(workflow)
        return known

    def _rank(self, workflow: Workflow) -> Ranks:
        machines = self._machines
        if machines is None or not machines.counts.sum():
            durations_s = workflow.expected_s[:, None]
            counts = np.ones(1, dtype=np.int64)
        else:
            present = machines.counts > 0
            durations_s = np.array([task.expected_s * machines.factors(task) for task in workflow.tasks])
            counts = machines.counts
            durations_s[:, ~present] = np.inf
        return self.rank(workflow, durations_s, counts, self._communication(workflow))

    def _communication(self, workflow: Workflow) -> dict[tuple[int, int], float]:
        if self._bytes_per_s is None:
            return {}
        return {
            (parent, child): workflow.tasks[parent].output_bytes / self._bytes_per_s
            for parent, children in enumerate(workflow.children)
            for child in children
        }

    def rank(
        self,
        workflow: Workflow,
        durations_s: NDArray[np.float64],
        counts: NDArray[np.int64],
        communication_s: dict[tuple[int, int], float],
    ) -> Ranks:
        """Rank one workflow: HEFT's upward rank.

        Args:
            workflow: the DAG.
            durations_s: (tasks, types), inf where no node is of the type.
            counts: (types,) nodes of each type.
            communication_s: seconds per edge.
        """
        mean_s = _mean_s(durations_s, counts)
        return Ranks(
            workflow,
            upward_ranks(workflow, mean_s, communication_s),
            np.zeros(len(workflow), dtype=np.bool_),
            0,
            np.zeros_like(durations_s),
        )


class HeftRank(WorkflowRanks):
    """HEFT: highest upward rank first (Topcuoglu et al. 2002, section 4.2)."""


class CombinedRank(WorkflowRanks):
    """CPOP: highest sum of upward and downward rank first, with the critical path marked (section 4.3)."""

    def rank(
        self,
        workflow: Workflow,
        durations_s: NDArray[np.float64],
        counts: NDArray[np.int64],
        communication_s: dict[tuple[int, int], float],
    ) -> Ranks:
        """Rank one workflow by rank_u + rank_d; arguments as in the base."""
        mean_s = _mean_s(durations_s, counts)
        priority = upward_ranks(workflow, mean_s, communication_s) + downward_ranks(
            workflow, mean_s, communication_s
        )
        is_critical = critical_tasks(workflow, priority)
        critical_type = int(durations_s[is_critical].sum(axis=0).argmin())
        return Ranks(workflow, priority, is_critical, critical_type, np.zeros_like(durations_s))


class OptimisticCost(WorkflowRanks):
    """PEFT: highest mean optimistic cost first, and the table for the choice of machine."""

    def rank(
        self,
        workflow: Workflow,
        durations_s: NDArray[np.float64],
        counts: NDArray[np.int64],
        communication_s: dict[tuple[int, int], float],
    ) -> Ranks:
        """Rank one workflow by the mean of its optimistic costs; arguments as in the base."""
        remaining_share = np.maximum(counts - 1, 0) / np.maximum(counts, 1)
        costs_s = optimistic_costs(workflow, durations_s, communication_s, remaining_share)
        return Ranks(workflow, _mean_s(costs_s, counts), np.zeros(len(workflow), dtype=np.bool_), 0, costs_s)


class ProcessRank:
    """Rank of the task's process in the DAG, descending; the smaller input first among equals ("rank min").

    The rank of a process is the number of edges on the longest path from any of its tasks to an exit.

    Source: F. Lehmann, J. Bader, F. Tschirpke, L. Thamsen, U. Leser, "How Workflow Engines Should Talk to
    Resource Managers: A Proposal for a Common Workflow Scheduling Interface", CCGrid 2023, section V
    (strategies).
    """

    def __init__(self) -> None:
        """Know no workflow yet."""
        self._heights: dict[int, tuple[Workflow, NDArray[np.float64]]] = {}

    def __call__(self, view: CycleView) -> NDArray[np.intp]:
        """Return the order of the view's tasks."""
        if len(self._heights) > _CACHED_WORKFLOWS:
            self._heights.clear()
        pending = view.pending
        heights = collect(pending, self._height)
        return sort_tasks(pending, -heights, collect(pending, lambda p: p.task.input_bytes))

    def _height(self, pending: PendingTask) -> float:
        workflow = pending.progress.workflow
        known = self._heights.get(id(workflow))
        if known is None or known[0] is not workflow:
            known = self._heights[id(workflow)] = (workflow, process_heights(workflow))
        return float(known[1][pending.index])


def process_heights(workflow: Workflow) -> NDArray[np.float64]:
    """Return the height of each task's process: edges on the longest path to an exit, shape (tasks,)."""
    heights = np.zeros(len(workflow), dtype=np.float64)
    for task in reversed(workflow.topological_order):
        heights[task] = max((heights[child] + 1 for child in workflow.children[task]), default=0.0)
    highest: dict[str, float] = {}
    processes = [task.template or task.name for task in workflow.tasks]
    for process, height in zip(processes, heights, strict=True):
        highest[process] = max(highest.get(process, 0.0), float(height))
    return np.array([highest[process] for process in processes], dtype=np.float64)


def _mean_s(durations_s: NDArray[np.float64], counts: NDArray[np.int64]) -> NDArray[np.float64]:
    present = counts > 0
    return (durations_s[:, present] * counts[present]).sum(axis=1) / counts[present].sum()
