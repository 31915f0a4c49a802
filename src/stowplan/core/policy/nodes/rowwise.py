"""Node rules whose score depends on that node alone: scored once per shape, then where pods came or went."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from stowplan.core.constraints import CompiledFilters
from stowplan.core.domain import CPU_COLUMN, MEMORY_COLUMN, PendingTask, PodShape
from stowplan.core.policy.interface import CycleView
from stowplan.core.policy.nodes.base import NodeRule

__all__ = ["RowwiseRule", "Spare", "whole_points"]

_CACHED_KEYS = 8192
_POINTS = 100


def whole_points(share: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cut scores in [0, 1] to whole hundredths, 0–100.

    The kube-scheduler framework, in which the packing rules were published and measured, has integer scores,
    so that near equals tie. The tie goes to the first node in a fixed order there and to the lowest row here:
    drawing lots spreads tasks over equally good nodes, and GPU sharing loses five points of allocation by it.
    """
    return np.trunc(share * _POINTS)


class _Cached:
    __slots__ = ("epoch", "position", "scores")

    def __init__(self, scores: NDArray[np.float64], epoch: int, position: int) -> None:
        self.scores = scores
        self.epoch = epoch
        self.position = position


class RowwiseRule(NodeRule):
    """Base with the cache; subclasses score given rows for a shape."""

    def __init__(self) -> None:
        """Start with an empty cache."""
        super().__init__()
        self._cache: dict[Hashable, _Cached] = {}

    def begin(self, view: CycleView) -> None:
        """Start a cycle; the caches of another state are dropped."""
        if self.is_other_state(view) or len(self._cache) > _CACHED_KEYS:
            self._cache.clear()
        super().begin(view)

    @abstractmethod
    def score_rows(self, shape: PodShape, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the score of each of `rows` for `shape`, finite even where it does not fit."""

    def key_of(self, shape: PodShape) -> Hashable:
        """Return what of `shape` the score depends on."""
        return shape

    def forget_scores(self) -> None:
        """Drop the cache, when something else that scores depend on has changed."""
        self._cache.clear()

    def scores_of(self, shape: PodShape) -> NDArray[np.float64]:
        """Return the scores of all rows for `shape`, shape (capacity,)."""
        feed = self.feed
        feed.catch_up()
        key = self.key_of(shape)
        cached = self._cache.get(key)
        if cached is None or cached.epoch != feed.epoch:
            scores = self.score_rows(shape, np.arange(self.state.capacity, dtype=np.intp))
            self._cache[key] = _Cached(scores, feed.epoch, feed.length)
            return scores
        if cached.position < feed.length:
            rows = np.unique(feed.rows_since(cached.position))
            cached.scores[rows] = self.score_rows(shape, rows)
            cached.position = feed.length
        return cached.scores

    def scores(self, task: PendingTask, filters: CompiledFilters) -> NDArray[np.float64]:  # noqa: ARG002  (the contract's)
        """Return the score of every row."""
        return self.scores_of(task.task.shape)


class Spare:
    """What nodes have left and at most have, in the dimensions that packing rules weigh.

    CPU and GPU where the cluster has GPUs (as the GPU-sharing papers measure), otherwise CPU and memory.
    Units: milli-cores, bytes, thousandths of a GPU.
    """

    def __init__(self, rule: NodeRule) -> None:
        """Read through the state of `rule`."""
        self._rule = rule

    @property
    def has_gpus(self) -> bool:
        """Whether any node has a GPU."""
        return bool(self._rule.state.gpu_models)

    def gpus_left(self, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """Return thousandths left of each GPU, 0 where there is none, shape (rows, gpus)."""
        return np.maximum(self._rule.state.gpu_free_milli[rows], 0).astype(np.int64)

    def left(self, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return what is left, shape (rows, 2)."""
        state = self._rule.state
        cpu = state.allocatable[rows, CPU_COLUMN] - state.requested[rows, CPU_COLUMN]
        if self.has_gpus:
            second = self.gpus_left(rows).sum(axis=1)
        else:
            second = state.allocatable[rows, MEMORY_COLUMN] - state.requested[rows, MEMORY_COLUMN]
        return np.stack([cpu, second], axis=1).astype(np.float64)

    def largest(self) -> NDArray[np.float64]:
        """Return the most that a node of the cluster has, at least 1, shape (2,)."""
        state = self._rule.state
        cpu = state.allocatable[:, CPU_COLUMN].max(initial=1)
        if self.has_gpus:
            second = 1000 * np.count_nonzero(state.gpu_free_milli >= 0, axis=1).max(initial=1)
        else:
            second = state.allocatable[:, MEMORY_COLUMN].max(initial=1)
        return np.maximum(np.array([cpu, second], dtype=np.float64), 1.0)

    def asked(self, shape: PodShape) -> NDArray[np.float64]:
        """Return what `shape` asks for, shape (2,)."""
        if self.has_gpus:
            second = shape.gpu.count * shape.gpu.milli if shape.gpu is not None else 0
        else:
            second = shape.requests.get("memory", 0)
        return np.array([shape.requests.get("cpu", 0), second], dtype=np.float64)
