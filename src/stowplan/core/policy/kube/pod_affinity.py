"""InterPodAffinity scoring: attraction and repulsion between pods by topology domain (Kubernetes 1.37).

A domain earns, for every pod in it: the weight of each preferred term of the incoming pod that the pod meets
(minus for anti-affinity), and the same for the pod's own preferred terms that the incoming pod meets; the
pod's required affinity terms count 1 (`hardPodAffinityWeight`). A node's sum over topology keys is scaled to
0–100 between the least and the most of the feasible nodes.

What two pod shapes mean to each other is worked out once; most mean nothing, and then a change costs a
dictionary look-up.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain import ClusterState, PodAffinityTerm, PodShape, RowCounter
from stowplan.core.policy.kube.resources import MAX_NODE_SCORE
from stowplan.core.policy.matching import affinity_term_matches, label_ids

__all__ = ["PodAffinityScore"]

Relation = Mapping[str, int]
"""Topology key → weight that one pod of a shape adds to its domain."""


class _Domains:
    """The weights of one topology key by row and by domain; the last domain: rows without the label."""

    __slots__ = ("by_row", "slots", "sums")

    def __init__(self, state: ClusterState, key: str) -> None:
        column = state.labels.get(key)
        size = len(column.values) if column is not None else 0
        ids = label_ids(state, key)
        self.slots: NDArray[np.intp] = np.where(ids < 0, size, ids).astype(np.intp)
        self.by_row = np.zeros(state.capacity, dtype=np.int64)
        self.sums = np.zeros(size + 1, dtype=np.int64)

    def add(self, rows: NDArray[np.intp], amounts: NDArray[np.int64]) -> None:
        self.by_row[rows] += amounts
        np.add.at(self.sums, self.slots[rows], amounts)

    def set_row(self, row: int, amount: int) -> None:
        self.sums[self.slots[row]] += amount - self.by_row[row]
        self.by_row[row] = amount

    def totals(self) -> NDArray[np.int64]:
        """Return the sum per domain, 0 for the rows without the label, which are in none."""
        self.sums[-1] = 0
        return self.sums


class PodAffinityScore:
    """The pod affinity of one shape, following the pods that come and go."""

    __slots__ = ("_domains", "_hard_weight", "_looked_at", "_present", "_relations", "_shape", "_state")

    def __init__(self, state: ClusterState, shape: PodShape, hard_weight: int) -> None:
        """Sum what the bound pods mean to `shape`; `hard_weight` is that of their required affinity terms."""
        self._state = state
        self._shape = shape
        self._hard_weight = hard_weight
        self._relations: dict[PodShape, Relation] = {}
        self._domains: dict[str, _Domains] = {}
        self._looked_at: NDArray[np.bool_] | None = None
        self._present: NDArray[np.intp] = np.zeros(0, dtype=np.intp)
        for weight, term in self._own_terms():
            for group, rows_of in state.index.groups.items():
                if affinity_term_matches(
                    term, shape.namespace, group.namespace, dict(group.labels), state, is_of_bound_pod=False
                ):
                    self._add(term.topology_key, rows_of, weight)
        labels = dict(shape.labels)
        for sign, owners in ((1, state.index.affinity_terms), (-1, state.index.anti_affinity_terms)):
            for owner, rows_of in owners.items():
                weight = sign * owner.weight or (hard_weight if sign > 0 else 0)
                if weight and affinity_term_matches(
                    owner.term, owner.namespace, shape.namespace, labels, state, is_of_bound_pod=True
                ):
                    self._add(owner.term.topology_key, rows_of, weight)

    def _own_terms(self) -> list[tuple[int, PodAffinityTerm]]:
        shape = self._shape
        attracted = [(preferred.weight, preferred.term) for preferred in shape.preferred_affinity]
        return attracted + [
            (-preferred.weight, preferred.term) for preferred in shape.preferred_anti_affinity
        ]

    def _add(self, key: str, rows_of: RowCounter, weight: int) -> None:
        rows, counts = rows_of.arrays()
        self._of(key).add(rows, weight * counts)

    def _of(self, key: str) -> _Domains:
        domains = self._domains.get(key)
        if domains is None:
            domains = self._domains[key] = _Domains(self._state, key)
        return domains

    def is_touched_by(self, other: PodShape) -> bool:
        """Tell whether pods of shape `other` bear on this score."""
        return bool(self._relation(other))

    def note(self, row: int, other: PodShape) -> None:
        """Take in that a pod of shape `other`, which bears on this score, came to `row` or left."""
        relation = self._relation(other)
        sums = dict.fromkeys(relation, 0)
        for pod in self._state.pods_on[row].values():
            for key, weight in self._relation(pod.shape).items():
                if key in sums:
                    sums[key] += weight
        for key, amount in sums.items():
            self._of(key).set_row(row, amount)

    def _relation(self, other: PodShape) -> Relation:
        relation = self._relations.get(other)
        if relation is None:
            relation = self._relations[other] = self._relate(other)
        return relation

    def _relate(self, other: PodShape) -> Relation:
        shape, state = self._shape, self._state
        weights: dict[str, int] = {}
        other_labels = dict(other.labels)
        for weight, term in self._own_terms():
            if affinity_term_matches(
                term, shape.namespace, other.namespace, other_labels, state, is_of_bound_pod=False
            ):
                weights[term.topology_key] = weights.get(term.topology_key, 0) + weight
        theirs = [(self._hard_weight, term) for term in other.affinity]
        theirs += [(preferred.weight, preferred.term) for preferred in other.preferred_affinity]
        theirs += [(-preferred.weight, preferred.term) for preferred in other.preferred_anti_affinity]
        labels = dict(shape.labels)
        for weight, term in theirs:
            if affinity_term_matches(
                term, other.namespace, shape.namespace, labels, state, is_of_bound_pod=True
            ):
                weights[term.topology_key] = weights.get(term.topology_key, 0) + weight
        return {key: weight for key, weight in weights.items() if weight}

    def scores(self, feasible: NDArray[np.bool_]) -> NDArray[np.int64] | None:
        """Return 0–100 by row, scaled over the feasible nodes; None when it tells no nodes apart.

        The same array object for `feasible` means the same content.
        """
        if not self._domains:
            return None
        first, *others = self._domains.values()
        if not others:
            return self._scores_of_one(first, feasible)
        raw = first.totals().take(first.slots)
        for domains in others:
            raw += domains.totals().take(domains.slots)
        seen = raw[feasible]
        if seen.size == 0:
            return None
        return _scaled(raw, int(seen.min()), int(seen.max()))

    def _scores_of_one(self, domains: _Domains, feasible: NDArray[np.bool_]) -> NDArray[np.int64] | None:
        if self._looked_at is not feasible:
            self._looked_at = feasible
            present = np.bincount(domains.slots[feasible], minlength=domains.sums.size)
            self._present = present.nonzero()[0]
        totals = domains.totals()
        seen = totals[self._present]
        if seen.size == 0:
            return None
        scaled = _scaled(totals, int(seen.min()), int(seen.max()))
        return scaled.take(domains.slots) if scaled is not None else None


def _scaled(raw: NDArray[np.int64], least: int, most: int) -> NDArray[np.int64] | None:
    """Return 100·(raw − least)/(most − least), cut to integers; None when all are equal."""
    if least == most:
        return None
    return (float(MAX_NODE_SCORE) * ((raw - least) / (most - least))).astype(np.int64)
