"""Storage objects that bear on placement: claims, volumes, classes and the CSI limits of nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from stowplan.core.domain.selectors import Labels, NodeSelectorTerm

__all__ = [
    "AccessMode",
    "BindingMode",
    "CsiCapacity",
    "CsiNode",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "StorageClass",
]


class AccessMode(StrEnum):
    """How many nodes or pods may use a volume at once."""

    READ_WRITE_ONCE = "ReadWriteOnce"
    READ_ONLY_MANY = "ReadOnlyMany"
    READ_WRITE_MANY = "ReadWriteMany"
    READ_WRITE_ONCE_POD = "ReadWriteOncePod"


class BindingMode(StrEnum):
    """When a claim of a storage class is bound."""

    IMMEDIATE = "Immediate"
    WAIT_FOR_FIRST_CONSUMER = "WaitForFirstConsumer"


@dataclass(frozen=True, slots=True)
class PersistentVolume:
    """A volume.

    `node_affinity` None: reachable from every node. `claim` is the (namespace, name) it is reserved for.
    """

    name: str
    capacity_bytes: int
    access_modes: tuple[AccessMode, ...]
    labels: Labels = ()
    storage_class: str = ""
    volume_mode: str = "Filesystem"
    node_affinity: tuple[NodeSelectorTerm, ...] | None = None
    claim: tuple[str, str] | None = None
    claim_uid: str = ""
    is_available: bool = True
    is_deleting: bool = False
    csi_driver: str | None = None
    csi_handle: str = ""
    attributes_class: str | None = None
    in_tree_plugin: str | None = None
    mount_zone_labels: Labels = ()


@dataclass(frozen=True, slots=True)
class PersistentVolumeClaim:
    """A claim.

    `volume` is the bound volume's name, empty while unbound; `is_fully_bound`: the binding is complete.
    """

    namespace: str
    name: str
    access_modes: tuple[AccessMode, ...]
    request_bytes: int = 0
    storage_class: str | None = None
    volume: str = ""
    is_fully_bound: bool = False
    is_lost: bool = False
    is_deleting: bool = False
    owner_pod_uid: str = ""
    uid: str = ""
    volume_mode: str = "Filesystem"
    selector_labels: Labels = ()
    selected_node: str | None = None
    attributes_class: str | None = None


@dataclass(frozen=True, slots=True)
class StorageClass:
    """A storage class; `allowed_topologies` None allows every node."""

    name: str
    provisioner: str
    binding_mode: BindingMode = BindingMode.IMMEDIATE
    allowed_topologies: tuple[NodeSelectorTerm, ...] | None = None
    is_default: bool = False


@dataclass(frozen=True, slots=True)
class CsiNode:
    """How many volumes of each CSI driver a node can attach; a driver without a limit maps to None."""

    node: str
    limits: tuple[tuple[str, int | None], ...] = ()
    migrated_plugins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CsiCapacity:
    """Free space that a driver reports for a storage class on a set of nodes (CSIStorageCapacity)."""

    name: str
    storage_class: str
    node_topology: tuple[NodeSelectorTerm, ...] | None = None
    capacity_bytes: int | None = None
    maximum_volume_bytes: int | None = None
    labels: Labels = field(default=())
