"""What scoring asks of selectors beyond what the constraints already answer, for all nodes at once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from stowplan.core.constraints.filter import ALL_ROWS
from stowplan.core.constraints.matching import required_affinity_met, tolerates
from stowplan.core.domain import ABSENT, ClusterState, PodAffinityTerm, PodShape, TaintEffect

__all__ = ["affinity_term_matches", "label_ids", "required_affinity_rows", "untolerated_counts"]


def label_ids(state: ClusterState, key: str) -> NDArray[np.int32]:
    """Return the value id of label `key` by row, ABSENT where it is missing; shape (capacity,)."""
    column = state.labels.get(key)
    return column.value_ids if column is not None else np.full(state.capacity, ABSENT, dtype=np.int32)


def required_affinity_rows(state: ClusterState, shape: PodShape) -> NDArray[np.bool_]:
    """Tell which nodes meet the node selector and required node affinity of `shape`, shape (capacity,)."""
    met = required_affinity_met(state, shape, ALL_ROWS)
    return state.is_node.copy() if met is None else met & state.is_node


def untolerated_counts(
    state: ClusterState, shape: PodShape, effects: tuple[TaintEffect, ...]
) -> NDArray[np.int64]:
    """Return how many taints of these effects on each row the pod does not tolerate, shape (capacity,)."""
    table = [
        sum(taint.effect in effects and not tolerates(shape.tolerations, taint) for taint in taints)
        for taints in state.taint_sets
    ]
    return np.array(table, dtype=np.int64)[state.taint_set_ids]


def affinity_term_matches(
    term: PodAffinityTerm,
    owner_namespace: str,
    namespace: str,
    labels: Mapping[str, str],
    state: ClusterState,
    *,
    is_of_bound_pod: bool,
) -> bool:
    """Tell whether `term`, of a pod of `owner_namespace`, speaks of pods of `namespace` with `labels`.

    A namespace that is not known has no labels to a bound pod's term; a term of the pod to place selects
    among those that are known, unless it selects all (`interpodaffinity/plugin.go`).
    """
    if term.selector is None or not term.selector.matches(labels):
        return False
    if namespace in term.namespaces:
        return True
    if term.namespace_selector is not None:
        if not term.namespace_selector.requirements:
            return True
        known = state.namespaces.get(namespace, () if is_of_bound_pod else None)
        return known is not None and term.namespace_selector.matches(dict(known))
    return not term.namespaces and namespace == owner_namespace
