"""All of kube-scheduler's default score plugins together, one cached total per pod shape.

Weights (Kubernetes 1.37): TaintToleration 3, NodeAffinity 2, PodTopologySpread 2, InterPodAffinity 2,
NodeResourcesFit 1, NodeResourcesBalancedAllocation 1, ImageLocality 1, VolumeBinding 1. A total is a sum of
integers, so nodes tie often, and ties are drawn at random, as the scheduler does.

What depends on one node only is recomputed for the nodes that changed. What is normalised over the feasible
nodes is recomputed when its counts or the set of feasible nodes changed. For most pods neither happens, and a
score costs the few rows that the last placements touched.

`percentage_of_nodes_to_score`: the scheduler stops looking once it has found enough feasible nodes. 100 (our
default, so that runs differ by policy and not by which nodes were looked at) scores all of them; 0 is the
scheduler's adaptive rule: all below 100 nodes, else max(5, 50 − nodes/125) per cent, at least 100 nodes,
starting where the last search ended.

A pod that is nominated for a node (`status.nominatedNodeName`) goes there whenever it is feasible.

Not scored here: DynamicResources, whose filter refuses what it must.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from stowplan.core.constraints import CompiledFilters
from stowplan.core.domain import CPU, MEMORY, PendingTask, PodShape
from stowplan.core.domain.caching import forget_oldest, shapes_worth_keeping
from stowplan.core.policy.feed import ChangeFeed
from stowplan.core.policy.interface import CycleView
from stowplan.core.policy.kube.pod_affinity import PodAffinityScore
from stowplan.core.policy.kube.preferences import (
    Scaled,
    image_locality,
    preferred_node_weights,
    untolerated_soft_taints,
)
from stowplan.core.policy.kube.resources import MAX_NODE_SCORE, ResourceScores
from stowplan.core.policy.kube.spread import SpreadScore
from stowplan.core.policy.kube.volumes import volume_scores
from stowplan.core.policy.nodes.base import NodeRule
from stowplan.errors import InvalidInput

__all__ = ["KubeScoring"]

_TAINT_WEIGHT = 3
_AFFINITY_WEIGHT = 2
_SPREAD_WEIGHT = 2
_POD_AFFINITY_WEIGHT = 2
_FEWEST_NODES = 100
_FEWEST_PERCENT = 5
_CACHED_AMOUNTS = 1024
_BY_AFFINITY = 1
_BY_SPREAD = 2


_Preference = tuple[NDArray[np.int64] | None, NDArray[np.int64] | None, NDArray[np.int64] | int]
"""Scaled taints and node affinity, and their weighted sum, which holds as long as neither changes."""


class _ShapeScore:
    """The totals of one pod shape, by row."""

    __slots__ = (
        "_added", "_affinity", "_epoch", "_feed", "_fixed", "_hard_weight", "_images", "_is_touching",
        "_of_nodes", "_pod_affinity", "_position", "_preference", "_resources", "_seen_bytes",
        "_seen_feasible", "_shape", "_spread", "_state", "_storage_changes", "_taints", "_total", "_touch",
        "_touches", "_volumes",
    )  # fmt: skip

    def __init__(
        self, feed: ChangeFeed, resources: ResourceScores, shape: PodShape, hard_weight: int
    ) -> None:
        self._feed = feed
        self._resources = resources
        self._state = feed.state
        self._shape = shape
        self._hard_weight = hard_weight
        self._build()

    def _build(self) -> None:
        state, shape = self._state, self._shape
        self._epoch, self._position = self._feed.epoch, self._feed.length
        self._images = image_locality(state, shape)
        taints, affinity = untolerated_soft_taints(state, shape), preferred_node_weights(state, shape)
        self._taints = Scaled(taints, reverse=True) if taints is not None else None
        self._affinity = Scaled(affinity, reverse=False) if affinity is not None else None
        self._spread = SpreadScore.of(state, shape)
        self._pod_affinity = PodAffinityScore(state, shape, self._hard_weight)
        self._touch: list[int] = []  # by shape id: which parts a pod of that shape bears on
        self._touches: NDArray[np.int8] = np.zeros(0, dtype=np.int8)  # the same, as far as it was looked up
        self._is_touching = False
        self._seen_feasible: NDArray[np.bool_] | None = None
        self._seen_bytes = b""
        self._added: NDArray[np.int64] | int = 0
        self._preference: _Preference | None = None
        self._volumes = volume_scores(state, shape)
        self._storage_changes = self._feed.storage_changes
        self._fixed = self._images
        if self._volumes is not None:
            self._fixed = self._volumes if self._images is None else self._images + self._volumes
        self._of_nodes = self._resources.values()
        if self._fixed is not None:
            self._of_nodes = self._of_nodes + self._fixed
        self._total = self._of_nodes.astype(np.float64)

    def total(self, feasible: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Return the totals, right where `feasible`; shape (capacity,). Read it before the next call."""
        feed = self._feed
        if feed.epoch != self._epoch or (
            self._shape.volumes and feed.storage_changes != self._storage_changes
        ):
            self._build()
        rows = feed.rows_since(self._position)
        is_moved = False
        if rows.size:
            is_moved = self._note(rows, feed.ids_since(self._position))
            self._position = feed.length
            values = self._resources.values()
            if self._fixed is not None:
                self._of_nodes[rows] = values[rows] + self._fixed[rows]
        seen = self._seen(feasible)
        if is_moved or seen is not self._seen_feasible:
            self._seen_feasible = seen
            self._added = self._normalised(seen)
            np.add(self._of_nodes, self._added, out=self._total)
        elif rows.size == 0:
            return self._total
        elif isinstance(self._added, int):
            self._total[rows] = self._of_nodes.take(rows) + self._added
        else:
            self._total[rows] = self._of_nodes.take(rows) + self._added.take(rows)
        return self._total

    def _seen(self, feasible: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return our copy of `feasible`: the one of last time when nothing changed."""
        content = feasible.tobytes()  # comparing bytes takes a fifth of comparing arrays
        if self._seen_feasible is None or content != self._seen_bytes:
            self._seen_bytes = content
            return feasible.copy()
        return self._seen_feasible

    def _note(self, rows: NDArray[np.intp], ids: NDArray[np.intp]) -> bool:
        """Take in the pods (by shape id) that came to or left `rows`; tell whether they bear on a score."""
        shapes = self._feed.shapes
        for shape_id in range(len(self._touch), len(shapes)):
            touch = _BY_AFFINITY * self._pod_affinity.is_touched_by(shapes[shape_id])
            if self._spread is not None:
                touch += _BY_SPREAD * self._spread.is_touched_by(shapes[shape_id])
            self._touch.append(touch)
            self._is_touching |= touch > 0
        if not self._is_touching:
            return False
        if self._touches.size < len(shapes):
            self._touches = np.array(self._touch, dtype=np.int8)
        (touching,) = self._touches[ids].nonzero()
        if touching.size == 0:
            return False
        touched_rows: list[int] = rows[touching].tolist()
        touching_ids: list[int] = ids[touching].tolist()
        for row, shape_id in set(zip(touched_rows, touching_ids, strict=True)):
            touch = self._touch[shape_id]
            if touch & _BY_AFFINITY:
                self._pod_affinity.note(row, shapes[shape_id])
            if touch & _BY_SPREAD and self._spread is not None:
                self._spread.note(row, shapes[shape_id])
        return True

    def _normalised(self, feasible: NDArray[np.bool_]) -> NDArray[np.int64] | int:
        added = self._preferred(feasible)
        if self._spread is not None:
            spread = self._spread.scores(feasible)
            spread *= _SPREAD_WEIGHT
            spread += added
            added = spread
        attraction = self._pod_affinity.scores(feasible)
        if attraction is not None:
            attraction *= _POD_AFFINITY_WEIGHT
            attraction += added
            added = attraction
        return added

    def _preferred(self, feasible: NDArray[np.bool_]) -> NDArray[np.int64] | int:
        taints = self._taints.scores(feasible) if self._taints is not None else None
        affinity = self._affinity.scores(feasible) if self._affinity is not None else None
        if (
            self._preference is None
            or self._preference[0] is not taints
            or self._preference[1] is not affinity
        ):
            added: NDArray[np.int64] | int = _TAINT_WEIGHT * (MAX_NODE_SCORE if taints is None else taints)
            if affinity is not None:
                added = added + _AFFINITY_WEIGHT * affinity
            self._preference = (taints, affinity, added)
        return self._preference[2]

    def parts(self, row: int) -> dict[str, float]:
        """Return the weighted score of each plugin for `row`, as it stood at the last `total`."""
        feasible = self._seen_feasible
        rows = np.array([row], dtype=np.intp)
        parts = {"NodeResourcesFit": float(self._resources.least_allocated(rows)[0])}
        balanced = self._resources.balanced_allocation(rows)
        if not isinstance(balanced, int):
            parts["NodeResourcesBalancedAllocation"] = float(balanced[0])
        if self._images is not None:
            parts["ImageLocality"] = float(self._images[row])
        if self._volumes is not None:
            parts["VolumeBinding"] = float(self._volumes[row])
        if feasible is None:
            return parts
        if self._taints is not None:
            parts["TaintToleration"] = _TAINT_WEIGHT * float(self._taints.scores(feasible)[row])
        if self._affinity is not None:
            parts["NodeAffinity"] = _AFFINITY_WEIGHT * float(self._affinity.scores(feasible)[row])
        if self._spread is not None:
            parts["PodTopologySpread"] = _SPREAD_WEIGHT * float(self._spread.scores(feasible)[row])
        attraction = self._pod_affinity.scores(feasible)
        if attraction is not None:
            parts["InterPodAffinity"] = _POD_AFFINITY_WEIGHT * float(attraction[row])
        return parts


class KubeScoring(NodeRule):
    """Node rule: kube-scheduler's default score plugins."""

    breaks_ties_randomly = True

    def __init__(self, *, percentage_of_nodes_to_score: int = 100, hard_pod_affinity_weight: int = 1) -> None:
        """Score as configured.

        Args:
            percentage_of_nodes_to_score: see the module; 0 is the scheduler's adaptive rule.
            hard_pod_affinity_weight: weight of the required affinity terms of bound pods, 0–100.

        Raises:
            InvalidInput: a value is out of its range.
        """
        super().__init__()
        for name, percent in (
            ("percentage_of_nodes_to_score", percentage_of_nodes_to_score),
            ("hard_pod_affinity_weight", hard_pod_affinity_weight),
        ):
            if not 0 <= percent <= MAX_NODE_SCORE:
                raise InvalidInput(f"{name} is {percent}; it must lie between 0 and 100")
        self._percentage = percentage_of_nodes_to_score
        self._hard_weight = hard_pod_affinity_weight
        self._shapes: dict[PodShape, _ShapeScore] = {}
        self._resources: dict[tuple[int, ...], ResourceScores] = {}

    def begin(self, view: CycleView) -> None:
        """Start a cycle; the caches of another state are dropped."""
        if self.is_other_state(view):
            self._shapes.clear()
            self._resources.clear()
        if self.has_other_state_before(view):
            self.turn = 0
        super().begin(view)
        forget_oldest(self._shapes, shapes_worth_keeping(self.state.capacity))
        if len(self._resources) > _CACHED_AMOUNTS:
            self._shapes.clear()
            self._resources.clear()

    def scores(self, task: PendingTask, filters: CompiledFilters) -> NDArray[np.float64]:
        """Return the weighted sum of the plugins, by row."""
        self.feed.catch_up()
        promised = self._promised_row(task.task.shape, filters)
        if promised >= 0:
            only = np.full(self.state.capacity, -np.inf)
            only[promised] = 0.0
            return only
        score = self._of(task.task.shape)
        if self._percentage == MAX_NODE_SCORE or self.state.node_count < _FEWEST_NODES:
            return score.total(filters.feasible)
        sampled = self._sample(filters.feasible)
        return np.where(sampled, score.total(sampled), -np.inf)

    def _promised_row(self, shape: PodShape, filters: CompiledFilters) -> int:
        """Return the row that the pod is nominated for if that is feasible, else −1: it is tried first."""
        if not shape.own_nomination:
            return -1
        row = self.state.row(self.state.nominations.node_of(shape.own_nomination) or "")
        return row if row >= 0 and filters.feasible[row] else -1

    def contributions(self, task: PendingTask, row: int) -> Mapping[str, float]:
        """Return the weighted score of each plugin."""
        return self._of(task.task.shape).parts(row)

    def _of(self, shape: PodShape) -> _ShapeScore:
        score = self._shapes.pop(shape, None)
        if score is None:
            score = _ShapeScore(self.feed, self._resources_of(shape), shape, self._hard_weight)
        self._shapes[shape] = score  # the one used last is the last to be forgotten
        return score

    def _resources_of(self, shape: PodShape) -> ResourceScores:
        scored = shape.pending_score or (shape.score_cpu_milli, shape.score_memory_bytes)
        requests = shape.requests.get(CPU, 0), shape.requests.get(MEMORY, 0)
        resources = self._resources.get((*scored, *requests))
        if resources is None:
            resources = ResourceScores(self.feed, scored=scored, requests=requests)
            self._resources[(*scored, *requests)] = resources
        return resources

    def _sample(self, feasible: NDArray[np.bool_]) -> NDArray[np.bool_]:
        rows = np.flatnonzero(self.state.is_node)
        wanted = _nodes_to_find(rows.size, self._percentage)
        rows = np.roll(rows, -(self.turn % rows.size))
        found = np.flatnonzero(feasible[rows])
        looked_at = int(found[wanted - 1]) + 1 if found.size >= wanted else rows.size
        self.turn = (self.turn + looked_at) % rows.size
        sampled = np.zeros_like(feasible)
        sampled[rows[found[:wanted]]] = True
        return sampled


def _nodes_to_find(node_count: int, percentage: int) -> int:
    if percentage == 0:
        percentage = max(50 - node_count // 125, _FEWEST_PERCENT)
    return max(node_count * percentage // 100, _FEWEST_NODES)
