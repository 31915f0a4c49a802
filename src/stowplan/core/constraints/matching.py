"""Selectors and tolerations, evaluated once per distinct value and looked up for all nodes at once.

Semantics: component-helpers `scheduling/corev1` (node affinity, tolerations) and apimachinery `labels`.
Tolerations with the operators `Gt` and `Lt` tolerate nothing: the gate TaintTolerationComparisonOperators
is off by default in Kubernetes 1.37.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from stowplan.core.constraints.filter import Rows, row_numbers
from stowplan.core.domain import (
    ClusterState,
    LabelColumn,
    NodeSelectorTerm,
    Operator,
    PodShape,
    Requirement,
    Taint,
    TaintEffect,
    Toleration,
    TolerationOperator,
)

__all__ = [
    "label_ids",
    "required_affinity_met",
    "requirement_met",
    "terms_met",
    "tolerates",
    "untolerated_table",
    "untolerated_taint",
]

_BLOCKING = (TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE)


def _count(state: ClusterState, rows: Rows) -> int:
    return state.capacity if isinstance(rows, slice) else len(rows)


def label_ids(state: ClusterState, key: str, rows: Rows) -> NDArray[np.int32] | None:
    """Return the value ids of label `key` on `rows`, shape (n,); None when no node ever had the label."""
    column = state.labels.get(key)
    return None if column is None else column.value_ids[rows]


def _table(column: LabelColumn, requirement: Requirement) -> NDArray[np.bool_]:
    """Return whether each value id meets the requirement; the last entry is for nodes without the label."""
    size = len(column.values) + 1
    match requirement.operator:
        case Operator.IN | Operator.NOT_IN:
            is_not = requirement.operator is Operator.NOT_IN
            table = np.full(size, is_not)
            for label in requirement.values:
                value_id = column.id_of(label)
                if value_id >= 0:
                    table[value_id] = not is_not
        case Operator.EXISTS | Operator.DOES_NOT_EXIST:
            table = np.full(size, requirement.operator is Operator.EXISTS)
            table[-1] = not table[-1]
        case Operator.GT | Operator.LT:
            met = [requirement.matches_value(label) for label in column.values]
            table = np.array([*met, False], dtype=np.bool_)
    return table


def requirement_met(state: ClusterState, requirement: Requirement, rows: Rows) -> NDArray[np.bool_]:
    """Tell which of `rows` have a label that meets the requirement, shape (n,)."""
    column = state.labels.get(requirement.key)
    if column is None:
        return np.full(_count(state, rows), requirement.matches_value(None))
    return _table(column, requirement)[column.value_ids[rows]]


def _name_met(state: ClusterState, requirement: Requirement, rows: Rows) -> NDArray[np.bool_]:
    if requirement.key != "metadata.name":
        return np.full(_count(state, rows), requirement.matches_value(None))
    named = [state.row(name) for name in requirement.values]
    met = np.isin(row_numbers(state, rows), np.array(named, dtype=np.intp))
    return ~met if requirement.operator is Operator.NOT_IN else met


def terms_met(
    state: ClusterState, terms: Iterable[NodeSelectorTerm], rows: Rows, *, with_fields: bool = True
) -> NDArray[np.bool_]:
    """Tell which of `rows` meet any of the terms, shape (n,); an empty term matches none.

    `with_fields` False ignores the field requirements, as kube-scheduler does for volumes, whose affinity
    it compares with labels alone.
    """
    met_any = np.zeros(_count(state, rows), dtype=np.bool_)
    for term in terms:
        if not term.expressions and not term.fields:
            continue
        met = np.ones(len(met_any), dtype=np.bool_)
        for requirement in term.expressions:
            met &= requirement_met(state, requirement, rows)
        if with_fields:
            for requirement in term.fields:
                met &= _name_met(state, requirement, rows)
        met_any |= met
    return met_any


def required_affinity_met(state: ClusterState, shape: PodShape, rows: Rows) -> NDArray[np.bool_] | None:
    """Tell which of `rows` the pod's nodeSelector and required node affinity accept; None: it has neither."""
    met: NDArray[np.bool_] | None = None
    for requirement in shape.node_selector:
        one = requirement_met(state, requirement, rows)
        met = one if met is None else met & one
    if shape.node_affinity.required is not None:
        terms = terms_met(state, shape.node_affinity.required, rows)
        met = terms if met is None else met & terms
    return met


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """Tell whether any toleration tolerates the taint."""
    for toleration in tolerations:
        if toleration.effect is not None and toleration.effect is not taint.effect:
            continue
        if toleration.key and toleration.key != taint.key:
            continue
        if toleration.operator is TolerationOperator.EXISTS:
            return True
        if toleration.operator is TolerationOperator.EQUAL and toleration.value == taint.value:
            return True
    return False


def untolerated_taint(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> Taint | None:
    """Return the first taint that keeps the pod away (NoSchedule or NoExecute), or None."""
    for taint in taints:
        if taint.effect in _BLOCKING and not tolerates(tolerations, taint):
            return taint
    return None


def untolerated_table(state: ClusterState, tolerations: tuple[Toleration, ...]) -> NDArray[np.bool_]:
    """Tell for each of the state's taint sets whether it keeps the pod away, shape (taint sets,)."""
    return np.array(
        [untolerated_taint(taints, tolerations) is not None for taints in state.taint_sets], dtype=np.bool_
    )
