"""The node where physics says that the task ends first, given what runs there.

Tasks are taken with the mean of their demands over their phases. All feasible nodes are ranked by an estimate
that needs only sums (`stretch`); the most promising are then solved with the contention law (`prediction`).
Pods of which only the request is known count as busy on the cores they ask for.

The law and its sources: `core.physics`, `prediction`. Its use as a placement rule is ours, a proposal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stowplan.core.constraints import CompiledFilters
from stowplan.core.domain import PendingTask, PodShape, Task
from stowplan.core.physics.laws import PhysicsLaws
from stowplan.core.physics.vocabulary import RESOURCE_COUNT, Resource
from stowplan.core.policy.demand import TaskDemand, capacity_of, demand_of_task, requested_demand
from stowplan.core.policy.interface import CycleView
from stowplan.core.policy.nodes.base import NodeRule
from stowplan.core.policy.nodes.finish_time import earliest
from stowplan.core.policy.prediction import NodeBatch, predicted_rates
from stowplan.core.policy.running import RunningWatch
from stowplan.core.policy.stretch import Asked, Held, estimated_stretch
from stowplan.errors import InvalidInput

__all__ = ["PredictedDuration", "rates_beside"]

_NEVER_S = 1e15
_MOST_DEMANDS = 2048  # between two cycles, of tasks that may be over
_MOST_GONE = 1024  # pods that are remembered, and may be gone


class _Known(NamedTuple):
    """What a pod takes: what its task does; if it is nobody's, what its shape requests."""

    task: Task | None
    shape: PodShape
    demand: TaskDemand

    def holds(self, task: Task | None, shape: PodShape) -> bool:
        """Whether that is so of a pod that is of this task and shape."""
        return _is_same(self.task, task) and (task is not None or self.shape is shape or self.shape == shape)


