"""The pod changes of a state's journal as arrays, digested once for all the shapes that follow it.

A cycle of 256 placements with 256 shapes would read each change 256 times. Here each change is read once
and given small ids for what can matter about its pod: its (namespace, labels), its required anti-affinity,
its host ports and its volumes. A filter then knows with one look-up per batch which changes concern it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain import Change, ClusterState, PodShape

__all__ = ["ChangeBatch", "PodJournal", "Relevance", "journal_of"]

_LIMIT: Final = 131072
_SHAPE_LIMIT: Final = 4096  # each filter keeps something about each
_FIRST_SIZE: Final = 1024
_NOTHING: Final = -1


class _Interned:
    """Ids for distinct keys, each with the shape it was first seen on."""

    __slots__ = ("_id_of", "shapes")

    def __init__(self) -> None:
        self._id_of: dict[Hashable, int] = {}
        self.shapes: list[PodShape] = []

    def id_of(self, key: Hashable, shape: PodShape) -> int:
        number = self._id_of.get(key)
        if number is None:
            number = self._id_of[key] = len(self.shapes)
            self.shapes.append(shape)
        return number


class ChangeBatch:
    """Consecutive changes, all of pods. Arrays have shape (changes,); an id of −1 means: has none."""

    __slots__ = ("changes", "groups", "ports", "repels", "rows", "volumes")

    def __init__(self, changes: list[Change], rows: NDArray[np.intp], ids: NDArray[np.int32]) -> None:
        """Hold the columns of `ids`, shape (changes, 4): groups, required anti-affinity, ports, volumes."""
        self.changes = changes
        self.rows = rows
        self.groups, self.repels, self.ports, self.volumes = ids[:, 0], ids[:, 1], ids[:, 2], ids[:, 3]


class PodJournal:
    """The digest of one state's journal."""

    __slots__ = (
        "_count",
        "_ids",
        "_ids_of",
        "_rows",
        "_sequence_of_other",
        "_start",
        "groups",
        "mounts",
        "ports",
        "repels",
        "volumes",
    )

    def __init__(self, state: ClusterState) -> None:
        """Start with the changes to come."""
        self.groups, self.repels, self.ports, self.volumes = (_Interned() for _ in range(4))
        self._ids_of: dict[PodShape, tuple[int, int, int, int]] = {}
        self._start = state.sequence
        self._count = 0
        self._rows: NDArray[np.intp] = np.zeros(_FIRST_SIZE, dtype=np.intp)
        self._ids: NDArray[np.int32] = np.zeros((_FIRST_SIZE, 4), dtype=np.int32)
        self._sequence_of_other = self._start - 1  # of the last change that was not about a pod
        self.mounts: NDArray[np.int64] = np.zeros(state.capacity, dtype=np.int64)
        for pod, row in state.pods.values():
            self.mounts[row] += len(pod.shape.volumes)

    @property
    def sequence_of_other(self) -> int:
        """Number of the last change that was not about a pod, as of the last catching up."""
        return self._sequence_of_other

    def since(self, state: ClusterState, sequence: int, changes: list[Change]) -> ChangeBatch | None:
        """Return the digest of `changes`, which are those after `sequence`.

        None: they are no longer kept, or not all of them are about pods.
        """
        self.catch_up(state)
        if sequence < self._start or sequence <= self._sequence_of_other:
            return None
        kept = slice(sequence - self._start, self._count)
        return ChangeBatch(changes, self._rows[kept], self._ids[kept])

    def catch_up(self, state: ClusterState) -> None:
        """Digest the changes since the last call."""
        missing = state.changes_since(self._start + self._count)
        if missing is None or self._count > _LIMIT or len(self._ids_of) > _SHAPE_LIMIT:
            self.__init__(state)
            return
        if len(self.mounts) < state.capacity:
            self.mounts = np.concatenate(
                [self.mounts, np.zeros(state.capacity - len(self.mounts), dtype=np.int64)]
            )
        while self._count + len(missing) > len(self._rows):
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
            self._ids = np.concatenate([self._ids, np.zeros_like(self._ids)])
        for change in missing:
            shape = change.shape
            if shape is None:
                self._sequence_of_other = self._start + self._count
            else:
                ids = self._ids_of.get(shape)
                if ids is None:
                    ids = self._ids_of[shape] = self._digest(shape)
                self.mounts[change.row] += change.by * len(shape.volumes)
                self._rows[self._count] = change.row
                self._ids[self._count] = ids
            self._count += 1

    def _digest(self, shape: PodShape) -> tuple[int, int, int, int]:
        anti = shape.anti_affinity
        return (
            self.groups.id_of((shape.namespace, shape.labels), shape),
            self.repels.id_of((shape.namespace, anti), shape) if anti else _NOTHING,
            self.ports.id_of(shape.host_ports, shape) if shape.host_ports else _NOTHING,
            self.volumes.id_of((shape.namespace, shape.volumes), shape) if shape.volumes else _NOTHING,
        )


_JOURNALS: Final[WeakKeyDictionary[ClusterState, PodJournal]] = WeakKeyDictionary()


def journal_of(state: ClusterState) -> PodJournal:
    """Return the one digest of a state's journal, which all that follow the state share."""
    journal = _JOURNALS.get(state)
    if journal is None:
        journal = _JOURNALS[state] = PodJournal(state)
    return journal


class Relevance:
    """Which ids concern one filter, found out once per id.

    Whoever asks says who judges: kept here, a filter's own method would hold the filter in a circle.
    """

    __slots__ = ("_is_relevant", "_judged", "_shapes")

    def __init__(self) -> None:
        """Know nothing yet."""
        self._judged = 0
        self._shapes: list[PodShape] = []
        self._is_relevant: NDArray[np.bool_] = np.zeros(1, dtype=np.bool_)  # the last: of the id that is none

    def clear(self) -> None:
        """Forget what was found out."""
        self._judged = 0
        self._is_relevant = np.zeros(1, dtype=np.bool_)

    def of(
        self, ids: NDArray[np.int32], shapes: list[PodShape], judge: Callable[[PodShape], bool]
    ) -> NDArray[np.bool_]:
        """Tell which of `ids` concern the filter, shape (changes,).

        Args:
            ids: of shapes, or −1.
            shapes: stand for the ids; the list only grows, or is another.
            judge: tells whether a shape concerns the filter; always the same.
        """
        if shapes is not self._shapes:  # other ids than before
            self.clear()
            self._shapes = shapes
        known, count = self._judged, len(shapes)
        if known < count:
            if count >= len(self._is_relevant):
                grown = np.zeros(2 * count, dtype=np.bool_)
                grown[:known] = self._is_relevant[:known]
                self._is_relevant = grown
            self._is_relevant[known:count] = [judge(shape) for shape in shapes[known:]]
            self._judged = count
        return self._is_relevant[ids]
