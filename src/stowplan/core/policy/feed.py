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
_RESETS = ChangeKind.NODE | ChangeKind.NAMESPACE


class ChangeFeed:
    """Rows on which pods came or went, in order, since the epoch began.

    Attributes:
        state: the state that is followed.
        epoch: number of restarts; a reader of another epoch must start over from the state itself.
        length: how many changes this epoch has; readers keep it as their position.
    """

    __slots__ = ("_rows", "_sequence", "_shapes", "epoch", "length", "state")

    def __init__(self, state: ClusterState) -> None:
        """Follow `state` from now on."""
        self.state = state
        self.epoch = 0
        self.length = 0
        self._sequence = state.sequence
        self._rows: NDArray[np.intp] = np.empty(1024, dtype=np.intp)
        self._shapes: list[PodShape] = []

    def catch_up(self) -> None:
        """Read what the state noted since the last call."""
        sequence = self.state.sequence
        if sequence == self._sequence:
            return
        changes = self.state.changes_since(self._sequence)
        self._sequence = sequence
        if changes is None or self.length + len(changes) > _LIMIT:
            self._start_over()
            return
        for change in changes:
            if change.kind & _RESETS:
                self._start_over()
                return
            if change.shape is not None:
                if self.length == self._rows.size:
                    wider: NDArray[np.intp] = np.empty(2 * self.length, dtype=np.intp)
                    wider[: self.length] = self._rows
                    self._rows = wider
                self._rows[self.length] = change.row
                self._shapes.append(change.shape)
                self.length += 1

    def rows_since(self, position: int) -> NDArray[np.intp]:
        """Return the rows touched since `position`, shape (changes,); a row may occur more than once."""
        return self._rows[position : self.length]

    def shapes_since(self, position: int) -> list[PodShape]:
        """Return the shapes of the pods that came or went since `position`, beside `rows_since`."""
        return self._shapes[position:]

    def _start_over(self) -> None:
        self.epoch += 1
        self.length = 0
        self._shapes.clear()