class PredictedDuration(NodeRule):
    """Scores nodes by minus the predicted duration in seconds."""

    def __init__(self, *, laws: PhysicsLaws | None = None, solved_nodes: int = 8) -> None:
        """Predict with `laws`, solving the `solved_nodes` most promising nodes per task; 0: estimates decide.

        Raises:
            InvalidInput: `solved_nodes` is negative.
        """
        super().__init__()
        if solved_nodes < 0:
            raise InvalidInput(f"solved_nodes is {solved_nodes}; give 0 or more nodes to solve per task")
        self._laws = laws or PhysicsLaws()
        self._solved_nodes = solved_nodes
        self._known: dict[str, _Known] = {}  # by pod
        self._demands: dict[int, tuple[Task, TaskDemand]] = {}  # by the task's identity: many pods share one
        self._own: dict[str, Task] = {}  # tasks of this cycle, which may have a node since
        self._running = RunningWatch()
        self._stale: set[int] = set()  # rows with a pod of which more, or less, is known than before
        self._latest: tuple[str, NDArray[np.float64]] | None = None
        self._epoch = -1
        self._position = 0
        self._capacity: NDArray[np.float64] = np.zeros((0, RESOURCE_COUNT))
        self._load: NDArray[np.float64] = np.zeros((0, RESOURCE_COUNT))
        self._tasks_on: list[list[TaskDemand]] = []

    def begin(self, view: CycleView) -> None:
        """Start a cycle. What is known of pods is what the view says, not what was known once."""
        if self.is_other_state(view):
            self._known.clear()
            self._epoch = -1
        if len(self._demands) > _MOST_DEMANDS:
            self._demands.clear()
        self._latest = None
        changed = self._running.changed(view) | self._own.keys()
        self._own.clear()
        super().begin(view)
        pods = view.state.pods
        if len(self._known) > _MOST_GONE + 2 * len(pods):
            self._known = {key: known for key, known in self._known.items() if key in pods}
        for key in changed:
            known, held = self._known.get(key), pods.get(key)
            if known is None:
                continue
            if held is None:
                del self._known[key]
            elif not _is_same(known.task, self._task_of(key)):
                del self._known[key]
                self._stale.add(held[1])

    def scores(self, task: PendingTask, filters: CompiledFilters) -> NDArray[np.float64]:
        """Return minus the predicted seconds by row; nodes that are not promising keep their estimate."""
        self._own[task.key] = task.task
        demand = self._demand_of(task.key, task.task.shape)
        durations_s = self._durations_s(task, demand, np.flatnonzero(filters.feasible))
        self._latest = (task.key, durations_s)
        return earliest(self, durations_s)

    def expected_duration_s(self, task: PendingTask, row: int) -> float:
        """Return the predicted seconds on `row`, among what ran there before the task came."""
        if self._latest is not None and self._latest[0] == task.key:
            return float(self._latest[1][row])
        demand = self._demand_of_task(task.task)
        self._follow()
        others = self._tasks_of(row)
        if task.key in self.state.pods_on[row]:
            others.pop(list(self.state.pods_on[row]).index(task.key))
        rate = float(self._solve(demand, [row], [others])[0])
        return min(task.task.expected_s / max(rate, 1e-12), _NEVER_S)

    def contributions(self, task: PendingTask, row: int) -> Mapping[str, float]:
        """Return the seconds that the machine and the neighbours save (negative: cost)."""
        alone_s = self.machines.duration_s(task.task, row)
        return {
            "machine": task.task.expected_s - alone_s,
            "neighbours": alone_s - self.expected_duration_s(task, row),
        }

    # ---- what runs where ----

    def _follow(self) -> None:
        feed = self.feed
        feed.catch_up()
        if feed.epoch != self._epoch:
            self._capacity = self._capacities()
            self._load = np.zeros((self.state.capacity, RESOURCE_COUNT))
            self._tasks_on = [[] for _ in range(self.state.capacity)]
            rows = [row for _, row in self.state.rows()]
        elif feed.length > self._position or self._stale:
            touched = feed.rows_since(self._position).tolist()
            rows = sorted(self._stale.union(touched))
        else:
            return
        self._epoch, self._position = feed.epoch, feed.length
        self._stale.clear()
        for row in rows:
            tasks = self._tasks_on[row] = self._tasks_of(row)
            self._load[row] = np.sum([task.per_s for task in tasks], axis=0) if tasks else 0.0

    def _tasks_of(self, row: int) -> list[TaskDemand]:
        """Return what shares the resources of a row; subclasses may know of more, and of other capacities."""
        return [self._demand_of(key, pod.shape) for key, pod in self.state.pods_on[row].items()]

    def _task_of(self, key: str) -> Task | None:
        running = self.view.running.get(key)
        return running.pending.task if running is not None else self._own.get(key)

    def _demand_of(self, key: str, shape: PodShape) -> TaskDemand:
        task, known = self._task_of(key), self._known.get(key)
        if known is not None and known.holds(task, shape):
            return known.demand
        demand = self._demand_of_task(task) if task is not None else requested_demand(shape)
        self._known[key] = _Known(task, shape, demand)
        return demand

    def _demand_of_task(self, task: Task) -> TaskDemand:
        known = self._demands.get(id(task))
        if known is not None and known[0] is task:
            return known[1]
        demand = demand_of_task(task)
        self._demands[id(task)] = (task, demand)
        return demand

    def _capacities(self) -> NDArray[np.float64]:
        capacity = np.full((self.state.capacity, RESOURCE_COUNT), np.inf)
        for _, row in self.state.rows():
            capacity[row] = capacity_of(self.state.node(row))
        return capacity

    # ---- prediction ----

    def _durations_s(
        self, task: PendingTask, demand: TaskDemand, rows: NDArray[np.intp]
    ) -> NDArray[np.float64]:
        self._follow()
        durations_s = np.full(self.state.capacity, _NEVER_S)
        if rows.size == 0:
            return durations_s
        stretch = self._estimated_stretch(demand, rows)
        alone_s = self.machines.durations_s(task.task)[rows]
        estimate_s = alone_s * stretch
        promising = _places_of_least(estimate_s, self._solved_nodes)
        if (stretch[promising] > 1.0).any():
            chosen = rows[promising].tolist()
            rates = self._solve(demand, chosen, [self._tasks_on[row] for row in chosen])
            estimate_s[promising] = task.task.expected_s / np.maximum(rates, 1e-12)
        durations_s[rows] = np.minimum(estimate_s, _NEVER_S)
        return durations_s

    def _estimated_stretch(self, demand: TaskDemand, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        asked = Asked(demand.per_s[None, :], np.array([demand.exposed]), np.array([demand.quota]))
        held = Held(self._load[rows], self._capacity[rows])
        return estimated_stretch(asked, held, self._laws)[0].astype(np.float64, copy=False)

    def _solve(
        self, demand: TaskDemand, rows: list[int], others: list[list[TaskDemand]]
    ) -> NDArray[np.float64]:
        """Return the rate of the task on each of `rows` beside `others`, shape (rows,)."""
        kinds = [self.state.node(row).hardware.machine_type for row in rows]
        tasks = [[demand, *beside] for beside in others]
        return rates_beside(self._capacity[rows], kinds, tasks, self._laws)[:, 0]


def rates_beside(
    capacity: NDArray[np.float64],
    kinds: Sequence[str],
    tasks: Sequence[Sequence[TaskDemand]],
    laws: PhysicsLaws,
    *,
    tolerance: float = 1e-4,
) -> NDArray[np.float64]:
    """Return the work per second of tasks that share nodes, shape (nodes, most tasks on one).

    Args:
        capacity: (nodes, RESOURCE_COUNT), see `capacity_of`.
        kinds: machine type of each node.
        tasks: what runs on each.
        laws: constants of the contention law.
        tolerance: of the memory load, 0–1.
    """
    shape = (len(tasks), max(map(len, tasks), default=0), RESOURCE_COUNT)
    batch = NodeBatch(np.zeros(shape), np.ones(shape), capacity, np.zeros(shape[:2]), np.zeros(shape[:2]))
    for at, kind in enumerate(kinds):
        for place, one in enumerate(tasks[at]):
            batch.demand[at, place] = one.per_s
            batch.demand[at, place, Resource.CPU] = one.per_s[Resource.CPU] * one.factor_on(kind)
            batch.weight[at, place] = one.weight
            batch.exposed[at, place] = one.exposed
            batch.alone[at, place] = one.rate_alone(kind)
    return predicted_rates(batch, laws, tolerance=tolerance)


def _places_of_least(values: NDArray[np.float64], count: int) -> NDArray[np.intp]:
    """Return the places of the `count` least values, ascending; equal ones in their order."""
    places: NDArray[np.intp] = np.arange(values.size)
    if count == 0:
        return places[:0]
    if values.size > count:
        (places,) = np.nonzero(values <= np.partition(values, count - 1)[count - 1])
    return places[np.argsort(values[places], kind="stable")[:count]]


def _is_same(one: Task | None, other: Task | None) -> bool:
    if one is other:
        return True
    return one is not None and other is not None and one.work == other.work and one.shape == other.shape
