"""Nodes and namespaces out of API objects."""

from __future__ import annotations

from typing import Final

from stowplan.core.constraints.requests import is_counted
from stowplan.core.domain import (
    CPU,
    MACHINE_TYPE_LABEL,
    PODS,
    Hardware,
    NamespaceSet,
    Node,
    Resources,
    Taint,
    TaintEffect,
    freeze_labels,
)
from stowplan.kube.manifest.cursor import Cursor

__all__ = ["implied_namespace", "read_namespace", "read_node"]

_NAME_LABEL: Final = "kubernetes.io/metadata.name"


def read_namespace(name: str, cursor: Cursor) -> NamespaceSet:
    """Return a namespace; the API server gives each the label with its name."""
    return NamespaceSet(name, freeze_labels({**cursor["metadata"]["labels"].label_map(), _NAME_LABEL: name}))


def implied_namespace(name: str) -> NamespaceSet:
    """Return a namespace that objects are in although it is not among them."""
    return NamespaceSet(name, ((_NAME_LABEL, name),))


def read_node(name: str, cursor: Cursor) -> Node:
    """Return a node; without `status.allocatable`, all of its capacity is allocatable."""
    labels = cursor["metadata"]["labels"].labels()
    status = cursor["status"]
    given = status["allocatable"] if status["allocatable"].is_set else status["capacity"]
    amounts: dict[str, int] = {}
    for resource, quantity in given.entries():
        exact = quantity.quantity()
        if resource == CPU:
            amounts[resource] = -(-(exact * 1000).numerator // (exact * 1000).denominator)
        elif resource == PODS or is_counted(resource):
            amounts[resource] = quantity.whole_quantity()
    return Node(
        name=name,
        allocatable=Resources(amounts),
        labels=labels,
        taints=tuple(_taint(item) for item in cursor["spec"]["taints"].items()),
        unschedulable=cursor["spec"]["unschedulable"].flag(),
        images=tuple(
            (image, item["sizeBytes"].integer())
            for item in status["images"].items()
            for image in item["names"].texts()
        ),
        hardware=Hardware(machine_type=dict(labels).get(MACHINE_TYPE_LABEL, "")),
        declared_features=status["declaredFeatures"].texts(),
    )


def _taint(cursor: Cursor) -> Taint:
    return Taint(
        key=cursor["key"].required_text("name the taint's key"),
        value=cursor["value"].text(),
        effect=TaintEffect(cursor["effect"].one_of(tuple(TaintEffect))),
    )
