"""The part of a pod that its shape is read from: what pods of one template have in common, byte for byte."""

from __future__ import annotations

from typing import Final

from stowplan.kube.live.wire import (
    NOTHING,
    Container,
    ContainerStatus,
    Metadata,
    Mount,
    ProjectedMetadata,
    Projection,
    Resize,
    ResizeCondition,
    ResizeOf,
    Spec,
    Status,
)

__all__ = ["RESIZE_PENDING", "projection_of"]

RESIZE_PENDING: Final = "PodResizePending"


def projection_of(metadata: Metadata, spec: Spec, status: Status) -> tuple[Projection, bool]:
    """Cut a spec down to what bears on its shape, and tell whether another pod can have the same.

    The spec is changed.
    """
    for container in (*(spec.containers or ()), *(spec.init_containers or ())):
        container.command = None
        container.volume_mounts = _telling_mounts(container)
    spec.ephemeral_containers = [
        Container(volume_mounts=mounts)
        for mounts in map(_telling_mounts, spec.ephemeral_containers or ())
        if mounts
    ] or None
    spec.volumes = [volume for volume in spec.volumes or () if volume.bears_on_placement] or None
    spec.priority_class_name = spec.preemption_policy = None  # these are no part of the shape itself
    resize = _resize(status) if spec.node_name else None
    spec.node_name = spec.node_name if resize is not None else None
    is_own = any(volume.ephemeral != NOTHING for volume in spec.volumes or ())  # its claim has the pod's uid
    uid = metadata.uid if is_own else ""
    return Projection(ProjectedMetadata(metadata.labels, uid), spec, resize), not is_own


def _telling_mounts(container: Container) -> list[Mount] | None:
    return [one for one in container.volume_mounts or () if one.bind_mount_options != NOTHING] or None


def _resize(status: Status) -> Resize | None:
    """What the status says of a resize in place; None where that is nothing."""
    found = Resize(
        [
            ResizeCondition(one.type, one.reason)
            for one in status.conditions or ()
            if one.type == RESIZE_PENDING
        ]
        or None,
        _resizes_of(status.container_statuses),
        _resizes_of(status.init_container_statuses),
        status.allocated_resources,
        status.resources,
    )
    return None if found == Resize() else found


def _resizes_of(statuses: list[ContainerStatus] | None) -> list[ResizeOf] | None:
    return [
        ResizeOf(one.name, one.allocated_resources, one.resources)
        for one in statuses or ()
        if one.allocated_resources != NOTHING or one.resources != NOTHING
    ] or None
