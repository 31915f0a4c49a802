"""What a pod prefers of a node whatever runs there: taints, node affinity, images (Kubernetes 1.37).

All of it changes only when nodes do. The counts of TaintToleration and NodeAffinity are normalised over the
feasible nodes later; ImageLocality is final.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stowplan.core.constraints.filter import ALL_ROWS
from stowplan.core.constraints.matching import terms_met
from stowplan.core.domain import ClusterState, PodShape, TaintEffect
from stowplan.core.policy.kube.resources import MAX_NODE_SCORE
from stowplan.core.policy.matching import untolerated_counts

__all__ = ["Scaled", "image_locality", "preferred_node_weights", "untolerated_soft_taints"]

_MIB = 1024 * 1024
_FEWEST_IMAGE_BYTES = 23 * _MIB
_MOST_IMAGE_BYTES_PER_CONTAINER = 1000 * _MIB


def untolerated_soft_taints(state: ClusterState, shape: PodShape) -> NDArray[np.int64] | None:
    """Return how many PreferNoSchedule taints of each row the pod does not tolerate; None: nowhere any."""
    if not any(
        taint.effect is TaintEffect.PREFER_NO_SCHEDULE for taints in state.taint_sets for taint in taints
    ):
        return None
    counts = untolerated_counts(state, shape, (TaintEffect.PREFER_NO_SCHEDULE,))
    return counts if counts.any() else None


def preferred_node_weights(state: ClusterState, shape: PodShape) -> NDArray[np.int64] | None:
    """Return the summed weights of the preferred node affinity terms that each row meets; None without."""
    weights = None
    for preferred in shape.node_affinity.preferred:
        if preferred.weight == 0:
            continue
        if weights is None:
            weights = np.zeros(state.capacity, dtype=np.int64)
        weights += preferred.weight * terms_met(state, (preferred.term,), ALL_ROWS)
    return weights


class Scaled:
    """Counts by row, scaled to 0–100 over the feasible nodes as the scheduler's DefaultNormalizeScore does.

    The largest feasible count becomes 100 (`reverse`: 0). Which count is the largest changes rarely, so the
    scaled array is kept for each.
    """

    __slots__ = ("_counts", "_is_reverse", "_levels", "_scaled")

    def __init__(self, counts: NDArray[np.int64], *, reverse: bool) -> None:
        """Scale `counts`, ≥ 0, shape (capacity,)."""
        self._counts = counts
        self._is_reverse = reverse
        levels = np.unique(counts[counts > 0])[::-1].tolist()
        self._levels: list[tuple[int, NDArray[np.intp]]] = [
            (level, np.flatnonzero(counts == level)) for level in levels
        ]
        self._scaled: dict[int, NDArray[np.int64]] = {}

    def scores(self, feasible: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return 0–100 by row, right where `feasible`, shape (capacity,). Only to be read."""
        largest = next((level for level, rows in self._levels if feasible[rows].any()), 0)
        scaled = self._scaled.get(largest)
        if scaled is None:
            share = MAX_NODE_SCORE * self._counts // max(largest, 1)
            if largest == 0:
                share = np.zeros_like(self._counts)
            scaled = self._scaled[largest] = MAX_NODE_SCORE - share if self._is_reverse else share
        return scaled


def image_locality(state: ClusterState, shape: PodShape) -> NDArray[np.int64] | None:
    """Return 0–100 by row for the bytes of the pod's images that are there; None when none is anywhere.

    An image counts by its size times the share of nodes that have it, which keeps one node from attracting
    every pod. The size is that reported first, as in the scheduler's cache.
    """
    total = None
    for image in shape.images:
        size_of = state.images.get(image)
        if not size_of:
            continue
        if total is None:
            total = np.zeros(state.capacity, dtype=np.int64)
        size_bytes = next(iter(size_of.values()))
        spread = len(size_of) / state.node_count
        total[np.fromiter(size_of, dtype=np.intp, count=len(size_of))] += int(float(size_bytes) * spread)
    if total is None:
        return None
    most = _MOST_IMAGE_BYTES_PER_CONTAINER * len(shape.images)
    within = np.clip(total, _FEWEST_IMAGE_BYTES, most)
    return MAX_NODE_SCORE * (within - _FEWEST_IMAGE_BYTES) // (most - _FEWEST_IMAGE_BYTES)
