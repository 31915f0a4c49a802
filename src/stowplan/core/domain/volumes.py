"""Storage objects that bear on placement: claims, volumes, classes and the CSI limits of nodes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from stowplan.core.domain.selectors import Labels, LabelSelector, NodeSelectorTerm

__all__ = [
    "AccessMode",
    "BindingMode",
    "CsiCapacity",
    "CsiDriver",
    "CsiNode",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "StorageClass",
    "VolumeAttachment",
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
    `csi_driver` and `csi_handle` are also set for a volume of an in-tree plugin that has moved to CSI; then
    `in_tree_plugin` names it (a handle of None cannot be translated), and `migrated_affinity` is the node
    affinity that holds on nodes where the plugin is migrated.
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
    csi_handle: str | None = None
    attributes_class: str | None = None
    in_tree_plugin: str | None = None
    migrated_affinity: tuple[NodeSelectorTerm, ...] | None = None


@dataclass(frozen=True, slots=True)
class PersistentVolumeClaim:
    """A claim.

    `volume` is the bound volume's name, empty while unbound; `is_fully_bound`: the binding is complete.
    `owner_pod_uid` is the uid of the pod that controls it (ephemeral volumes). `selector` limits the volumes
    it may be bound to; None allows all.
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
    selector: LabelSelector | None = None
    selected_node: str | None = None
    attributes_class: str | None = None

    def is_made_for(self, pod_uid: str) -> bool:
        """Tell whether the pod of that uid controls it, as the claim of an ephemeral volume must be.

        A pod without a uid (of a file, say) owns nothing.
        """
        return bool(pod_uid) and self.owner_pod_uid == pod_uid


@dataclass(frozen=True, slots=True)
class StorageClass:
    """A storage class; `allowed_topologies` empty allows every node, a term without expressions none."""

    name: str
    provisioner: str
    binding_mode: BindingMode = BindingMode.IMMEDIATE
    allowed_topologies: tuple[NodeSelectorTerm, ...] = ()
    is_default: bool = False


@dataclass(frozen=True, slots=True)
class CsiNode:
    """The CSI drivers of a node and how many volumes each can attach there; None is no limit.

    `migrated_plugins` are the in-tree plugins that the node leaves to CSI.
    """

    node: str
    limits: tuple[tuple[str, int | None], ...] = ()
    migrated_plugins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CsiDriver:
    """A CSI driver of the cluster (CSIDriver).

    `tracks_capacity`: a volume is only provisioned where a `CsiCapacity` has room. `must_be_on_node`: pods
    with its volumes only run where the driver is installed (`preventPodSchedulingIfMissing`).
    """

    name: str
    tracks_capacity: bool = False
    must_be_on_node: bool = False


@dataclass(frozen=True, slots=True)
class CsiCapacity:
    """Free space that a driver reports for a storage class on the nodes that `node_topology` selects.

    None selects no node. Either amount may be absent.
    """

    name: str
    storage_class: str
    node_topology: LabelSelector | None = None
    capacity_bytes: int | None = None
    maximum_volume_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class VolumeAttachment:
    """A volume that a driver (`attacher`) attaches to a node, counted towards the node's limit."""

    name: str
    node: str
    attacher: str
    volume: str
