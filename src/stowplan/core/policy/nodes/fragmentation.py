"""FGD: place where GPU fragmentation grows least, in expectation over the workload that the cluster serves.

The fragmentation of a node for one kind of task is the GPU that the task cannot use there: all that is left
when it does not fit (too few GPUs with enough left, too little CPU, another model, or no GPU asked at all),
otherwise what is left on GPUs too full for it. A node's fragmentation F is the mean over the target workload.
A placement is scored by how much F falls, through a sigmoid: 100·σ((F before − F after)/1000 milli). A share
goes to the GPU where that is best.

Source: Q. Weng, L. Yang, Y. Yu, W. Wang, X. Tang, G. Yang, L. Zhang, "Beware of Fragmentation: Scheduling
GPU-Sharing Workloads with Fragmentation Gradient Descent", USENIX ATC 2023, sections 4.1–4.3; the target
workload is its 95 % most popular kinds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain import CPU, CPU_COLUMN, GpuRequest, PendingTask, PodShape
from stowplan.core.policy.interface import CycleView
from stowplan.core.policy.nodes.rowwise import RowwiseRule, Spare, whole_points
from stowplan.core.policy.nodes.workload import SeenWorkload

__all__ = ["FragmentationGradient", "TargetTask", "target_workload"]

_WHOLE = 1000
_POPULARITY = 0.95


@dataclass(frozen=True, slots=True, order=True)
class TargetTask:
    """A kind of task in the target workload and its share of all tasks."""

    cpu_milli: int
    gpu_milli: int
    gpu_count: int
    models: tuple[str, ...] = ()
    share: float = 0.0


def target_workload(shapes: Iterable[PodShape]) -> tuple[TargetTask, ...]:
    """Return the most popular kinds of task that make up 95 % of `shapes`, their shares summing to 1."""
    counts: Counter[TargetTask] = Counter(_kind_of(shape) for shape in shapes)
    total = counts.total()
    kept: list[tuple[TargetTask, int]] = []
    seen = 0
    for kind, count in sorted(counts.items(), key=lambda item: (item[1], item[0]), reverse=True):
        if seen >= _POPULARITY * total:
            break
        kept.append((kind, count))
        seen += count
    return tuple(
        TargetTask(kind.cpu_milli, kind.gpu_milli, kind.gpu_count, kind.models, count / seen)
        for kind, count in kept
    )


def _kind_of(shape: PodShape) -> TargetTask:
    gpu = shape.gpu
    cpu_milli = shape.requests.get(CPU, 0)
    return (
        TargetTask(cpu_milli, gpu.milli, gpu.count, gpu.models)
        if gpu is not None
        else TargetTask(cpu_milli, 0, 0)
    )


class _Target:
    """The target workload as arrays, with the GPU thresholds that occur in it."""

    def __init__(self, tasks: tuple[TargetTask, ...], models: list[str]) -> None:
        self.share = np.array([task.share for task in tasks], dtype=np.float64)
        self.cpu_milli = np.array([task.cpu_milli for task in tasks], dtype=np.int64)
        self.count = np.array([task.gpu_count for task in tasks], dtype=np.int64)
        self.needs_gpu = np.array([task.gpu_milli > 0 for task in tasks], dtype=np.bool_)
        milli = np.array([task.gpu_milli for task in tasks], dtype=np.int64)
        self.thresholds, self.threshold_of = np.unique(milli, return_inverse=True)
        allowed = [[not task.models or model in task.models for task in tasks] for model in models]
        allowed.append([not task.models for task in tasks])  # where ABSENT, −1, points
        self.allowed = np.array(allowed, dtype=np.bool_).reshape(len(models) + 1, len(tasks))

    def fragmentation(
        self, cpu_left: NDArray[np.int64], gpus_left: NDArray[np.int64], model_ids: NDArray[np.int32]
    ) -> NDArray[np.float64]:
        """Return F in thousandths of a GPU; arguments are (n,), (n, gpus) with 0 for no GPU, (n,)."""
        has_room = gpus_left[:, :, None] >= self.thresholds
        with_room = np.count_nonzero(has_room, axis=1)[:, self.threshold_of]
        too_full: NDArray[np.int64] = (~has_room * gpus_left[:, :, None]).sum(axis=1)[:, self.threshold_of]
        fits = (cpu_left[:, None] >= self.cpu_milli) & (with_room >= self.count) & self.needs_gpu
        fits &= self.allowed[model_ids]
        left: NDArray[np.int64] = gpus_left.sum(axis=1)
        unusable: NDArray[np.float64] = left[:, None] + fits * (too_full - left[:, None]).astype(np.float64)
        return unusable @ self.share


class FragmentationGradient(RowwiseRule):
    """Node and GPU by steepest descent of fragmentation."""

    def __init__(self, *, workload: tuple[TargetTask, ...] | None = None) -> None:
        """Score for a target `workload`; None: what was bound and has come, looked at anew as it doubles."""
        super().__init__()
        self._spare = Spare(self)
        self._given = workload
        self._tasks: tuple[TargetTask, ...] = workload if workload is not None else ()
        self._target: _Target | None = None
        self._models = -1
        self._seen = SeenWorkload()

    @property
    def forgets(self) -> bool:
        """Not where it has to remember what has come."""
        return self._given is not None

    def begin(self, view: CycleView) -> None:
        """Start a cycle: take in the tasks that came since the last one."""
        if self._given is None:
            seen = self._seen.take_in(view, anew=self.is_other_state(view))
            if seen is not None:
                self._tasks = target_workload(seen.elements())
                self._target = None
        super().begin(view)
        if self._target is None or self._models != len(view.state.gpu_models):
            self._models = len(view.state.gpu_models)
            self._target = _Target(self._tasks, view.state.gpu_models)
            self.forget_scores()

    def key_of(self, shape: PodShape) -> Hashable:
        """Only CPU and the size of the GPU request matter."""
        return shape.requests.get(CPU, 0), (
            shape.gpu.count,
            shape.gpu.milli,
        ) if shape.gpu is not None else None

    def score_rows(self, shape: PodShape, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return 0–100 per row, that of the best GPU where a share is asked."""
        if _is_share(shape.gpu):
            return self._share_scores(shape, rows).max(axis=1, initial=0.0)
        state, gpus_left = self.state, self._spare.gpus_left(rows)
        cpu_left = state.allocatable[rows, CPU_COLUMN] - state.requested[rows, CPU_COLUMN]
        after = gpus_left.copy()
        if shape.gpu is not None:
            usable = gpus_left >= shape.gpu.milli
            after -= shape.gpu.milli * (usable & (np.cumsum(usable, axis=1) <= shape.gpu.count))
        models = state.gpu_model_ids[rows]
        return self._points(
            self._fragmentation(cpu_left, gpus_left, models)
            - self._fragmentation(cpu_left - shape.requests.get(CPU, 0), after, models)
        )

    def choose_gpus(self, task: PendingTask, row: int) -> tuple[int, ...] | None:
        """Return the GPU where a share does least harm; whole GPUs are left to the decoder."""
        shape = task.task.shape
        if not _is_share(shape.gpu):
            return None
        return (int(self._share_scores(shape, np.array([row], dtype=np.intp))[0].argmax()),)

    def _share_scores(self, shape: PodShape, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the score of each GPU, −1 where the share does not fit, shape (rows, gpus)."""
        state, gpus_left = self.state, self._spare.gpus_left(rows)
        milli = shape.gpu.milli if shape.gpu is not None else 0
        scores = np.full(gpus_left.shape, -1.0)
        at, gpu = np.nonzero(gpus_left >= milli)
        if at.size == 0:
            return scores
        cpu_left = state.allocatable[rows, CPU_COLUMN] - state.requested[rows, CPU_COLUMN]
        models = state.gpu_model_ids[rows]
        before = self._fragmentation(cpu_left, gpus_left, models)
        after = gpus_left[at]
        after[np.arange(at.size), gpu] -= milli
        fragmented = self._fragmentation(cpu_left[at] - shape.requests.get(CPU, 0), after, models[at])
        scores[at, gpu] = self._points(before[at] - fragmented)
        return scores

    def _fragmentation(
        self, cpu_left: NDArray[np.int64], gpus_left: NDArray[np.int64], models: NDArray[np.int32]
    ) -> NDArray[np.float64]:
        if self._target is None:
            return np.zeros(cpu_left.size, dtype=np.float64)
        return self._target.fragmentation(cpu_left, gpus_left, models)

    @staticmethod
    def _points(fall_milli: NDArray[np.float64]) -> NDArray[np.float64]:
        return whole_points(1.0 / (1.0 + np.exp(-fall_milli / _WHOLE)))


def _is_share(request: GpuRequest | None) -> bool:
    return request is not None and request.count == 1 and request.milli < _WHOLE
