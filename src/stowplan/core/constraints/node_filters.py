"""Filters that only the node's own description decides, whatever runs on it.

Semantics: kube-scheduler 1.37 plugins SchedulingGates, NodeName, NodeUnschedulable, TaintToleration,
NodeAffinity and NodeDeclaredFeatures. DynamicResources is refused as a whole: the scheduler itself must
allocate devices for resource claims (KEP-4381), which Stowplan leaves to kube-scheduler.
"""

from __future__ import annotations

from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.constraints.filter import NodeFilter, Rows, row_numbers
from stowplan.core.constraints.matching import (
    required_affinity_met,
    tolerates,
    untolerated_table,
    untolerated_taint,
)
from stowplan.core.domain import ClusterState, Operator, PodShape, Taint, TaintEffect

__all__ = [
    "DynamicResources",
    "NodeAffinity",
    "NodeDeclaredFeatures",
    "NodeName",
    "NodeUnschedulable",
    "SchedulingGates",
    "TaintToleration",
]

_UNSCHEDULABLE: Final = Taint("node.kubernetes.io/unschedulable", "", TaintEffect.NO_SCHEDULE)


class _WholePod(NodeFilter):
    """A filter that refuses every node or none."""

    is_gate: ClassVar[bool] = True

    @property
    def rejects_pod(self) -> bool:
        """Always: nodes do not matter."""
        return True

    def refused(self, rows: Rows) -> NDArray[np.bool_] | None:
        """Refuse every row."""
        return np.ones(len(row_numbers(self._state, rows)), dtype=np.bool_)


class SchedulingGates(_WholePod):
    """A gated pod is not looked at by any scheduler."""

    name: ClassVar[str] = "SchedulingGates"

    def refused_when_empty(self) -> NDArray[np.bool_] | None:
        """Gates are lifted by their owner, so they say nothing about whether the pod could fit."""
        return None

    def reason(self, row: int) -> str:  # noqa: ARG002  (the same on every node)
        """Name the gates."""
        return f"waiting for scheduling gates: {', '.join(self._shape.scheduling_gates)}"


class DynamicResources(_WholePod):
    """Pods with resource claims are left to kube-scheduler, which allocates the devices itself."""

    name: ClassVar[str] = "DynamicResources"

    def reason(self, row: int) -> str:  # noqa: ARG002  (the same on every node)
        """Name the claims."""
        claims = ", ".join(self._shape.resource_claims)
        return f"has resource claims ({claims}); kube-scheduler allocates their devices, leave this pod to it"


class NodeName(NodeFilter):
    """The pod names the one node it runs on."""

    name: ClassVar[str] = "NodeName"

    def refused(self, rows: Rows) -> NDArray[np.bool_] | None:
        """Refuse every other node."""
        return row_numbers(self._state, rows) != self._state.row(self._shape.node_name or "")

    def reason(self, row: int) -> str:  # noqa: ARG002  (the same on every node)
        """Name the node that is wanted."""
        return f"the pod asks for node {self._shape.node_name!r}"


class NodeUnschedulable(NodeFilter):
    """The node is cordoned (`spec.unschedulable`), and the pod does not tolerate that."""

    name: ClassVar[str] = "NodeUnschedulable"

    @staticmethod
    def is_needed(shape: PodShape) -> bool:
        """Tell whether cordoned nodes refuse the shape."""
        return not tolerates(shape.tolerations, _UNSCHEDULABLE)

    def refused(self, rows: Rows) -> NDArray[np.bool_] | None:
        """Refuse cordoned nodes."""
        return self._state.is_unschedulable[rows]

    def reason(self, row: int) -> str:  # noqa: ARG002  (the same on every node)
        """Say that the node is cordoned."""
        return "the node is marked unschedulable (cordoned)"


