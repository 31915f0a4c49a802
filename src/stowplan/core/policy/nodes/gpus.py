"""GPU packing and GPU clustering: keep whole GPUs, or whole nodes, for those that need them.

Source of both, with the scores used here: Q. Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing
Workloads with Fragmentation Gradient Descent", USENIX ATC 2023, section 6.1 (baselines GpuPacking, after
MLaaS in the Wild, NSDI 2022, and GpuClustering, after Gandiva, OSDI 2018). Tasks without a GPU are placed
anywhere.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain import GpuRequest, PodShape
from stowplan.core.policy.interface import CycleView
from stowplan.core.policy.nodes.rowwise import RowwiseRule

__all__ = ["GpuClustering", "GpuPacking"]

_WHOLE = 1000
_BEST = 100


class GpuPacking(RowwiseRule):
    """First GPUs that are shared already, then free GPUs of used nodes, then idle nodes."""

    def score_rows(self, shape: PodShape, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return 0–100 per row: from 50 on shared GPUs, from 33 on free ones of a used node, else below."""
        request = shape.gpu
        if request is None:
            return np.zeros(rows.size, dtype=np.float64)
        free = np.sort(self.state.gpu_free_milli[rows], axis=1).astype(np.int64)
        whole = _count(free == _WHOLE)
        usable = free >= request.milli
        used = usable & (np.cumsum(usable, axis=1) <= request.count)  # the fullest that have room
        opened = _count(used & (free == _WHOLE))
        percent_left: NDArray[np.int64] = (used * (free * _BEST // _WHOLE)).sum(axis=1)
        shared = np.maximum(_BEST - percent_left // 10, _BEST // 2)
        score = np.where(opened > 0, np.maximum(_BEST // 2 - opened, _BEST // 3), shared)
        is_idle = whole == _count(free >= 0)
        return np.where(is_idle, np.maximum(_BEST // 3 - whole, whole), score).astype(np.float64)


def _count(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    counts: NDArray[np.int64] = mask.sum(axis=1, dtype=np.int64)
    return counts


class GpuClustering(RowwiseRule):
    """Keep tasks that ask for the same number of GPUs together; among such nodes, the fuller one."""

    def __init__(self) -> None:
        """Know no kinds of request yet."""
        super().__init__()
        self._kinds: dict[int, int] = {}
        self._epoch = -1
        self._position = 0
        self._has_kind = np.zeros((0, 0), dtype=np.bool_)

    def begin(self, view: CycleView) -> None:
        """Start a cycle; what another state's nodes hold is forgotten."""
        if self.is_other_state(view):
            self._epoch = -1
        super().begin(view)

    def score_rows(self, shape: PodShape, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return 0–100 per row; by quarter: same kind only, same among others, no GPU task, others only."""
        if shape.gpu is None:
            return np.zeros(rows.size, dtype=np.float64)
        kind = self._kind_id(shape.gpu)
        self._follow()
        kinds = self._has_kind[rows].sum(axis=1)
        has_same = self._has_kind[rows, kind]
        quarter = np.where(has_same, np.where(kinds == 1, 3, 2), np.where(kinds == 0, 1, 0))
        free = self.state.gpu_free_milli
        largest = _WHOLE * int(np.count_nonzero(free >= 0, axis=1).max(initial=1))
        left = np.maximum(free[rows], 0).sum(axis=1, dtype=np.int64)
        return (_BEST // 4 * (largest - left) // largest + quarter * (_BEST // 4)).astype(np.float64)

    def _kind_id(self, request: GpuRequest) -> int:
        # A share is a kind of its own; otherwise the number of GPUs is.
        number = request.count if request.milli >= _WHOLE else 0
        if number not in self._kinds:
            self._kinds[number] = len(self._kinds)
            if len(self._kinds) > self._has_kind.shape[1]:
                wider = np.zeros((self._has_kind.shape[0], 2 * len(self._kinds)), dtype=np.bool_)
                wider[:, : self._has_kind.shape[1]] = self._has_kind
                self._has_kind = wider
        return self._kinds[number]

    def _follow(self) -> None:
        feed = self.feed
        if feed.epoch != self._epoch:
            rows = list(range(self.state.capacity))
            self._has_kind = np.zeros((self.state.capacity, max(self._has_kind.shape[1], 1)), dtype=np.bool_)
        else:
            rows = np.unique(feed.rows_since(self._position)).tolist()
        self._epoch, self._position = feed.epoch, feed.length
        for row in rows:
            requests = {pod.shape.gpu for pod in self.state.pods_on[row].values()}
            kinds = [self._kind_id(request) for request in requests if request is not None]
            self._has_kind[row] = False
            self._has_kind[row, kinds] = True
