"""Selectors over all nodes at once: a condition is judged once per distinct label value, then looked up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain import (
    ABSENT,
    ClusterState,
    NodeSelectorTerm,
    PodAffinityTerm,
    PodShape,
    Requirement,
    Taint,
    TaintEffect,
    Toleration,
    TolerationOperator,
)
from stowplan.core.domain.selectors import parse_label_integer

__all__ = [
    "affinity_term_matches",
    "label_ids",
    "required_affinity_rows",
    "term_rows",
    "tolerates",
    "untolerated_counts",
]


def label_ids(state: ClusterState, key: str) -> NDArray[np.int32]:
    """Return the value id of label `key` by row, ABSENT where it is missing; shape (capacity,)."""
    column = state.labels.get(key)
    return column.value_ids if column is not None else np.full(state.capacity, ABSENT, dtype=np.int32)


def _requirement_rows(state: ClusterState, requirement: Requirement) -> NDArray[np.bool_]:
    column = state.labels.get(requirement.key)
    if column is None:
        return np.full(state.capacity, requirement.matches_value(None), dtype=np.bool_)
    table = [requirement.matches_value(label) for label in column.values]
    table.append(requirement.matches_value(None))  # where ABSENT, −1, points
    return np.array(table, dtype=np.bool_)[column.value_ids]


def term_rows(state: ClusterState, term: NodeSelectorTerm) -> NDArray[np.bool_]:
    """Tell which rows meet every requirement of `term`, shape (capacity,); an empty term is met by none."""
    if not term.expressions and not term.fields:
        return np.zeros(state.capacity, dtype=np.bool_)
    met = state.is_node.copy()
    for requirement in term.expressions:
        met &= _requirement_rows(state, requirement)
    for requirement in term.fields:
        holds = np.zeros(state.capacity, dtype=np.bool_)
        for name, row in state.rows():
            holds[row] = requirement.matches_value(name if requirement.key == "metadata.name" else None)
        met &= holds
    return met


def required_affinity_rows(state: ClusterState, shape: PodShape) -> NDArray[np.bool_]:
    """Tell which rows meet the node selector and the required node affinity of `shape`, shape (capacity,)."""
    met = state.is_node.copy()
    for requirement in shape.node_selector:
        met &= _requirement_rows(state, requirement)
    if shape.node_affinity.required is not None:
        any_term = np.zeros(state.capacity, dtype=np.bool_)
        for term in shape.node_affinity.required:
            any_term |= term_rows(state, term)
        met &= any_term
    return met


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Tell whether a toleration matches a taint, numeric comparisons included (KEP-5471, alpha)."""
    if toleration.effect is not None and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    match toleration.operator:
        case TolerationOperator.EQUAL:
            return toleration.value == taint.value
        case TolerationOperator.EXISTS:
            return True
        case TolerationOperator.GT | TolerationOperator.LT:
            bound, have = parse_label_integer(toleration.value), parse_label_integer(taint.value)
            if bound is None or have is None:
                return False
            return have > bound if toleration.operator is TolerationOperator.GT else have < bound


def untolerated_counts(
    state: ClusterState, tolerations: Iterable[Toleration], effects: tuple[TaintEffect, ...]
) -> NDArray[np.int64]:
    """Return how many taints of these effects each row has that no toleration matches, shape (capacity,)."""
    matching = [t for t in tolerations if t.effect is None or t.effect in effects]
    table = [
        sum(taint.effect in effects and not any(tolerates(t, taint) for t in matching) for taint in taints)
        for taints in state.taint_sets
    ]
    return np.array(table, dtype=np.int64)[state.taint_set_ids]


def affinity_term_matches(
    term: PodAffinityTerm,
    owner_namespace: str,
    namespace: str,
    labels: Mapping[str, str],
    state: ClusterState,
) -> bool:
    """Tell whether `term`, of a pod of `owner_namespace`, speaks of pods of `namespace` with `labels`."""
    if term.selector is None or not term.selector.matches(labels):
        return False
    if namespace in term.namespaces:
        return True
    if term.namespace_selector is not None:
        if not term.namespace_selector.requirements:
            return True
        known = state.namespaces.get(namespace)
        return known is not None and term.namespace_selector.matches(dict(known))
    return not term.namespaces and namespace == owner_namespace
