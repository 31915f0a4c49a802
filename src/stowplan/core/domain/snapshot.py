"""Immutable snapshots of a cluster whose cost is what changed since the last, not the size of the cluster.

A pool keeps copies of the state ("replicas") and the events since each was current. Taking a snapshot leases
the most recent free replica, replays what it missed, and freezes it; releasing the snapshot (or dropping the
last reference to it) returns the replica. Only when every replica is leased is a full copy made;
`full_copies` counts them, so that a driver that hoards snapshots shows.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain.events import ClusterEvent
from stowplan.core.domain.state import ARRAYS, ClusterState
from stowplan.errors import InternalError

__all__ = ["Snapshot", "SnapshotPool"]

_SPARE_REPLICAS = 2
_LOG_LIMIT = 65536


class Snapshot:
    """A cluster at one moment. `state` refuses events and its arrays refuse writes."""

    __slots__ = ("__weakref__", "_give_back", "_state", "version")

    def __init__(self, state: ClusterState, version: int, give_back: Callable[[], None]) -> None:
        """Wrap a frozen state; use `SnapshotPool.snapshot`."""
        self._state: ClusterState | None = state
        self.version = version
        self._give_back = weakref.finalize(self, give_back)

    @property
    def state(self) -> ClusterState:
        """The frozen cluster.

        Raises:
            InternalError: the snapshot was released.
        """
        if self._state is None:
            raise InternalError(f"snapshot {self.version} was used after its release")
        return self._state

    def copy_state(self) -> ClusterState:
        """Return an independent, changeable copy: where what-if placements are tried."""
        return self.state.copy()

    def release(self) -> None:
        """Give the replica back early; the snapshot cannot be read afterwards."""
        self._state = None
        self._give_back()


class _Replica:
    __slots__ = ("is_leased", "state", "version")

    def __init__(self, state: ClusterState, version: int) -> None:
        self.state = state
        self.version = version
        self.is_leased = False


class SnapshotPool:
    """The live state with its replicas. Apply events here; read `state` for the live arrays."""

    def __init__(self, state: ClusterState | None = None) -> None:
        """Start from `state` (empty by default), which belongs to the pool from now on."""
        self.state = state if state is not None else ClusterState()
        self.full_copies = 0
        self._version = 0
        self._log: list[ClusterEvent] = []
        self._log_start = 0
        self._replicas: list[_Replica] = []

    @property
    def version(self) -> int:
        """Number of events applied."""
        return self._version

    def apply(self, event: ClusterEvent) -> None:
        """Apply an event to the live state; a refused event leaves no trace in the log.

        Raises:
            StateConflict, InvalidObject: as `ClusterState.apply`.
        """
        self.state.apply(event)
        self._version += 1
        self._log.append(event)
        if len(self._log) > 2 * _LOG_LIMIT:
            self._drop_old_events()

    def snapshot(self) -> Snapshot:
        """Return the cluster as it is now. Cost: the events since the leased replica was last current."""
        free = [replica for replica in self._replicas if not replica.is_leased]
        if free:
            replica = max(free, key=lambda candidate: candidate.version)
            _set_frozen(replica.state, frozen=False)
            for event in self._log[replica.version - self._log_start :]:
                replica.state.apply(event)
            replica.version = self._version
        else:
            replica = _Replica(self.state.copy(), self._version)
            self._replicas.append(replica)
            self.full_copies += 1
        _set_frozen(replica.state, frozen=True)
        replica.is_leased = True
        self._drop_old_events()
        return Snapshot(replica.state, self._version, partial(self._take_back, replica))

    def _take_back(self, replica: _Replica) -> None:
        replica.is_leased = False
        free = [other for other in self._replicas if not other.is_leased]
        if len(free) > _SPARE_REPLICAS:
            self._replicas.remove(min(free, key=lambda candidate: candidate.version))
        self._drop_old_events()

    def _drop_old_events(self) -> None:
        # A replica that fell behind the log is cheaper to copy anew than to replay: it is dropped once free.
        oldest = min((replica.version for replica in self._replicas), default=self._version)
        keep_from = max(oldest, self._version - _LOG_LIMIT)
        if keep_from > self._log_start:
            del self._log[: keep_from - self._log_start]
            self._log_start = keep_from
        self._replicas = [r for r in self._replicas if r.is_leased or r.version >= self._log_start]


def _set_frozen(state: ClusterState, *, frozen: bool) -> None:
    state.is_frozen = frozen
    for name in ARRAYS:
        array: NDArray[np.generic] = getattr(state, name)
        array.flags.writeable = not frozen
