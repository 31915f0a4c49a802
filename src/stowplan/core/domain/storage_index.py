"""Storage objects by name, for the volume constraints."""

from __future__ import annotations

from stowplan.core.domain.events import StorageObject, StorageRemoved, StorageSet
from stowplan.core.domain.volumes import (
    CsiCapacity,
    CsiDriver,
    CsiNode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from stowplan.errors import StateConflict

__all__ = ["StorageIndex"]


class StorageIndex:
    """Volumes, claims, classes, CSI drivers, per-node CSI limits, attachments and reported capacities."""

    __slots__ = ("attachments", "capacities", "claims", "classes", "csi_drivers", "csi_nodes", "volumes")

    def __init__(self) -> None:
        """Start empty."""
        self.volumes: dict[str, PersistentVolume] = {}
        self.claims: dict[tuple[str, str], PersistentVolumeClaim] = {}
        self.classes: dict[str, StorageClass] = {}
        self.csi_nodes: dict[str, CsiNode] = {}
        self.csi_drivers: dict[str, CsiDriver] = {}
        self.capacities: dict[str, CsiCapacity] = {}
        self.attachments: dict[str, VolumeAttachment] = {}

    def copy(self) -> StorageIndex:
        """Return an independent copy."""
        other = StorageIndex()
        for name in self.__slots__:
            setattr(other, name, getattr(self, name).copy())
        return other

    def change(self, event: StorageSet | StorageRemoved) -> None:
        """Add, replace or remove an object.

        Raises:
            StateConflict: the object to remove is not there.
        """
        if isinstance(event, StorageSet):
            self.set(event.item)
        else:
            self.remove(event.kind, event.name)

    def set(self, item: StorageObject) -> None:
        """Add or replace an object."""
        match item:
            case PersistentVolume():
                self.volumes[item.name] = item
            case PersistentVolumeClaim():
                self.claims[item.namespace, item.name] = item
            case StorageClass():
                self.classes[item.name] = item
            case CsiNode():
                self.csi_nodes[item.node] = item
            case CsiDriver():
                self.csi_drivers[item.name] = item
            case CsiCapacity():
                self.capacities[item.name] = item
            case VolumeAttachment():
                self.attachments[item.name] = item

    def remove(self, kind: type[StorageObject], name: str) -> None:
        """Remove an object; a claim is named `namespace/name`.

        Raises:
            StateConflict: there is no such object.
        """
        try:
            if kind is PersistentVolumeClaim:
                namespace, _, claim = name.partition("/")
                del self.claims[namespace, claim]
            elif kind is PersistentVolume:
                del self.volumes[name]
            elif kind is StorageClass:
                del self.classes[name]
            elif kind is CsiNode:
                del self.csi_nodes[name]
            elif kind is CsiDriver:
                del self.csi_drivers[name]
            elif kind is CsiCapacity:
                del self.capacities[name]
            else:
                del self.attachments[name]
        except KeyError as error:
            raise StateConflict(f"{kind.__name__} {name!r} is not known; it cannot be removed") from error
