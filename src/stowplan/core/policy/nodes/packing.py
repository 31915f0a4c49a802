"""Packing rules: how well a task's demands fit into what a node has left.

Best fit leaves the least (weighted sum over two dimensions); dot product prefers nodes whose remaining vector
has the smallest product with the demand; alignment (Tetris) the largest. The first two are as measured for
GPU sharing: Q. Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
Gradient Descent", USENIX ATC 2023, section 6.1 (baselines BestFit and DotProd).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain import CPU, CPU_COLUMN, MEMORY, MEMORY_COLUMN, PendingTask, PodShape
from stowplan.core.policy.nodes.rowwise import RowwiseRule, Spare, whole_points

__all__ = ["Alignment", "BestFit", "DotProduct"]


class BestFit(RowwiseRule):
    """The node with the least left over: 1 − ½ Σ (left − asked)/largest over the two dimensions, 0–100."""

    def __init__(self) -> None:
        """Start with empty caches."""
        super().__init__()
        self._spare = Spare(self)

    def score_rows(self, shape: PodShape, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return 0–100 per row."""
        left_over = (self._spare.left(rows) - self._spare.asked(shape)) / self._spare.largest()
        return whole_points(1.0 - (left_over * 0.5).sum(axis=1))

    def contributions(self, task: PendingTask, row: int) -> Mapping[str, float]:
        """Return the shares left over, as they lower the score."""
        rows = np.array([row], dtype=np.intp)
        over = ((self._spare.left(rows) - self._spare.asked(task.task.shape)) / self._spare.largest())[0]
        return {"cpu left over": -float(over[0]), "second dimension left over": -float(over[1])}


class DotProduct(RowwiseRule):
    """The node with the smallest product of left and asked: 1 − ½ Σ left·asked/largest², 0–100."""

    def __init__(self) -> None:
        """Start with empty caches."""
        super().__init__()
        self._spare = Spare(self)

    def score_rows(self, shape: PodShape, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return 0–100 per row."""
        largest = self._spare.largest()
        product = (self._spare.left(rows) / largest) @ (self._spare.asked(shape) / largest)
        return whole_points(1.0 - product / 2)


class Alignment(RowwiseRule):
    """The node with the largest product of left and asked, each as a share of that node's capacity.

    Source: R. Grandl, G. Ananthanarayanan, S. Kandula, S. Rao, A. Akella, "Multi-Resource Packing for Cluster
    Schedulers" (Tetris), SIGCOMM 2014, section 3.2.
    """

    def score_rows(self, shape: PodShape, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the alignment per row, ≥ 0: Σ over CPU, memory and GPU of asked/capacity · left/capacity."""
        state = self.state
        score = np.zeros(rows.size, dtype=np.float64)
        for name, column in ((CPU, CPU_COLUMN), (MEMORY, MEMORY_COLUMN)):
            capacity = np.maximum(state.allocatable[rows, column], 1).astype(np.float64)
            left = state.allocatable[rows, column] - state.requested[rows, column]
            score += (shape.requests.get(name, 0) / capacity) * (left / capacity)
        if shape.gpu is not None:
            free = state.gpu_free_milli[rows]
            capacity = np.maximum(1000.0 * np.count_nonzero(free >= 0, axis=1), 1.0)
            score += (shape.gpu.count * shape.gpu.milli / capacity) * (
                np.maximum(free, 0).sum(axis=1) / capacity
            )
        return score
