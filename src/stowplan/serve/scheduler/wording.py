"""Why a pod has no node, in kube-scheduler's words: `0/5 nodes are available: 3 Insufficient cpu, …`.

People search for these sentences, and tools read them; so the phrases are kube-scheduler's where it has one.
Counts of resources are per node and resource, as there: a node that lacks two is in two counts.

Source: kubernetes pkg/scheduler/framework/types.go (FitError) and the plugins' reasons, 1.37.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from stowplan.core.constraints import FILTERS, CompiledFilters
from stowplan.core.decoder import CLOSED, Infeasible, Wait
from stowplan.core.domain import PODS_COLUMN, ClusterState
from stowplan.kube.live.pod import LivePod

__all__ = ["claims_message", "refusing_filters", "unschedulable_message"]

_PHRASE: Final[dict[str, str]] = {
    "SchedulingGates": "pod is held by a scheduling gate",
    "NodeName": "node(s) didn't match the requested node name",
    "NodeUnschedulable": "node(s) were unschedulable",
    "TaintToleration": "node(s) had untolerated taint(s)",
    "NodeAffinity": "node(s) didn't match Pod's node affinity/selector",
    "NodePorts": "node(s) didn't have free ports for the requested pod ports",
    "VolumeRestrictions": "node(s) had no available disk",
    "NodeVolumeLimits": "node(s) exceed max volume count",
    "VolumeBinding": "node(s) didn't find available persistent volumes to bind",
    "VolumeZone": "node(s) had no available volume zone",
    "PodTopologySpread": "node(s) didn't match pod topology spread constraints",
    "InterPodAffinity": "node(s) didn't match pod affinity/anti-affinity rules",
    "DynamicResources": "cannot allocate all claims",
    "NodeDeclaredFeatures": "node(s) didn't declare the features that the pod needs",
    "SharedGpu": "Insufficient shares of a GPU",
    "RuleTable": "node(s) were refused by the operator's rules",
    CLOSED: "node(s) take no pods for a moment, since their kubelet refused one",
}
_FIT: Final = "NodeResourcesFit"


def unschedulable_message(state: ClusterState, filters: CompiledFilters, outcome: Wait | Infeasible) -> str:
    """Say why a pod found no node.

    Args:
        state: the cluster.
        filters: the constraints of the pod's shape, current.
        outcome: what the cycle found.
    """
    nodes = state.node_count
    if nodes == 0:
        return "no nodes available to schedule pods"
    reasons: dict[str, int] = {}
    for name, count in outcome.refused.items():
        if name == _FIT:
            reasons.update(_short_of(state, filters))
        elif count == nodes:
            reasons[_of_whole_pod(filters, name)] = count
        else:
            reasons[_PHRASE.get(name, name)] = count
    if sum(outcome.refused.values()) < nodes:
        reasons[f"node(s) could take the pod, but {outcome.reason}"] = nodes - sum(outcome.refused.values())
    parts = sorted(f"{count} {reason}" for reason, count in reasons.items())
    never = ". No node could take it if it were empty" if isinstance(outcome, Infeasible) else ""
    return f"0/{nodes} nodes are available: {', '.join(parts)}{never}."


def _short_of(state: ClusterState, filters: CompiledFilters) -> dict[str, int]:
    """Count the nodes that lack each resource, among those that lack any."""
    short = filters.refused_by == FILTERS.index(_FIT) + 1
    free = state.allocatable[short] - state.requested[short]
    names = {column: name for name, column in state.columns.items()}
    columns, amounts = state.request_vector(filters.shape.requests)
    reasons: dict[str, int] = {}
    for column, amount in zip(columns.tolist(), amounts.tolist(), strict=True):
        count = int(np.count_nonzero(free[:, column] < amount)) if amount > 0 else 0
        if count:
            reasons["Too many pods" if column == PODS_COLUMN else f"Insufficient {names[column]}"] = count
    return reasons


def _of_whole_pod(filters: CompiledFilters, name: str) -> str:
    """Say what a filter has against a pod that it refuses everywhere; storage names the claim."""
    if name == "VolumeBinding":
        row = int(np.argmax(filters.refused_by == FILTERS.index(name) + 1))
        return filters.reason(row) or _PHRASE[name]
    return _PHRASE.get(name, name)


def refusing_filters(state: ClusterState, outcome: Wait | Infeasible, policy: str) -> frozenset[str]:
    """Return the filters that kept a pod off every node; `policy` stands for nodes that it did not want.

    Args:
        state: the cluster.
        outcome: what the cycle found.
        policy: the name to use for the policy.
    """
    names = frozenset(outcome.refused)
    if sum(outcome.refused.values()) < state.node_count:
        names |= {policy}
    return names


def claims_message(pod: LivePod) -> str:
    """Say why a pod with resource claims is not placed, and what to do."""
    claims = ", ".join(pod.shape.resource_claims)
    return (
        f"pod has resource claims ({claims}), whose devices only kube-scheduler allocates; "
        "let its template say schedulerName: default-scheduler"
    )