class TaintToleration(NodeFilter):
    """The node has a taint NoSchedule or NoExecute that the pod does not tolerate."""

    name: ClassVar[str] = "TaintToleration"

    def __init__(self, state: ClusterState, shape: PodShape) -> None:
        """Bind to a state and a shape."""
        super().__init__(state, shape)
        self._table: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)

    def refused(self, rows: Rows) -> NDArray[np.bool_] | None:
        """Refuse nodes with such a taint."""
        if len(self._table) != len(self._state.taint_sets):
            self._table = untolerated_table(self._state, self._shape.tolerations)
        if not self._table.any():
            return None
        return self._table[self._state.taint_set_ids[rows]]

    def reason(self, row: int) -> str:
        """Name the first such taint."""
        taint = untolerated_taint(self._state.node(row).taints, self._shape.tolerations)
        if taint is None:
            return "untolerated taint"
        written = f"{taint.key}={taint.value}" if taint.value else taint.key
        return f"untolerated taint {written}:{taint.effect}"


class NodeAffinity(NodeFilter):
    """The node's labels or name do not meet nodeSelector and required node affinity."""

    name: ClassVar[str] = "NodeAffinity"

    @staticmethod
    def is_needed(shape: PodShape) -> bool:
        """Tell whether the shape has such a requirement."""
        return bool(shape.node_selector) or shape.node_affinity.required is not None

    def refused(self, rows: Rows) -> NDArray[np.bool_] | None:
        """Refuse nodes that do not meet them."""
        met = required_affinity_met(self._state, self._shape, rows)
        return None if met is None else ~met

    @property
    def rejects_pod(self) -> bool:
        """Whether the terms ask for node names that exclude one another."""
        return self._names() == frozenset()

    def ruled_out(self) -> NDArray[np.bool_] | None:
        """Rule out the nodes that are not named, when every term names some."""
        names = self._names()
        if names is None:
            return None
        is_out = np.ones(self._state.capacity, dtype=np.bool_)
        is_out[[row for row in map(self._state.row, names) if row >= 0]] = False
        return is_out

    def _names(self) -> frozenset[str] | None:
        """Return the node names that the required terms allow; None: some term allows any."""
        names: frozenset[str] = frozenset()
        for term in self._shape.node_affinity.required or ():
            wanted = [
                frozenset(field.values)
                for field in term.fields
                if field.key == "metadata.name" and field.operator is Operator.IN
            ]
            if not wanted:
                return None
            names |= wanted[0].intersection(*wanted[1:])
        return names if self._shape.node_affinity.required else None

    def reason(self, row: int) -> str:
        """Name the first requirement of nodeSelector that fails, or the affinity as a whole."""
        labels = dict(self._state.node(row).labels)
        for requirement in self._shape.node_selector:
            if not requirement.matches_value(labels.get(requirement.key)):
                has = labels.get(requirement.key)
                wanted = " or ".join(requirement.values)
                found = "the node lacks the label" if has is None else f"the node has {has!r}"
                verb = "" if requirement.operator is Operator.IN else f" {requirement.operator}"
                return f"nodeSelector wants {requirement.key}{verb} = {wanted}; {found}"
        terms = len(self._shape.node_affinity.required or ())
        return f"none of the {terms} required node affinity terms matches the node's labels and name"


class NodeDeclaredFeatures(NodeFilter):
    """The kubelet does not declare a feature that the pod's spec needs."""

    name: ClassVar[str] = "NodeDeclaredFeatures"

    def _missing(self, row: int) -> list[str]:
        node = self._state.nodes[row]
        declared = () if node is None else node.declared_features
        return [feature for feature in self._shape.required_features if feature not in declared]

    def refused(self, rows: Rows) -> NDArray[np.bool_] | None:
        """Refuse nodes that lack one."""
        numbers = row_numbers(self._state, rows)
        return np.array([bool(self._missing(int(row))) for row in numbers], dtype=np.bool_)

    def reason(self, row: int) -> str:
        """Name the features."""
        return f"the node does not declare the features that the pod needs: {', '.join(self._missing(row))}"
