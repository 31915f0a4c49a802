"""Volumes, claims, classes and CSI objects out of API objects, with what controllers would have filled in.

A PersistentVolume without a phase is Available unless a claim with a uid holds it, as the volume controller
would say. An unbound claim without a class gets the default class (admission, and the controller after the
fact).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Final

from stowplan.core.domain import (
    AccessMode,
    BindingMode,
    CsiCapacity,
    CsiDriver,
    CsiNode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from stowplan.core.domain.events import StorageObject
from stowplan.kube.manifest.cursor import Cursor
from stowplan.kube.manifest.migration import migrated_affinity, migrated_volume
from stowplan.kube.manifest.selectors import label_selector, node_terms, topology_terms

__all__ = [
    "STORAGE_READERS",
    "default_class",
    "read_claim",
    "with_default_class",
]

_CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
_BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
_MIGRATED_PLUGINS: Final = "storage.alpha.kubernetes.io/migrated-plugins"
_DEFAULT_CLASS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_VOLUME_MODES: Final = ("Filesystem", "Block")
_VOLUME_PHASES: Final = ("", "Pending", "Available", "Bound", "Released", "Failed")
_CLAIM_PHASES: Final = ("", "Pending", "Bound", "Lost")


def _class_name(cursor: Cursor) -> str | None:
    annotated = cursor["metadata"]["annotations"][_CLASS_ANNOTATION]
    return annotated.text() if annotated.is_set else cursor["spec"]["storageClassName"].optional_text()


def _access_modes(cursor: Cursor) -> tuple[AccessMode, ...]:
    return tuple(AccessMode(item.one_of(tuple(AccessMode))) for item in cursor["accessModes"].items())


def _read_volume(name: str, cursor: Cursor) -> PersistentVolume:
    """Return a PersistentVolume."""
    spec = cursor["spec"]
    reference = spec["claimRef"]
    claim = (reference["namespace"].text("default"), reference["name"].text()) if reference.is_set else None
    claim_uid = reference["uid"].text()
    phase = cursor["status"]["phase"].one_of(_VOLUME_PHASES)
    labels = cursor["metadata"]["labels"].label_map()
    affinity = node_terms(spec["nodeAffinity"]["required"])
    migrated = migrated_volume(spec, labels)
    csi = spec["csi"]
    capacity = spec["capacity"]["storage"]
    return PersistentVolume(
        name=name,
        capacity_bytes=capacity.whole_quantity() if capacity.is_set else 0,
        access_modes=_access_modes(spec),
        labels=tuple(sorted(labels.items())),
        storage_class=_class_name(cursor) or "",
        volume_mode=spec["volumeMode"].one_of(_VOLUME_MODES, "Filesystem"),
        node_affinity=affinity,
        claim=claim,
        claim_uid=claim_uid,
        is_available=phase == "Available" or (not phase and not claim_uid),
        is_deleting=cursor["metadata"]["deletionTimestamp"].is_set,
        csi_driver=csi["driver"].optional_text() if migrated is None else migrated.driver,
        csi_handle=csi["volumeHandle"].optional_text() if migrated is None else migrated.handle,
        attributes_class=spec["volumeAttributesClassName"].optional_text(),
        in_tree_plugin=None if migrated is None else migrated.plugin,
        migrated_affinity=None if migrated is None else migrated_affinity(migrated.plugin, affinity, labels),
    )


def read_claim(namespace: str, name: str, cursor: Cursor) -> PersistentVolumeClaim:
    """Return a PersistentVolumeClaim as it says itself; `with_default_class` adds the rest."""
    spec, metadata = cursor["spec"], cursor["metadata"]
    volume = spec["volumeName"].text()
    request = spec["resources"]["requests"]["storage"]
    owners = [owner for owner in metadata["ownerReferences"].items() if owner["controller"].flag()]
    return PersistentVolumeClaim(
        namespace=namespace,
        name=name,
        access_modes=_access_modes(spec),
        request_bytes=request.whole_quantity() if request.is_set else 0,
        storage_class=_class_name(cursor),
        volume=volume,
        is_fully_bound=bool(volume) and metadata["annotations"][_BIND_COMPLETED].is_set,
        is_lost=cursor["status"]["phase"].one_of(_CLAIM_PHASES) == "Lost",
        is_deleting=metadata["deletionTimestamp"].is_set,
        owner_pod_uid=owners[0]["uid"].text() if owners else "",
        uid=metadata["uid"].text(),
        volume_mode=spec["volumeMode"].one_of(_VOLUME_MODES, "Filesystem"),
        selector=label_selector(spec["selector"]),
        selected_node=metadata["annotations"][_SELECTED_NODE].optional_text(),
        attributes_class=spec["volumeAttributesClassName"].optional_text(),
    )


def with_default_class(claim: PersistentVolumeClaim, default: str | None) -> PersistentVolumeClaim:
    """Return a claim with the default class, if it has no class and is unbound."""
    if claim.storage_class is not None or claim.volume or default is None:
        return claim
    return dataclasses.replace(claim, storage_class=default)


def _read_class(name: str, cursor: Cursor) -> StorageClass:
    """Return a StorageClass; binding is immediate unless it says otherwise."""
    annotations = cursor["metadata"]["annotations"]
    return StorageClass(
        name=name,
        provisioner=cursor["provisioner"].text(),
        binding_mode=BindingMode(cursor["volumeBindingMode"].one_of(tuple(BindingMode), "Immediate")),
        allowed_topologies=topology_terms(cursor["allowedTopologies"]),
        is_default=any(annotations[key].text() == "true" for key in _DEFAULT_CLASS),
    )


def default_class(classes: Iterable[tuple[StorageClass, str]]) -> str | None:
    """Return the name of the default class: the newest of those marked, then the first by name.

    Each class comes with its `creationTimestamp`.
    """
    marked = [(created, one.name) for one, created in classes if one.is_default]
    if not marked:
        return None
    newest = max(created for created, _ in marked)
    return min(name for created, name in marked if created == newest)


def _read_csi_node(name: str, cursor: Cursor) -> CsiNode:
    """Return a CSINode: its drivers with their limits."""
    migrated = cursor["metadata"]["annotations"][_MIGRATED_PLUGINS].text()
    return CsiNode(
        node=name,
        limits=tuple(
            (
                driver["name"].required_text("name the driver"),
                driver["allocatable"]["count"].integer() if driver["allocatable"]["count"].is_set else None,
            )
            for driver in cursor["spec"]["drivers"].items()
        ),
        migrated_plugins=tuple(migrated.split(",")) if migrated else (),
    )


def _read_csi_driver(name: str, cursor: Cursor) -> CsiDriver:
    """Return a CSIDriver."""
    return CsiDriver(
        name=name,
        tracks_capacity=cursor["spec"]["storageCapacity"].flag(),
        must_be_on_node=cursor["spec"]["preventPodSchedulingIfMissing"].flag(),
    )


def _read_capacity(name: str, cursor: Cursor) -> CsiCapacity:
    """Return a CSIStorageCapacity."""
    capacity, maximum = cursor["capacity"], cursor["maximumVolumeSize"]
    return CsiCapacity(
        name=name,
        storage_class=cursor["storageClassName"].text(),
        node_topology=label_selector(cursor["nodeTopology"]),
        capacity_bytes=capacity.whole_quantity() if capacity.is_set else None,
        maximum_volume_bytes=maximum.whole_quantity() if maximum.is_set else None,
    )


def _read_attachment(name: str, cursor: Cursor) -> VolumeAttachment:
    """Return a VolumeAttachment."""
    spec = cursor["spec"]
    return VolumeAttachment(
        name=name,
        node=spec["nodeName"].text(),
        attacher=spec["attacher"].text(),
        volume=spec["source"]["persistentVolumeName"].text(),
    )


STORAGE_READERS: Final[dict[str, Callable[[str, Cursor], StorageObject]]] = {
    "PersistentVolume": _read_volume,
    "StorageClass": _read_class,
    "CSINode": _read_csi_node,
    "CSIDriver": _read_csi_driver,
    "CSIStorageCapacity": _read_capacity,
    "VolumeAttachment": _read_attachment,
}
"""Readers by kind, of all but claims."""
