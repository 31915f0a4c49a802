"""Carrying out a plan: its tasks start in its order, and none overtakes.

A plan is a list of task keys (WORKFLOW/TASK), by planned start. A task of the plan is placed when all before
it have been; until then it waits, even if there is room. That is how a plan's waits are carried out: where no
task of the plan could start earlier with the others as they are (an active schedule), starting them in this
order gives the same schedule. It takes no clock, and where tasks end sooner than planned, none starts later.

Tasks that the plan does not name come after those that it names, by arrival, and wait for nobody. A task of
the plan holds up none when its workflow is not under way, when it was skipped, or when it is to be placed
again. While nothing runs, the first task in order does not wait for tasks that are not ready, so that a plan
which puts a child before its parent comes to an end all the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from stowplan.core.constraints import CompiledFilters
from stowplan.core.domain import PendingTask, TaskStatus, WorkflowProgress
from stowplan.core.policy.interface import CycleView
from stowplan.core.policy.kube import KubeScoring
from stowplan.core.policy.orders.queue import collect, sort_tasks
from stowplan.errors import InvalidInput

__all__ = ["InTurn", "PlannedOrder"]

_CACHED_WORKFLOWS = 4096


class PlannedOrder:
    """Orders by a plan, and leaves out what must wait for tasks that are not ready yet."""

    def __init__(self, keys: Sequence[str]) -> None:
        """Follow `keys`, the first to start first.

        Raises:
            InvalidInput: a key occurs twice.
        """
        self._position = {key: float(position) for position, key in enumerate(keys)}
        for position, key in enumerate(keys):
            if self._position[key] != position:
                raise InvalidInput(f"the plan names task {key!r} twice; name each task once")
        self._positions: dict[int, tuple[WorkflowProgress, NDArray[np.float64]]] = {}
        self._before: dict[str, str] = {}

    def __call__(self, view: CycleView) -> NDArray[np.intp]:
        """Return the order of the tasks whose turn may have come."""
        pending = view.pending
        position = collect(pending, lambda p: self._position.get(p.key, np.inf))
        order = sort_tasks(pending, position)
        open_until = min((self._first_waiting(progress) for progress in _under_way(view)), default=np.inf)
        turn_may_come = (position[order] < open_until) | np.isinf(position[order])
        if not view.running:
            turn_may_come[:1] = True
        order = order[turn_may_come]
        planned = [pending[index].key for index in map(int, order) if position[index] < np.inf]
        self._before = dict(zip(planned[1:], planned, strict=False))
        return order

    def before(self, key: str) -> str | None:
        """Return the task of the plan that is right before `key` in this cycle's order, if any."""
        return self._before.get(key)

    def _first_waiting(self, progress: WorkflowProgress) -> float:
        """Return the first position of a task of the workflow that waits for parents; inf: there is none."""
        known = self._positions.get(id(progress))
        if known is None or known[0] is not progress:
            if len(self._positions) >= _CACHED_WORKFLOWS:
                self._positions.clear()
            keys = [f"{progress.key}/{task.name}" for task in progress.workflow.tasks]
            positions = np.array([self._position.get(key, np.inf) for key in keys])
            known = self._positions[id(progress)] = progress, positions
        return float(known[1].min(where=progress.status == TaskStatus.WAITING, initial=np.inf))


def _under_way(view: CycleView) -> Iterator[WorkflowProgress]:
    """Return every workflow that has a pending or running task, once."""
    tasks = [*view.pending, *(running.pending for running in view.running.values())]
    return iter({id(task.progress): task.progress for task in tasks}.values())


class InTurn(KubeScoring):
    """Scores nodes as kube-scheduler does, once the task before in the plan has its node."""

    def __init__(self, order: PlannedOrder) -> None:
        """Go by the turns of `order`."""
        super().__init__()
        self._order = order

    def scores(self, task: PendingTask, filters: CompiledFilters) -> NDArray[np.float64]:
        """Return a score per row; −inf everywhere while it is not the task's turn."""
        before = self._order.before(task.key)
        if before is not None and before not in self.state.pods:
            return np.full(self.state.capacity, -np.inf)
        return super().scores(task, filters)
