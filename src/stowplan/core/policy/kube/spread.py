"""PodTopologySpread scoring: fewer pods like this one in a domain is better (Kubernetes 1.37).

For each ScheduleAnyway constraint a node is charged the matching pods in its domain, times log(domains + 2),
plus maxSkew − 1. The sum is rounded and turned round: 100·(max + min − score)/max over the feasible nodes.
Pods without any constraint of their own are scored with the cluster's defaults (hostname with skew 3, zone
with skew 5) on the selector of their Services and controllers.

Domains and their number depend on which nodes are feasible, so the score is made anew on every call; the
counts behind it follow the feed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain import (
    HOSTNAME_LABEL,
    ZONE_LABEL,
    ClusterState,
    LabelSelector,
    PodShape,
    SpreadConstraint,
    TaintEffect,
    WhenUnsatisfiable,
)
from stowplan.core.policy.kube.resources import MAX_NODE_SCORE
from stowplan.core.policy.matching import label_ids, required_affinity_rows, untolerated_counts

__all__ = ["SpreadScore"]

_DEFAULTS = ((HOSTNAME_LABEL, 3), (ZONE_LABEL, 5))


@dataclass(slots=True)
class _Constraint:
    """One constraint: domains by row (`ids`), pods counted per row and, unless by host, per domain."""

    is_by_host: bool
    slack: float
    selector: LabelSelector
    slots: NDArray[np.intp]  # domain by row; the last one is of rows without the label
    is_everywhere: bool  # every node has the label
    counts: NDArray[np.int64]
    counted: NDArray[np.bool_]  # rows whose pods count toward their domain
    domain_counts: NDArray[np.int64]
    weight: float = 0.0  # log(domains + 2)

    def charges(self, pods: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return what a domain with so many pods is charged."""
        return pods.astype(np.float64) * self.weight + self.slack


