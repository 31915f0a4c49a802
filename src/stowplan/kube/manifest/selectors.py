"""Label selectors, node selectors and pod affinity terms out of API objects."""

from __future__ import annotations

import re
from typing import Final

from stowplan.core.domain import (
    LabelSelector,
    NodeSelectorTerm,
    Operator,
    PodAffinityTerm,
    Requirement,
    WeightedPodAffinityTerm,
)
from stowplan.errors import InvalidObject
from stowplan.kube.manifest.cursor import Cursor

__all__ = [
    "label_selector",
    "node_terms",
    "pod_affinity_terms",
    "term_of",
    "topology_terms",
    "weighted_pod_affinity_terms",
    "with_label_keys",
]

_SELECTOR_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist")
_NODE_OPERATORS: Final = (*_SELECTOR_OPERATORS, "Gt", "Lt")
_FIELD_OPERATORS: Final = ("In", "NotIn")
_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")


def _requirement(cursor: Cursor, operators: tuple[str, ...]) -> Requirement:
    key = cursor["key"].required_text("name a label key")
    operator = cursor["operator"].one_of(operators)
    values = cursor["values"].texts()
    try:
        return Requirement(key, Operator(operator), values)
    except InvalidObject as error:
        cursor.fail(str(error))


def _node_requirement(cursor: Cursor) -> Requirement:
    requirement = _requirement(cursor, _NODE_OPERATORS)
    for value in requirement.values:
        if _LABEL_VALUE.fullmatch(value) is None:
            cursor["values"].fail(f"{value!r} can never be a label's value, correct it")
    return requirement


def label_selector(cursor: Cursor) -> LabelSelector | None:
    """Return a selector (matchLabels and matchExpressions); None, which matches nothing, when absent."""
    if not cursor.is_set:
        return None
    requirements = [
        Requirement(key, Operator.IN, (value.text(),))
        for key, value in sorted(cursor["matchLabels"].entries())
    ]
    requirements += [_requirement(item, _SELECTOR_OPERATORS) for item in cursor["matchExpressions"].items()]
    return LabelSelector(tuple(requirements))


def with_label_keys(
    selector: LabelSelector | None, match: Cursor, mismatch: Cursor, labels: dict[str, str]
) -> LabelSelector | None:
    """Return a selector with the label keys merged in, as the API server does when a pod is created."""
    if selector is None:
        return None
    merged = selector
    for keys, operator in ((match, Operator.IN), (mismatch, Operator.NOT_IN)):
        for key in keys.texts():
            if key in labels:
                extra = Requirement(key, operator, (labels[key],))
                if extra not in merged.requirements:
                    merged = merged.and_also(extra)
    return merged


def term_of(cursor: Cursor) -> NodeSelectorTerm:
    """Return one node selector term."""
    fields = tuple(_requirement(item, _FIELD_OPERATORS) for item in cursor["matchFields"].items())
    for item, requirement in zip(cursor["matchFields"].items(), fields, strict=True):
        if requirement.key != "metadata.name":
            item["key"].fail("metadata.name is the only field of nodes that can be selected")
        if len(requirement.values) != 1:
            item["values"].fail("write exactly one node name")
    return NodeSelectorTerm(
        expressions=tuple(_node_requirement(item) for item in cursor["matchExpressions"].items()),
        fields=fields,
    )


def node_terms(cursor: Cursor) -> tuple[NodeSelectorTerm, ...] | None:
    """Return the terms of a node selector; None when there is none."""
    if not cursor.is_set:
        return None
    return tuple(term_of(item) for item in cursor["nodeSelectorTerms"].items())


def topology_terms(cursor: Cursor) -> tuple[NodeSelectorTerm, ...]:
    """Return the allowed topologies of a storage class."""
    return tuple(
        NodeSelectorTerm(
            tuple(
                Requirement(
                    item["key"].required_text("name a label key"), Operator.IN, item["values"].texts()
                )
                for item in term["matchLabelExpressions"].items()
            )
        )
        for term in cursor.items()
    )


def _pod_affinity_term(cursor: Cursor, labels: dict[str, str]) -> PodAffinityTerm:
    selector = label_selector(cursor["labelSelector"])
    return PodAffinityTerm(
        topology_key=cursor["topologyKey"].required_text("name the node label that makes the domains"),
        selector=with_label_keys(selector, cursor["matchLabelKeys"], cursor["mismatchLabelKeys"], labels),
        namespaces=tuple(sorted(set(cursor["namespaces"].texts()))),
        namespace_selector=label_selector(cursor["namespaceSelector"]),
    )


def pod_affinity_terms(cursor: Cursor, labels: dict[str, str]) -> tuple[PodAffinityTerm, ...]:
    """Return required affinity (or anti-affinity) terms of a pod with `labels`."""
    return tuple(_pod_affinity_term(item, labels) for item in cursor.items())


def weighted_pod_affinity_terms(
    cursor: Cursor, labels: dict[str, str]
) -> tuple[WeightedPodAffinityTerm, ...]:
    """Return preferred affinity (or anti-affinity) terms of a pod with `labels`."""
    return tuple(
        WeightedPodAffinityTerm(_weight(item["weight"]), _pod_affinity_term(item["podAffinityTerm"], labels))
        for item in cursor.items()
    )


def _weight(cursor: Cursor) -> int:
    weight = cursor.integer()
    if not 1 <= weight <= 100:
        cursor.fail("a weight lies between 1 and 100")
    return weight
