"""Storage as arrays by row, made once for all shapes and kept while only pods change."""

from __future__ import annotations

from typing import Final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from stowplan.core.constraints.journal import journal_of
from stowplan.core.domain import ClusterState, PersistentVolume

__all__ = ["NO_LIMIT", "StorageTables", "storage_tables"]

NO_LIMIT: Final = np.iinfo(np.int64).max


class StorageTables:
    """What the storage objects of a state say about its rows.

    Attributes: limits: by driver, shape (capacity,): how many of its volumes the row can attach, `NO_LIMIT`
        for any number. is_installed: by driver, shape (capacity,): whether the row's CSINode names it.
        attached: volumes (driver, handle) that VolumeAttachments put on a node, by its name.
        attached_count: shape (capacity,); how many those are. volumes_by_class: the volumes of each storage
        class, smallest first, then by name.
    """

    __slots__ = ("attached", "attached_count", "is_installed", "limits", "volumes_by_class")

    def __init__(self, state: ClusterState) -> None:
        """Read the storage objects."""
        self.limits: dict[str, NDArray[np.int64]] = {}
        self.is_installed: dict[str, NDArray[np.bool_]] = {}
        self.attached: dict[str, set[tuple[str, str]]] = {}
        self.attached_count: NDArray[np.int64] = np.zeros(state.capacity, dtype=np.int64)
        self.volumes_by_class: dict[str, list[PersistentVolume]] = {}
        self._read_limits(state)
        self._read_attachments(state)
        by_size = sorted(state.storage.volumes.values(), key=lambda one: (one.capacity_bytes, one.name))
        for volume in by_size:
            self.volumes_by_class.setdefault(volume.storage_class, []).append(volume)

    def _read_limits(self, state: ClusterState) -> None:
        for csi_node in state.storage.csi_nodes.values():
            row = state.row(csi_node.node)
            if row < 0:
                continue
            for driver, limit in csi_node.limits:
                if driver not in self.limits:
                    self.limits[driver] = np.full(state.capacity, NO_LIMIT, dtype=np.int64)
                    self.is_installed[driver] = np.zeros(state.capacity, dtype=np.bool_)
                self.is_installed[driver][row] = True
                if limit is not None:
                    self.limits[driver][row] = limit

    def _read_attachments(self, state: ClusterState) -> None:
        for attachment in state.storage.attachments.values():
            volume = state.storage.volumes.get(attachment.volume)
            is_native = volume is not None and volume.in_tree_plugin is None and volume.csi_driver is not None
            if volume is not None and is_native and attachment.attacher:
                held = (attachment.attacher, volume.csi_handle or "")
                self.attached.setdefault(attachment.node, set()).add(held)
        for name, held_there in self.attached.items():
            row = state.row(name)
            if row >= 0:
                self.attached_count[row] = len(held_there)


_TABLES: Final[WeakKeyDictionary[ClusterState, tuple[object, int, int, StorageTables]]] = WeakKeyDictionary()


def storage_tables(state: ClusterState) -> StorageTables:
    """Return the tables of a state, made again only after something else than a pod changed."""
    journal = journal_of(state)
    journal.catch_up(state)
    known = _TABLES.get(state)
    valid = (journal.sequence_of_other, state.capacity)
    if known is not None and known[0] is journal.groups and known[1:3] == valid:
        return known[3]
    tables = StorageTables(state)
    _TABLES[state] = (journal.groups, *valid, tables)
    return tables
