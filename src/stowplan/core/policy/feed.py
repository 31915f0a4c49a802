"""The journal of a cluster state as arrays, so that many score caches catch up with it cheaply.

A policy keeps one cache per pod shape. Each remembers how far it has read; what is new are a few rows, which
it recomputes together. The journal itself is read once, here, however many caches there are. When nodes or
namespaces changed, or the journal was lost, `epoch` moves on and every cache starts over: that is rare beside
pods coming and going.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain import ChangeKind, ClusterState, PodShape

__all__ = ["ChangeFeed"]

_LIMIT = 65536
_SHAPE_LIMIT = 2048  # each reader keeps something about each shape


class ChangeFeed:
    """Rows on which pods came or went, in order, since the epoch began.

    Attributes:
        state: the state that is followed.
        epoch: number of restarts; a reader of another epoch must start over from the state itself.
        length: how many changes this epoch has; readers keep it as their position.
        shapes: the pod shapes met in this epoch; a shape's place here is its id, by which readers keep what
            they worked out about it.
        storage_changes: how many changes of storage there were; only scores of volumes look at them.
    """

    __slots__ = (
        "_id_of",
        "_ids",
        "_rows",
        "_sequence",
        "epoch",
        "length",
        "shapes",
        "state",
        "storage_changes",
    )

    def __init__(self, state: ClusterState) -> None:
        """Follow `state` from now on."""
        self.state = state
        self.epoch = 0
        self.length = 0
        self.storage_changes = 0
        self._sequence = state.sequence
        self.shapes: list[PodShape] = []
        self._rows: NDArray[np.intp] = np.empty(1024, dtype=np.intp)
        self._ids: NDArray[np.intp] = np.empty(1024, dtype=np.intp)
        self._id_of: dict[PodShape, int] = {}

    def catch_up(self) -> None:
        """Read what the state noted since the last call."""
        sequence = self.state.sequence
        if sequence == self._sequence:
            return
        changes = self.state.changes_since(self._sequence)
        self._sequence = sequence
        is_full = changes is not None and self.length + len(changes) > _LIMIT
        if changes is None or is_full or len(self.shapes) > _SHAPE_LIMIT:
            self._start_over()
            return
        for change in changes:
            if change.kind is ChangeKind.STORAGE:
                self.storage_changes += 1
                continue
            if change.kind is ChangeKind.NOMINATION:
                continue  # scores look at pods that are there
            if change.kind is not ChangeKind.POD:
                self._start_over()
                return
            if change.shape is not None:
                if self.length == self._rows.size:
                    self._rows, self._ids = _doubled(self._rows), _doubled(self._ids)
                self._rows[self.length] = change.row
                self._ids[self.length] = self.id_of(change.shape)
                self.length += 1

    def id_of(self, shape: PodShape) -> int:
        """Return the id of `shape` in this epoch."""
        shape_id = self._id_of.get(shape)
        if shape_id is None:
            shape_id = self._id_of[shape] = len(self.shapes)
            self.shapes.append(shape)
        return shape_id

    def rows_since(self, position: int) -> NDArray[np.intp]:
        """Return the rows touched since `position`, shape (changes,); a row may occur more than once."""
        return self._rows[position : self.length]

    def ids_since(self, position: int) -> NDArray[np.intp]:
        """Return the ids of the pods' shapes since `position`, beside `rows_since`, shape (changes,)."""
        return self._ids[position : self.length]

    def _start_over(self) -> None:
        self.epoch += 1
        self.length = 0
        self.shapes.clear()
        self._id_of.clear()


def _doubled(array: NDArray[np.intp]) -> NDArray[np.intp]:
    wider: NDArray[np.intp] = np.empty(2 * array.size, dtype=np.intp)
    wider[: array.size] = array
    return wider
