"""Rates of tasks that share a node, remembered: the same company is met again and again.

What is foreseen from one cycle is mostly foreseen from the next as well, and of a cycle's candidates most
nodes get the same. The contention law is solved once for each company. It is solved coarsely: a rate within a
few percent is as good as what is known of the tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain import Node, PodShape, Task
from stowplan.core.physics.laws import PhysicsLaws
from stowplan.core.policy.demand import TaskDemand, capacity_of, demand_of_task, requested_demand
from stowplan.core.policy.nodes.predicted import rates_beside

__all__ = ["Rates"]

_MOST_RATES: Final = 100_000
"""Rates that are remembered: with what tells them apart some 100 bytes each."""
_MOST_DEMANDS: Final = 8192
_SWEEPS: Final = 8
_LOAD_TOLERANCE: Final = 0.02

_Key = tuple[int, tuple[int, ...]]


class Rates:
    """Demands, capacities and rates, a function of their arguments whatever is remembered."""

    def __init__(self, laws: PhysicsLaws) -> None:
        """Know nothing yet."""
        self._laws = replace(laws, solver_sweeps=min(_SWEEPS, laws.solver_sweeps))
        self._demands: dict[int, tuple[Task, TaskDemand]] = {}  # by identity of the task
        self._requested: dict[PodShape, TaskDemand] = {}
        self._capacities: dict[int, tuple[Node, NDArray[np.float64]]] = {}  # by identity of the node
        self._rates: dict[_Key, tuple[Sequence[TaskDemand], list[float]]] = {}
        self.remembered = 0
        """How many rates are held."""

    @property
    def demands(self) -> int:
        """How many demands are held."""
        return len(self._demands) + len(self._requested)

    def start(self) -> None:
        """Begin a cycle: forget all when it has become too much."""
        if self.remembered > _MOST_RATES or self.demands > _MOST_DEMANDS:
            self._demands.clear()
            self._requested.clear()
            self._capacities.clear()
            self._rates.clear()
            self.remembered = 0

    def demand_of(self, task: Task) -> TaskDemand:
        """Return what a task needs."""
        known = self._demands.get(id(task))
        if known is None:
            known = self._demands[id(task)] = (task, demand_of_task(task))
        return known[1]

    def demand_of_pod(self, shape: PodShape) -> TaskDemand:
        """Return what a pod needs of which only the request is known."""
        known = self._requested.get(shape)
        if known is None:
            known = self._requested[shape] = requested_demand(shape)
        return known

    def capacity(self, node: Node) -> NDArray[np.float64]:
        """Return what a node has of each resource, shape (RESOURCE_COUNT,)."""
        known = self._capacities.get(id(node))
        if known is None:
            known = self._capacities[id(node)] = (node, np.array(capacity_of(node)))
        return known[1]

    def of(self, node: Node, company: Sequence[TaskDemand]) -> list[float]:
        """Return the work per second of each task of a `company` that runs on `node`."""
        capacity = self.capacity(node)  # keeps the node, so that its identity stays its own
        key = (id(node), tuple(map(id, company)))
        known = self._rates.get(key)
        if known is None:
            kind = node.hardware.machine_type
            rates = rates_beside(capacity[None, :], [kind], [company], self._laws, tolerance=_LOAD_TOLERANCE)
            known = self._rates[key] = (company, rates[0].tolist())
            self.remembered += len(company)
        return known[1]
