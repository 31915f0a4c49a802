"""Rules that do not look at the nodes: random, and one after the other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stowplan.core.constraints import CompiledFilters
from stowplan.core.domain import PendingTask
from stowplan.core.policy.interface import CycleView
from stowplan.core.policy.nodes.base import NodeRule

__all__ = ["RandomNode", "RoundRobin"]


class RandomNode(NodeRule):
    """Any feasible node, each as likely as the next; so are the GPUs that can hold a share."""

    breaks_ties_randomly = True

    def scores(self, task: PendingTask, filters: CompiledFilters) -> NDArray[np.float64]:  # noqa: ARG002  (blind on purpose)
        """Return equal scores; the decoder draws."""
        return np.zeros(self.state.capacity, dtype=np.float64)

    def choose_gpus(self, task: PendingTask, row: int) -> tuple[int, ...] | None:
        """Return a random GPU with room for a share; whole GPUs are left to the decoder."""
        request = task.task.shape.gpu
        if request is None or request.count > 1 or request.milli >= 1000:
            return None
        usable = np.flatnonzero(self.state.gpu_free_milli[row] >= request.milli)
        return (int(usable[self.view.rng.integers(usable.size)]),)


class RoundRobin(NodeRule):
    """The next feasible node after the one that got the last task, in order of rows.

    The turn is the row after that one.
    """

    def __init__(self) -> None:
        """Begin at the first row."""
        super().__init__()
        self._distances: NDArray[np.float64] = np.zeros(0)  # 0, −1, … twice over, for one turn from any row

    def begin(self, view: CycleView) -> None:
        """Start a cycle; another state than before starts a new round."""
        if self.has_other_state_before(view):
            self.turn = 0
        super().begin(view)

    def scores(self, task: PendingTask, filters: CompiledFilters) -> NDArray[np.float64]:  # noqa: ARG002  (blind on purpose)
        """Return minus the distance from the last row; the nearest feasible row takes the turn."""
        capacity = self.state.capacity
        if self._distances.size != 2 * capacity:
            self._distances = -(np.arange(2 * capacity) % capacity).astype(np.float64)
        begin = -self.turn % capacity
        scores = self._distances[begin : begin + capacity]  # a view: nothing is computed per node
        self.turn = int(np.where(filters.feasible, scores, -np.inf).argmax()) + 1
        return scores
