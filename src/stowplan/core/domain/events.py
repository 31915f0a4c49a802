"""What can happen to a cluster. `ClusterState.apply` is the only way to change one.

Events are values: drivers make them from the API server's watch or from simulated time, and snapshots catch
up by replaying them.
"""

from __future__ import annotations

from dataclasses import dataclass

from stowplan.core.domain.node import Node
from stowplan.core.domain.pod import PodShape
from stowplan.core.domain.selectors import Labels
from stowplan.core.domain.volumes import (
    CsiCapacity,
    CsiDriver,
    CsiNode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)

__all__ = [
    "BoundPod",
    "ClusterEvent",
    "NamespaceRemoved",
    "NamespaceSet",
    "NodeRemoved",
    "NodeSet",
    "NominationRemoved",
    "PodBound",
    "PodNominated",
    "PodRemoved",
    "StorageObject",
    "StorageRemoved",
    "StorageSet",
]

StorageObject = (
    PersistentVolume
    | PersistentVolumeClaim
    | StorageClass
    | CsiNode
    | CsiDriver
    | CsiCapacity
    | VolumeAttachment
)


@dataclass(frozen=True, slots=True)
class BoundPod:
    """A pod on a node. `gpus` are GPU indexes of the node; a terminating pod still holds its resources."""

    key: str
    shape: PodShape
    gpus: tuple[int, ...] = ()
    is_terminating: bool = False
    uid: str = ""


@dataclass(frozen=True, slots=True)
class NodeSet:
    """A node appeared or changed."""

    node: Node


@dataclass(frozen=True, slots=True)
class NodeRemoved:
    """A node is gone. Its pods must have been removed before."""

    name: str


@dataclass(frozen=True, slots=True)
class PodBound:
    """A pod was bound to a node (or is assumed to be)."""

    pod: BoundPod
    node_name: str


@dataclass(frozen=True, slots=True)
class PodRemoved:
    """A bound pod ended, was deleted, or its binding failed."""

    key: str


@dataclass(frozen=True, slots=True)
class PodNominated:
    """A pod that waits was promised a node, where others make room for it (`status.nominatedNodeName`)."""

    pod: BoundPod
    node_name: str


@dataclass(frozen=True, slots=True)
class NominationRemoved:
    """A pod that waits is promised no node any more, or is gone."""

    key: str


@dataclass(frozen=True, slots=True)
class NamespaceSet:
    """A namespace appeared or changed its labels."""

    name: str
    labels: Labels


@dataclass(frozen=True, slots=True)
class NamespaceRemoved:
    """A namespace is gone."""

    name: str


@dataclass(frozen=True, slots=True)
class StorageSet:
    """A storage object appeared or changed."""

    item: StorageObject


@dataclass(frozen=True, slots=True)
class StorageRemoved:
    """A storage object is gone. Claims are named `namespace/name`."""

    kind: type[StorageObject]
    name: str


ClusterEvent = (
    NodeSet
    | NodeRemoved
    | PodBound
    | PodRemoved
    | PodNominated
    | NominationRemoved
    | NamespaceSet
    | NamespaceRemoved
    | StorageSet
    | StorageRemoved
)
