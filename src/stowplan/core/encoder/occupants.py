"""What runs on each node, as far as a view tells, and what it takes there.

A pod's work is known from the running tasks, or from the pending ones when it was placed in this cycle; of
others only what they request. Nothing else is remembered: a pod is worth what the view says of it, so that a
decision can be made again from its record. What is kept between cycles is found again only where pods came or
went, or where the view says something else of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain import (
    BoundPod,
    ClusterState,
    PendingTask,
    PodShape,
    Task,
)
from stowplan.core.encoder.demands import Demands
from stowplan.core.encoder.factors import usable_factor
from stowplan.core.physics.vocabulary import RESOURCE_COUNT, Resource
from stowplan.core.policy.demand import TaskDemand, requested_demand
from stowplan.core.policy.interface import CycleView
from stowplan.core.policy.running import RunningWatch

__all__ = ["ASKED", "EXPOSED", "EXPOSED_CORES", "KNOWN", "OCCUPANT_COLUMNS", "OTHER_CORES", "Occupants"]

Doubles = NDArray[np.float64]

EXPOSED: Final = RESOURCE_COUNT
EXPOSED_CORES: Final = RESOURCE_COUNT + 1
KNOWN: Final = RESOURCE_COUNT + 2
OTHER_CORES: Final = RESOURCE_COUNT + 3
ASKED: Final = slice(RESOURCE_COUNT + 4, 2 * RESOURCE_COUNT + 4)
OCCUPANT_COLUMNS: Final = 2 * RESOURCE_COUNT + 4
"""What is summed over the pods of a node: units of each `Resource` per second, exposed latency shares, the
same times cores, how many of the pods are known tasks, the cores that the others request, and units of each
`Resource` per second of work on the reference machine."""
_MOST: Final = 16384  # pods and tasks remembered, unless more are bound


class Occupants:
    """Sums over the pods of each node of one state."""

    def __init__(self, state: ClusterState, demands: Demands) -> None:
        """Know nothing of the pods of `state` yet."""
        self._state = state
        self._demands = demands
        self._view: CycleView | None = None
        self._pods: dict[str, tuple[BoundPod, int]] = {}
        self._numbers: dict[tuple[int, str] | PodShape, int] = {}  # of task and machine type, or of shape
        self._tasks: list[Task | None] = []  # kept, so that their identity stays their own
        self._sums: Doubles = np.empty((256, OCCUPANT_COLUMNS))
        self._running = RunningWatch()
        self._pending: dict[str, PendingTask] | None = None
        self._assumed: set[str] = set()  # known from the pending tasks of the cycle

    def begin(self, view: CycleView) -> set[int] | None:
        """Start a cycle; return the rows with a pod of which the view says something else than before.

        Returns:
            The rows; None: all.
        """
        self._view = view
        self._pending = None
        has_much = len(self._pods) + len(self._tasks) > max(_MOST, 4 * len(self._state.pods))
        if has_much:
            self._forget()
        stale = self._assumed | self._running.changed(view)
        self._assumed = set()
        if has_much:
            return None
        rows: set[int] = set()
        for key in stale:
            self._pods.pop(key, None)
            held = self._state.pods.get(key)
            if held is not None:
                rows.add(held[1])
        return rows

    def forget_row(self, row: int) -> None:
        """Look at the pods of `row` anew: its machine may be another one."""
        for key in self._state.pods_on[row]:
            self._pods.pop(key, None)

    def sums_on(self, rows: Sequence[int], types: Sequence[str]) -> Doubles:
        """Return the sums over the pods of each of `rows`, float64 (rows, OCCUPANT_COLUMNS).

        Args:
            rows: of the state.
            types: machine type of each.
        """
        numbers: list[int] = []
        counts: list[int] = []
        pods_on, known = self._state.pods_on, self._pods
        for row, kind in zip(rows, types, strict=True):
            pods = pods_on[row]
            counts.append(len(pods))
            for key, pod in pods.items():
                held = known.get(key)
                if held is None or held[0] is not pod:
                    held = known[key] = (pod, self._number_of(key, pod, kind))
                numbers.append(held[1])
        # bincount adds one by one in the order given, so a row's sum is the same whatever else is summed.
        cells = np.repeat(np.arange(len(rows)) * OCCUPANT_COLUMNS, counts)[:, None] + np.arange(
            OCCUPANT_COLUMNS
        )
        found = np.bincount(
            cells.ravel(), self._sums[numbers].ravel(), minlength=len(rows) * OCCUPANT_COLUMNS
        )
        return found.astype(np.float64, copy=False).reshape(len(rows), OCCUPANT_COLUMNS)

    # ---- what the view says ----

    def _number_of(self, key: str, pod: BoundPod, kind: str) -> int:
        view = self._view
        running = None if view is None else view.running.get(key)
        if running is not None:
            return self._number_of_task(running.pending.task, kind)
        own = self._pending_of(key)
        if own is not None:
            self._assumed.add(key)
            return self._number_of_task(own.task, kind)
        number = self._numbers.get(pod.shape)
        if number is None:
            number = self._numbers[pod.shape] = self._add(
                None, _sums_of(requested_demand(pod.shape), kind, 0)
            )
        return number

    def _pending_of(self, key: str) -> PendingTask | None:
        if self._pending is None:
            self._pending = {} if self._view is None else {task.key: task for task in self._view.pending}
        return self._pending.get(key)

    def _number_of_task(self, task: Task, kind: str) -> int:
        number = self._numbers.get((id(task), kind))
        if number is None:
            number = self._add(task, _sums_of(self._demands.of(task), kind, 1))
            self._numbers[id(task), kind] = number
        return number

    def _add(self, task: Task | None, sums: Doubles) -> int:
        number = len(self._tasks)
        self._tasks.append(task)
        if number == len(self._sums):
            self._sums = np.concatenate([self._sums, np.empty_like(self._sums)])
        self._sums[number] = sums
        return number

    def _forget(self) -> None:
        self._pods.clear()
        self._numbers.clear()
        self._tasks.clear()
        self._assumed.clear()


def _sums_of(demand: TaskDemand, kind: str, known: int) -> Doubles:
    """Return what one pod adds: its rates when it is alone on the machine, which what it shares lowers."""
    quota = demand.quota
    sums = np.empty(OCCUPANT_COLUMNS)
    sums[:RESOURCE_COUNT] = demand.per_s * (quota / usable_factor(demand.factor_on(kind)))
    sums[Resource.CPU] = demand.per_s[Resource.CPU] * quota  # for longer, where the machine is slower
    sums[EXPOSED] = demand.exposed
    sums[EXPOSED_CORES] = demand.exposed * sums[Resource.CPU]
    sums[KNOWN] = known
    sums[OTHER_CORES] = 0.0 if known else sums[Resource.CPU]
    sums[ASKED] = demand.per_s
    return sums
