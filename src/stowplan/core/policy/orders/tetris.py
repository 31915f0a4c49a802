"""Tetris's order: tasks that fit their best node well first, of workflows with little work left.

score = alignment − ε · remaining work. Alignment is the best product of demand and remaining resources over
the nodes with room. Remaining work is the workflow's remaining seconds times the mean demand of its tasks
(multi-resource SRTF). ε makes the mean of the second term `remaining_weight` times the mean of the first,
over the pending tasks.

Source: R. Grandl, G. Ananthanarayanan, S. Kandula, S. Rao, A. Akella, "Multi-Resource Packing for Cluster
Schedulers", SIGCOMM 2014, sections 3.2 (alignment), 3.3 (remaining work and the combination).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain import CPU, CPU_COLUMN, MEMORY, MEMORY_COLUMN, PendingTask, PodShape, Workflow
from stowplan.core.policy.interface import CycleView
from stowplan.core.policy.nodes.packing import Alignment
from stowplan.core.policy.orders.queue import collect, sort_tasks
from stowplan.errors import InvalidInput

__all__ = ["TetrisOrder"]

_CACHED_WORKFLOWS = 4096


class TetrisOrder:
    """Orders by alignment and remaining work; the alignment is that of the node rule it goes with."""

    def __init__(self, alignment: Alignment, *, remaining_weight: float = 1.0) -> None:
        """Weigh remaining work by `remaining_weight` (0: by alignment alone).

        Raises:
            InvalidInput: the weight is negative or not finite.
        """
        if not (np.isfinite(remaining_weight) and remaining_weight >= 0.0):
            raise InvalidInput(f"remaining_weight is {remaining_weight}; it must be a finite number ≥ 0")
        self._alignment = alignment
        self._weight = remaining_weight
        self._demands: dict[int, tuple[Workflow, float]] = {}
        self._capacity: NDArray[np.int64] = np.zeros(2, dtype=np.int64)

    def __call__(self, view: CycleView) -> NDArray[np.intp]:
        """Return the order of the view's tasks by descending score."""
        pending = view.pending
        best: dict[PodShape, float] = {}

        def aligned(task: PendingTask) -> float:
            shape = task.task.shape
            known = best.get(shape)
            if known is None:
                known = best[shape] = self._best(view, shape)
            return known

        score = collect(pending, aligned)
        if self._weight > 0.0 and len(pending) > 0:
            if len(self._demands) > _CACHED_WORKFLOWS:
                self._demands.clear()
            capacity = np.maximum(view.state.allocatable[:, :2].max(axis=0, initial=1), 1)
            if not np.array_equal(capacity, self._capacity):  # demands are shares of it
                self._capacity = capacity
                self._demands.clear()
            remaining = collect(pending, lambda p: p.progress.remaining_work_s * self._demand(p, capacity))
            if remaining.mean() > 0.0:
                score -= self._weight * score.mean() / remaining.mean() * remaining
        return sort_tasks(pending, -score)

    def _best(self, view: CycleView, shape: PodShape) -> float:
        scores, state = self._alignment.scores_of(shape), view.state
        columns, amounts = state.request_vector(shape.requests)
        has_room = state.is_node & (
            state.allocatable[:, columns] - state.requested[:, columns] >= amounts
        ).all(axis=1)
        return float(scores.max(where=has_room if has_room.any() else state.is_node, initial=0.0))

    def _demand(self, pending: PendingTask, capacity: NDArray[np.int64]) -> float:
        """Return the mean demand of the workflow's tasks by duration, in shares of the largest node."""
        workflow = pending.progress.workflow
        known = self._demands.get(id(workflow))
        if known is None or known[0] is not workflow:
            weights = workflow.expected_s
            requests = [task.shape.requests for task in workflow.tasks]
            cpu = np.array([r.get(CPU, 0) for r in requests]) / capacity[CPU_COLUMN]
            memory = np.array([r.get(MEMORY, 0) for r in requests]) / capacity[MEMORY_COLUMN]
            total_s = float(weights.sum())
            demand = float((weights * (cpu + memory)).sum()) / total_s if total_s > 0.0 else 0.0
            known = self._demands[id(workflow)] = (workflow, demand)
        return known[1]
