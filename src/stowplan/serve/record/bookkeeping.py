"""What has happened since the last record: events of the state, changed workflows.

All of it is in the scheduler's thread, and costs what is new, not what is there: events are told by the
state's tap, changes of workflows by their watcher, and running tasks that are new stand last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from stowplan.core.domain import ClusterEvent, ClusterState, PendingTask, RunningTask, WorkflowProgress
from stowplan.core.policy.interface import Policy, Replayable
from stowplan.core.record import (
    CycleCapture,
    ReadingsFollower,
    capture_progress,
    capture_state,
    chance_of,
)
from stowplan.core.semantics import NodeReadings

__all__ = ["Bookkeeping"]

_MOST_EVENTS: Final = 50_000
_RECENT: Final = 64


class Bookkeeping:
    """Captures cycles, each against the last that was kept."""

    def __init__(self, state: ClusterState, rng: np.random.Generator, policy: Policy) -> None:
        """Follow `state` from now on, which nobody may tap already.

        Raises:
            InvalidInput: the generator cannot be written down.
        """
        chance_of(rng)
        self._state = state
        self._rng = rng
        self._policy = policy if isinstance(policy, Replayable) else None  # asked once: it is slow to tell
        self._events: list[ClusterEvent] = []
        self._captured_events = 0
        self._readings = ReadingsFollower()
        self._watched: dict[int, WorkflowProgress] = {}  # by identity
        self._changed: dict[int, WorkflowProgress] = {}
        self._captured: dict[int, WorkflowProgress] = {}  # those of the latest capture
        self._recent: dict[int, RunningTask] = {}  # the last ones, by identity: held, so that it stays theirs
        self._looks_everywhere = False
        self._needs_state = True
        self._is_following = False  # events are kept: a state was captured that they come after
        state.tap = self._note

    def _note(self, event: ClusterEvent) -> None:
        if self._is_following:
            self._events.append(event)
            if len(self._events) > _MOST_EVENTS:  # more than a state: the next record begins anew
                self.start_over()

    def _note_progress(self, progress: WorkflowProgress) -> None:
        self._changed[id(progress)] = progress

    def start_over(self) -> None:
        """Have the next capture hold the whole state."""
        self._needs_state = True
        self._is_following = False
        self._events.clear()
        self._readings.start_over()

    def look_everywhere(self) -> None:
        """Take it that new running tasks do not stand last."""
        self._looks_everywhere = True

    def capture(
        self,
        now_s: float,
        pending: Sequence[PendingTask],
        running: Mapping[str, RunningTask],
        readings: NodeReadings | None = None,
    ) -> CycleCapture | None:
        """Hold the input of a cycle fast; None: the policy remembers more than can be written down."""
        memory = self._policy.memory if self._policy is not None else None
        if memory is None:
            self.start_over()
            return None
        now_running = tuple(running.values())
        if self._needs_state:
            self._begin_anew(pending, now_running)
        else:
            self._changed = self._captured | self._changed
            self._watch(task.progress for task in pending)
            self._watch(task.pending.progress for task in self._new_ones(now_running))
        self._captured, self._changed = self._changed, {}
        self._captured_events = len(self._events)
        self._recent = {id(task): task for task in now_running[-_RECENT:]}
        return CycleCapture(
            now_s=now_s,
            pending=tuple(pending),
            running=now_running,
            progress=[capture_progress(each) for each in self._captured.values()],
            chance=chance_of(self._rng),
            memory=memory,
            events=[] if self._needs_state else self._events.copy(),
            state=capture_state(self._state) if self._needs_state else None,
            readings=self._readings.capture(readings) if readings is not None else None,
        )

    def _begin_anew(self, pending: Sequence[PendingTask], running: Sequence[RunningTask]) -> None:
        self._unwatch()
        self._events.clear()
        self._is_following = True
        self._watch(task.progress for task in pending)
        self._watch(task.pending.progress for task in running)

    def _new_ones(self, running: Sequence[RunningTask]) -> Iterator[RunningTask]:
        for task in reversed(running):
            if id(task) in self._recent and not self._looks_everywhere:
                return
            yield task

    def _watch(self, some: Iterator[WorkflowProgress]) -> None:
        watched = self._watched
        for progress in some:
            if id(progress) not in watched:
                watched[id(progress)] = self._changed[id(progress)] = progress
                progress.watcher = self._note_progress

    def _unwatch(self) -> None:
        for progress in self._watched.values():
            progress.watcher = None
        self._watched.clear()
        self._changed.clear()
        self._captured.clear()

    def kept(self, capture: CycleCapture) -> None:
        """Note that `capture`, the latest, is being written."""
        if not self._is_following:  # too much has happened since
            return
        if capture.state is not None:
            self._needs_state = False
        if capture.readings is not None:
            self._readings.kept(capture.readings)
        del self._events[: self._captured_events]
        self._captured_events = 0
        self._captured = {}

    def close(self) -> None:
        """Follow nothing any longer."""
        self._state.tap = None
        self._unwatch()
