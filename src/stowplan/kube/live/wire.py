"""What of a pod's JSON is looked at: one frame for every event, the rest of the spec only when it is new.

A pod has some 7 KB, most of which says nothing about placement: environments, mounts, managed fields. A
decoder into these structs skips all that without making objects of it.
"""

from __future__ import annotations

import datetime as dt
from typing import Final

import msgspec

__all__ = [
    "FRAMES",
    "NOTHING",
    "SPECS",
    "Container",
    "ContainerStatus",
    "Frame",
    "Metadata",
    "Mount",
    "ProjectedMetadata",
    "Projection",
    "Resize",
    "ResizeCondition",
    "ResizeOf",
    "Spec",
    "Status",
    "Volume",
]

NOTHING: Final = msgspec.Raw(b"null")


class Marks(msgspec.Struct):
    """The annotations by which Argo tells what a pod is."""

    node_name: str | None = msgspec.field(default=None, name="workflows.argoproj.io/node-name")
    node_id: str | None = msgspec.field(default=None, name="workflows.argoproj.io/node-id")


class Metadata(msgspec.Struct, rename="camel"):
    """Who a pod is. Labels and owners stay JSON until they are new."""

    name: str
    uid: str
    namespace: str
    labels: msgspec.Raw = NOTHING
    annotations: Marks | None = None
    owner_references: msgspec.Raw = NOTHING
    creation_timestamp: dt.datetime | None = None
    deletion_timestamp: dt.datetime | None = None


class Condition(msgspec.Struct):
    """A condition of a pod."""

    type: str
    status: str | None = None
    reason: str | None = None
    message: str | None = None


class Running(msgspec.Struct, rename="camel"):
    """A container that runs."""

    started_at: dt.datetime | None = None


class Terminated(msgspec.Struct, rename="camel"):
    """A container that ended."""

    started_at: dt.datetime | None = None
    finished_at: dt.datetime | None = None
    exit_code: int | None = None
    reason: str | None = None


class ContainerState(msgspec.Struct):
    """How far a container is."""

    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(msgspec.Struct, rename="camel"):
    """What a kubelet says of a container; what it was given in a resize stays JSON."""

    name: str
    state: ContainerState | None = None
    allocated_resources: msgspec.Raw = NOTHING
    resources: msgspec.Raw = NOTHING


class Status(msgspec.Struct, rename="camel"):
    """How far a pod is."""

    phase: str | None = None
    reason: str | None = None
    message: str | None = None
    start_time: dt.datetime | None = None
    nominated_node_name: str | None = None
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    allocated_resources: msgspec.Raw = NOTHING
    resources: msgspec.Raw = NOTHING


class Frame(msgspec.Struct):
    """A pod as far as it is looked at for every event."""

    metadata: Metadata
    spec: msgspec.Raw
    status: Status | None = None


class Mount(msgspec.Struct, rename="camel", omit_defaults=True):
    """A mount, of which only one option says anything about nodes."""

    bind_mount_options: msgspec.Raw = NOTHING


class Container(msgspec.Struct, rename="camel", omit_defaults=True):
    """A container as far as it bears on placement."""

    name: str | None = None
    image: str | None = None
    restart_policy: str | None = None
    restart_policy_rules: msgspec.Raw = NOTHING
    resources: msgspec.Raw = NOTHING
    ports: msgspec.Raw = NOTHING
    volume_mounts: list[Mount] | None = None
    command: list[str] | None = None


class Volume(msgspec.Struct, rename="camel", omit_defaults=True):
    """A volume of a kind that bears on placement; of any other kind all is at its default but the name."""

    name: str | None = None
    persistent_volume_claim: msgspec.Raw = NOTHING
    ephemeral: msgspec.Raw = NOTHING
    gce_persistent_disk: msgspec.Raw = msgspec.field(default=NOTHING, name="gcePersistentDisk")
    aws_elastic_block_store: msgspec.Raw = NOTHING
    azure_disk: msgspec.Raw = NOTHING
    cinder: msgspec.Raw = NOTHING
    portworx_volume: msgspec.Raw = NOTHING
    iscsi: msgspec.Raw = NOTHING
    rbd: msgspec.Raw = NOTHING

    @property
    def bears_on_placement(self) -> bool:
        """Whether it is of such a kind."""
        return any(getattr(self, field) != NOTHING for field in self.__struct_fields__[1:])


class Spec(msgspec.Struct, rename="camel", omit_defaults=True):
    """What of a pod's spec bears on placement."""

    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    ephemeral_containers: list[Container] | None = None
    volumes: list[Volume] | None = None
    node_name: str | None = None
    scheduler_name: str | None = None
    priority: int | None = None
    priority_class_name: str | None = None
    preemption_policy: str | None = None
    host_network: bool | None = None
    host_users: bool | None = None
    node_selector: msgspec.Raw = NOTHING
    affinity: msgspec.Raw = NOTHING
    tolerations: msgspec.Raw = NOTHING
    topology_spread_constraints: msgspec.Raw = NOTHING
    scheduling_gates: msgspec.Raw = NOTHING
    resource_claims: msgspec.Raw = NOTHING
    overhead: msgspec.Raw = NOTHING
    resources: msgspec.Raw = NOTHING


class ProjectedMetadata(msgspec.Struct, omit_defaults=True):
    """What of a pod's metadata goes into its shape; the uid only where it does."""

    labels: msgspec.Raw = NOTHING
    uid: str = ""


class ResizeOf(msgspec.Struct, rename="camel", omit_defaults=True):
    """What a container was given in a resize."""

    name: str
    allocated_resources: msgspec.Raw = NOTHING
    resources: msgspec.Raw = NOTHING


class ResizeCondition(msgspec.Struct, omit_defaults=True):
    """The condition that tells why a resize waits."""

    type: str
    reason: str | None = None


class Resize(msgspec.Struct, rename="camel", omit_defaults=True):
    """What of a pod's status goes into its shape: a resize in place (KEP-1287)."""

    conditions: list[ResizeCondition] | None = None
    container_statuses: list[ResizeOf] | None = None
    init_container_statuses: list[ResizeOf] | None = None
    allocated_resources: msgspec.Raw = NOTHING
    resources: msgspec.Raw = NOTHING


class Projection(msgspec.Struct, omit_defaults=True):
    """All that goes into the shape of a pod, and nothing else. Pods of one template share it."""

    metadata: ProjectedMetadata
    spec: Spec
    status: Resize | None = None


FRAMES: Final = msgspec.json.Decoder(Frame)
SPECS: Final = msgspec.json.Decoder(Spec)
