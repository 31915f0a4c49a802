"""Storage that placements reserve until the API server says so itself.

A pod whose claims wait for it takes volumes, or a place for new ones, with its node. Other pods of the same
cycle must not count on them, and they must be free again when the binding fails. Whatever the driver learns
meanwhile wins: an object that it has replaced is not put back.
"""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.core.domain import ClusterState, PersistentVolume, PersistentVolumeClaim, StorageSet
from stowplan.errors import InternalError

__all__ = ["AssumedStorage"]

_Reserved = PersistentVolume | PersistentVolumeClaim


class AssumedStorage:
    """What placed pods reserve, and what it was before."""

    def __init__(self, state: ClusterState) -> None:
        """Reserve in `state`."""
        self._state = state
        self._changes_of: dict[str, list[tuple[_Reserved, _Reserved]]] = {}  # pod key → (before, assumed)

    def reserve(self, key: str, items: Sequence[_Reserved]) -> None:
        """Apply `items`, changed volumes and claims, on behalf of pod `key`.

        Raises:
            InternalError: an item was not there before.
        """
        if not items:
            return
        self._drop_confirmed()
        changes = self._changes_of.setdefault(key, [])
        for item in items:
            before = self._current(item)
            if before is None:
                raise InternalError(f"pod {key!r} reserves {item!r}, which the state does not know")
            self._state.apply(StorageSet(item))
            changes.append((before, item))

    def release(self, key: str) -> None:
        """Put back what pod `key` reserved and nobody changed since; nothing if it reserved nothing."""
        for before, assumed in reversed(self._changes_of.pop(key, [])):
            if self._current(assumed) is assumed:
                self._state.apply(StorageSet(before))

    def _drop_confirmed(self) -> None:
        self._changes_of = {
            key: changes
            for key, changes in self._changes_of.items()
            if any(self._current(assumed) is assumed for _, assumed in changes)
        }

    def _current(self, item: _Reserved) -> _Reserved | None:
        storage = self._state.storage
        if isinstance(item, PersistentVolume):
            return storage.volumes.get(item.name)
        return storage.claims.get((item.namespace, item.name))
