"""Earliest finish time: HEFT's, CPOP's and PEFT's choice of machine, for nodes that are free now.

A feasible node can start a task at once, so the finish time is the task's duration there. Several tasks share
a node here, unlike a processor in the papers; among nodes that finish it at the same time the emptier one is
taken, as an idle processor would be.

Sources: H. Topcuoglu, S. Hariri, M.-Y. Wu, IEEE TPDS 13(3), 2002, sections 4.2 and 4.3; H. Arabnejad, J.
Barbosa, IEEE TPDS 25(3), 2014, section 4.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stowplan.core.constraints import CompiledFilters
from stowplan.core.domain import PendingTask
from stowplan.core.policy.demand import busy_share
from stowplan.core.policy.interface import CycleView
from stowplan.core.policy.nodes.base import NodeRule
from stowplan.core.policy.orders.ranked import WorkflowRanks

__all__ = ["CriticalMachine", "EarliestFinish", "OptimisticFinish"]

_SAME = 1e-6  # finish times that differ by less than this, relative, are equal
_SHORTEST_S = 1e-3  # tells empty nodes from busy ones for tasks that take no time


def earliest(rule: NodeRule, finish_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return scores that rank by finish time, then by how empty a node is, shape (capacity,)."""
    return -finish_s - _SAME * (finish_s + _SHORTEST_S) * busy_share(rule.state)


class EarliestFinish(NodeRule):
    """HEFT: the node where the task ends first."""

    def scores(self, task: PendingTask, filters: CompiledFilters) -> NDArray[np.float64]:  # noqa: ARG002
        """Return minus the finish time in seconds from now, by row."""
        return earliest(self, self.machines.durations_s(task.task))


class _Ranked(NodeRule):
    """A node rule that reads the ranks of the order rule it goes with."""

    def __init__(self, ranks: WorkflowRanks) -> None:
        """Read from `ranks`."""
        super().__init__()
        self.ranks = ranks

    def begin(self, view: CycleView) -> None:
        """Start a cycle."""
        super().begin(view)
        self.ranks.begin(view)


class CriticalMachine(_Ranked):
    """CPOP: critical tasks go to the type that runs their path fastest, others where they end first."""

    def scores(self, task: PendingTask, filters: CompiledFilters) -> NDArray[np.float64]:  # noqa: ARG002
        """Return minus the finish time; for a critical task, every other machine type ranks behind."""
        finish_s = self.machines.durations_s(task.task)
        ranks = self.ranks.of(task)
        if ranks.is_critical[task.index]:
            is_other = self.machines.type_ids != ranks.critical_type
            finish_s = finish_s + is_other * (1.0 + float(finish_s.max(initial=0.0)))
        return earliest(self, finish_s)


class OptimisticFinish(_Ranked):
    """PEFT: the node with the least finish time plus optimistic cost of all that follows."""

    def scores(self, task: PendingTask, filters: CompiledFilters) -> NDArray[np.float64]:  # noqa: ARG002
        """Return minus the optimistic finish time of the task's path, by row."""
        costs_s = np.nan_to_num(self.ranks.of(task).costs_s[task.index], posinf=0.0)
        return earliest(self, self.machines.durations_s(task.task) + costs_s[self.machines.type_ids])