class SpreadScore:
    """The soft spread of one pod shape, following the pods that come and go."""

    __slots__ = ("_considered", "_constraints", "_has_all_keys", "_looked_at", "_matches", "_shape", "_state")

    def __init__(self, state: ClusterState, shape: PodShape, constraints: list[SpreadConstraint]) -> None:
        """Count the matching pods; use `of` to make one only where there is something to score."""
        self._state = state
        self._shape = shape
        self._matches: dict[PodShape, tuple[bool, ...]] = {}
        self._looked_at: NDArray[np.bool_] | None = None
        self._considered: NDArray[np.bool_] = state.is_node
        needs_all_keys = bool(shape.spread)
        self._has_all_keys: NDArray[np.bool_] | None = None
        if needs_all_keys:
            self._has_all_keys = np.logical_and.reduce(
                [label_ids(state, c.topology_key) >= 0 for c in constraints]
            )
        self._constraints = [self._count(constraint) for constraint in constraints]

    @classmethod
    def of(cls, state: ClusterState, shape: PodShape) -> SpreadScore | None:
        """Return the score of `shape`, or None when it has no soft constraint."""
        if shape.spread:
            soft = [c for c in shape.spread if c.when_unsatisfiable is WhenUnsatisfiable.SCHEDULE_ANYWAY]
        elif shape.default_spread_selector is not None and shape.default_spread_selector.requirements:
            soft = [
                SpreadConstraint(skew, key, WhenUnsatisfiable.SCHEDULE_ANYWAY, shape.default_spread_selector)
                for key, skew in _DEFAULTS
            ]
        else:
            soft = []
        return cls(state, shape, soft) if soft else None

    def _count(self, constraint: SpreadConstraint) -> _Constraint:
        state, shape = self._state, self._shape
        selector = constraint.selector
        if selector is None or not selector.requirements:  # the scheduler counts nothing for either
            selector = LabelSelector()
        counts = np.zeros(state.capacity, dtype=np.int64)
        for group, rows_of in state.index.groups.items():
            if self._selects(selector, group.namespace, dict(group.labels)) and not group.is_terminating:
                rows, amounts = rows_of.arrays()
                counts[rows] += amounts
        counted = state.is_node.copy()
        if self._has_all_keys is not None:
            counted &= self._has_all_keys
        if constraint.honor_node_affinity:
            counted &= required_affinity_rows(state, shape)
        if constraint.honor_node_taints:
            hard = (TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE)
            counted &= untolerated_counts(state, shape, hard) == 0
        ids = label_ids(state, constraint.topology_key)
        column = state.labels.get(constraint.topology_key)
        size = len(column.values) if column is not None else 0
        slots: NDArray[np.intp] = np.where(ids < 0, size, ids).astype(np.intp)
        domain_counts = np.zeros(size + 1, dtype=np.int64)
        np.add.at(domain_counts, slots[counted], counts[counted])
        return _Constraint(
            is_by_host=constraint.topology_key == HOSTNAME_LABEL,
            slack=float(constraint.max_skew - 1),
            selector=selector,
            slots=slots,
            is_everywhere=bool((ids[state.is_node] >= 0).all()),
            counts=counts,
            counted=counted,
            domain_counts=domain_counts,
        )

    def _selects(self, selector: LabelSelector, namespace: str, labels: dict[str, str]) -> bool:
        return bool(selector.requirements) and namespace == self._shape.namespace and selector.matches(labels)

    def is_touched_by(self, other: PodShape) -> bool:
        """Tell whether pods of shape `other` bear on this score."""
        return any(self._matched(other))

    def _matched(self, other: PodShape) -> tuple[bool, ...]:
        matches = self._matches.get(other)
        if matches is None:
            labels = dict(other.labels)
            matches = tuple(self._selects(c.selector, other.namespace, labels) for c in self._constraints)
            self._matches[other] = matches
        return matches

    def note(self, row: int, other: PodShape) -> None:
        """Take in that a pod of shape `other`, which bears on this score, came to `row` or left."""
        matches = [
            self._matched(pod.shape) for pod in self._state.pods_on[row].values() if not pod.is_terminating
        ]
        for number, is_matched in enumerate(self._matched(other)):
            if is_matched:
                constraint = self._constraints[number]
                count = sum(matched[number] for matched in matches)
                if constraint.counted[row]:
                    constraint.domain_counts[constraint.slots[row]] += count - constraint.counts[row]
                constraint.counts[row] = count

    def scores(self, feasible: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Return 0–100 by row, normalised over the feasible nodes; other rows hold anything.

        The same array object for `feasible` means the same content.
        """
        if self._looked_at is not feasible:
            self._look(feasible)
        considered = self._considered
        charge: NDArray[np.float64] | None = None
        for c in self._constraints:
            if c.is_by_host:
                more = c.charges(np.arange(int(c.counts.max()) + 1)).take(c.counts)
            else:
                more = c.charges(c.domain_counts).take(c.slots)
            if not c.is_everywhere:
                more[c.slots == c.domain_counts.size - 1] = 0.0
            if charge is None:
                charge = more
            else:
                charge += more
        if charge is None:
            return np.zeros(self._state.capacity, dtype=np.int64)
        charge += 0.5  # half away from zero, as Go rounds: charges are ≥ 0
        rounded = charge.astype(np.int64)
        seen = rounded[considered]
        largest = int(seen.max(initial=0))
        if largest == 0:
            score = np.full(self._state.capacity, MAX_NODE_SCORE, dtype=np.int64)
        else:
            table = MAX_NODE_SCORE * (largest + int(seen.min()) - np.arange(largest + 1)) // largest
            score = table.take(rounded, mode="clip")  # rows that are not feasible may lie outside
        if considered is not feasible:
            score[~considered] = 0
        return score

    def _look(self, feasible: NDArray[np.bool_]) -> None:
        """Work out what depends on which nodes are feasible: who is considered, and the domains' number."""
        self._looked_at = self._considered = feasible
        if self._has_all_keys is not None and (feasible > self._has_all_keys).any():
            self._considered = feasible & self._has_all_keys
        for c in self._constraints:
            if c.is_by_host:
                domains = int(np.count_nonzero(self._considered))
            else:
                domains = int(np.count_nonzero(np.bincount(c.slots[self._considered])))
            c.weight = math.log(domains + 2)
