"""Storage objects of the live cluster.

The state may hold what a placement reserves in place of what the API server says (`AssumedStorage`). An event
that changes nothing that bears on placement must leave such a reservation alone, so what was told last is
kept beside the state, which shares the objects.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from stowplan.core.domain import (
    ClusterState,
    CsiCapacity,
    CsiDriver,
    CsiNode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    StorageRemoved,
    StorageSet,
    VolumeAttachment,
)
from stowplan.core.domain.events import StorageObject
from stowplan.kube.api.reflection import Identity
from stowplan.kube.live.namespaces import NamespaceBook
from stowplan.kube.manifest.cursor import Cursor
from stowplan.kube.manifest.storage import STORAGE_READERS, default_class, read_claim, with_default_class

__all__ = ["STORAGE_KINDS", "StorageBook", "StorageKind"]

STORAGE_KINDS: Final[dict[str, type[StorageObject]]] = {
    "PersistentVolume": PersistentVolume,
    "PersistentVolumeClaim": PersistentVolumeClaim,
    "StorageClass": StorageClass,
    "CSINode": CsiNode,
    "CSIDriver": CsiDriver,
    "CSIStorageCapacity": CsiCapacity,
    "VolumeAttachment": VolumeAttachment,
}


class StorageBook:
    """All storage objects as the API server told them last.

    Args:
        state: changed as they come, change and go.
        namespaces: told which are in use.
        changed: called after a change.
    """

    def __init__(self, state: ClusterState, namespaces: NamespaceBook, changed: Callable[[], None]) -> None:
        self._state = state
        self._namespaces = namespaces
        self._changed = changed
        self._told: dict[type[StorageObject], dict[str, StorageObject]] = {
            kind: {} for kind in STORAGE_KINDS.values()
        }
        self._made: dict[str, str] = {}  # storage class → creationTimestamp
        self._default: str | None = None

    def set(self, key: str, namespace: str, item: StorageObject, made: str) -> None:
        """Take an object that is new, or changed."""
        told = self._told[type(item)]
        before = told.get(key)
        if before is None and namespace:
            self._namespaces.use(namespace)
        is_news = before != item
        if isinstance(item, StorageClass) and self._made.get(key) != made:
            self._made[key] = made
            is_news = True
        if not is_news:
            return
        told[key] = item
        self._state.apply(StorageSet(self._as_used(item)))
        if isinstance(item, StorageClass):
            self._choose_default()
        self._changed()

    def remove(self, kind: type[StorageObject], key: str, namespace: str) -> None:
        """Take note that an object is gone."""
        del self._told[kind][key]
        self._state.apply(StorageRemoved(kind, key))
        if kind is StorageClass:
            del self._made[key]
            self._choose_default()
        if namespace:
            self._namespaces.leave(namespace)
        self._changed()

    def _as_used(self, item: StorageObject) -> StorageObject:
        return with_default_class(item, self._default) if isinstance(item, PersistentVolumeClaim) else item

    def _choose_default(self) -> None:
        classes = [
            (item, self._made[key])
            for key, item in self._told[StorageClass].items()
            if isinstance(item, StorageClass)
        ]
        default = default_class(classes)
        if default == self._default:
            return
        self._default = default
        for claim in self._told[PersistentVolumeClaim].values():
            used = self._as_used(claim)
            if isinstance(claim, PersistentVolumeClaim) and claim.storage_class is None and not claim.volume:
                self._state.apply(StorageSet(used))


class StorageKind:
    """Receives the objects of one kind, and reads them."""

    def __init__(self, book: StorageBook, kind: str) -> None:
        self._book = book
        self._kind = kind
        self._type = STORAGE_KINDS[kind]

    def read(self, raw: bytes | msgspec.Raw) -> tuple[StorageObject, str]:
        """Read an object; with it comes its time of creation, as the API writes it.

        Raises:
            InvalidObject: it has a field that cannot be used.
        """
        tree = msgspec.json.decode(raw)
        metadata = tree["metadata"]
        name, namespace = metadata["name"], metadata.get("namespace", "")
        full_name = f"{namespace}/{name}" if namespace else name
        cursor = Cursor(tree, f"{self._kind} {full_name}")
        if self._kind == "PersistentVolumeClaim":
            return read_claim(namespace, name, cursor), ""
        made = cursor["metadata"]["creationTimestamp"].text()
        return STORAGE_READERS[self._kind](full_name, cursor), made

    def set(self, identity: Identity, item: tuple[StorageObject, str]) -> None:
        """An object is new, or changed."""
        self._book.set(identity.key, identity.namespace, *item)

    def delete(self, identity: Identity) -> None:
        """An object is gone."""
        self._book.remove(self._type, identity.key, identity.namespace)

    def synced(self) -> None:
        """All were told: nothing is left to do."""
