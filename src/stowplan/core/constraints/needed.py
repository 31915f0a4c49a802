"""Which filters a pod shape needs: those that can ever refuse it, in kube-scheduler's order."""

from __future__ import annotations

from stowplan.core.constraints.filter import NodeFilter
from stowplan.core.constraints.interpod import InterPodAffinity
from stowplan.core.constraints.node_filters import (
    DynamicResources,
    NodeAffinity,
    NodeDeclaredFeatures,
    NodeName,
    NodeUnschedulable,
    SchedulingGates,
    TaintToleration,
)
from stowplan.core.constraints.room import NodePorts, NodeResourcesFit, SharedGpu
from stowplan.core.constraints.rule_filter import RuleFilter
from stowplan.core.constraints.rules import RuleTable
from stowplan.core.constraints.spread import PodTopologySpread
from stowplan.core.constraints.volume_binding import VolumeBinding
from stowplan.core.constraints.volume_limits import NodeVolumeLimits
from stowplan.core.constraints.volume_use import VolumeRestrictions
from stowplan.core.constraints.volume_zone import VolumeZone
from stowplan.core.domain import ClusterState, PodShape

__all__ = ["filters_for"]


def filters_for(state: ClusterState, shape: PodShape, rules: RuleTable) -> list[NodeFilter]:
    """Return the filters that can ever refuse the shape, in order."""
    filters: list[NodeFilter] = []
    if shape.scheduling_gates:
        filters.append(SchedulingGates(state, shape))
    if shape.node_name:
        filters.append(NodeName(state, shape))
    if NodeUnschedulable.is_needed(shape):
        filters.append(NodeUnschedulable(state, shape))
    filters.append(TaintToleration(state, shape))
    if NodeAffinity.is_needed(shape):
        filters.append(NodeAffinity(state, shape))
    if shape.host_ports:
        filters.append(NodePorts(state, shape))
    filters.append(NodeResourcesFit(state, shape))
    filters += _volume_filters(state, shape)
    if PodTopologySpread.rules_of(shape):
        filters.append(PodTopologySpread(state, shape))
    filters.append(InterPodAffinity(state, shape))
    return filters + _late_filters(state, shape, rules)


def _late_filters(state: ClusterState, shape: PodShape, rules: RuleTable) -> list[NodeFilter]:
    filters: list[NodeFilter] = []
    if shape.resource_claims:
        filters.append(DynamicResources(state, shape))
    if shape.required_features:
        filters.append(NodeDeclaredFeatures(state, shape))
    if shape.gpu is not None:
        filters.append(SharedGpu(state, shape, shape.gpu))
    about_it = rules.rules_for(shape)
    if about_it:
        filters.append(RuleFilter(state, shape, about_it))
    return filters


def _volume_filters(state: ClusterState, shape: PodShape) -> list[NodeFilter]:
    filters: list[NodeFilter] = []
    if VolumeRestrictions.is_needed(shape):
        filters.append(VolumeRestrictions(state, shape))
    if NodeVolumeLimits.is_needed(shape):
        filters.append(NodeVolumeLimits(state, shape))
    if VolumeBinding.is_needed(shape):
        filters.append(VolumeBinding(state, shape))
    if VolumeZone.is_needed(shape):
        filters.append(VolumeZone(state, shape))
    return filters
