"""Which events can help a pod that found no node, by the filters that refused it.

A pod is only worth another look when something happened that one of its refusing filters depends on: with
thousands waiting, looking at all of them after every event would be most of the work. The first filter that
refuses a node is enough to know: as long as that one refuses, nothing else about the node matters.

Source: kubernetes pkg/scheduler/framework/plugins/*/ (EventsToRegister), 1.37.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Flag, auto
from typing import Final

from stowplan.core.decoder import CLOSED
from stowplan.kube.live.listener import ClusterChange

__all__ = ["ANYTHING", "POLICY", "Happening", "happenings_of", "that_help"]

POLICY: Final = "policy"
"""Stands among filters for a policy that would rather wait, or holds a task back."""


class Happening(Flag):
    """What can make a difference to a pod that waits."""

    NODE_ADDED = auto()
    NODE_CHANGED = auto()
    NODE_REMOVED = auto()
    NODE_OPENED = auto()  # it was closed for a time, by ourselves
    POD_BOUND = auto()
    POD_GONE = auto()  # it ended, was deleted or gave up its reservation: there is room
    STORAGE = auto()
    NAMESPACE = auto()


ANYTHING: Final = ~Happening(0)
_NODE: Final = Happening.NODE_ADDED | Happening.NODE_CHANGED
_ROOM: Final = Happening.NODE_ADDED | Happening.POD_GONE
_PODS: Final = Happening.POD_BOUND | Happening.POD_GONE | Happening.NAMESPACE | _NODE | Happening.NODE_REMOVED

_HELP: Final[dict[str, Happening]] = {
    "SchedulingGates": Happening(0),  # the pod itself must change
    "NodeName": Happening.NODE_ADDED,
    "NodeUnschedulable": _NODE,
    "TaintToleration": _NODE,
    "NodeAffinity": _NODE,
    "NodePorts": _ROOM,
    "NodeResourcesFit": _ROOM | Happening.NODE_CHANGED,
    "VolumeRestrictions": _ROOM | Happening.STORAGE,
    "NodeVolumeLimits": _ROOM | Happening.STORAGE,
    "VolumeBinding": _NODE | Happening.STORAGE,
    "VolumeZone": _NODE | Happening.STORAGE,
    "PodTopologySpread": _PODS,
    "InterPodAffinity": _PODS,
    "DynamicResources": Happening(0),  # left to kube-scheduler
    "NodeDeclaredFeatures": _NODE,
    "SharedGpu": _ROOM | Happening.NODE_CHANGED,
    "RuleTable": _NODE,
    CLOSED: _ROOM | Happening.NODE_CHANGED | Happening.NODE_OPENED,
    POLICY: ANYTHING,
}

_CHANGES: Final = (
    (ClusterChange.NODE_ADDED, Happening.NODE_ADDED),
    (ClusterChange.NODE_CHANGED, Happening.NODE_CHANGED),
    (ClusterChange.NODE_REMOVED, Happening.NODE_REMOVED),
    (ClusterChange.STORAGE, Happening.STORAGE),
    (ClusterChange.NAMESPACE, Happening.NAMESPACE),
)


def that_help(refused_by: Iterable[str]) -> Happening:
    """Return what can help a pod that these filters refused; no filters at all: the cluster has no nodes."""
    help_of = Happening(0)
    is_empty = True
    for name in refused_by:
        help_of |= _HELP.get(name, ANYTHING)
        is_empty = False
    return Happening.NODE_ADDED if is_empty else help_of


def happenings_of(change: ClusterChange) -> Happening:
    """Return what a change of the cluster is to pods that wait; budgets and owners are nothing to them."""
    happened = Happening(0)
    for one, happening in _CHANGES:
        if one in change:
            happened |= happening
    return happened
