"""What has happened since the last record: events of the state, changed workflows.

All of it is in the scheduler's thread, and costs what is new.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from stowplan.core.domain import ClusterEvent, ClusterState, PendingTask, RunningTask, WorkflowProgress
from stowplan.core.policy.interface import Policy, Replayable
from stowplan.core.record import CycleCapture, capture_progress, capture_state, chance_of

__all__ = ["Bookkeeping"]

_MOST_EVENTS: Final = 50_000


class Bookkeeping:
    """Captures cycles, each against the last that was kept."""

    def __init__(self, state: ClusterState, rng: np.random.Generator, policy: Policy) -> None:
        """Follow `state` from now on, which nobody may tap already."""
        self._state = state
        self._rng = rng
        self._policy = policy
        self._events: list[ClusterEvent] = []
        self._sent: dict[
            int, tuple[WorkflowProgress, int]
        ] = {}  # by identity: at which change it was captured
        self._running: tuple[RunningTask, ...] = ()
        self._of_running: dict[int, WorkflowProgress] = {}
        self._needs_state = True
        self._is_following = False  # events are kept: a state was captured that they come after
        self._captured_events = 0
        state.tap = self._note

    def _note(self, event: ClusterEvent) -> None:
        if self._is_following:
            self._events.append(event)
            if len(self._events) > _MOST_EVENTS:  # more than a state: the next record begins anew
                self.start_over()

    def start_over(self) -> None:
        """Have the next capture hold the whole state."""
        self._needs_state = True
        self._is_following = False
        self._events.clear()

    def capture(
        self, now_s: float, pending: Sequence[PendingTask], running: Mapping[str, RunningTask]
    ) -> CycleCapture | None:
        """Hold the input of a cycle fast; None: the policy remembers more than can be written down."""
        memory = self._policy.memory if isinstance(self._policy, Replayable) else None
        if memory is None:
            self.start_over()
            return None
        if self._needs_state:
            self._sent.clear()
            self._events.clear()
            self._is_following = True
        self._captured_events = len(self._events)
        now_running = tuple(running.values())
        if now_running != self._running:  # the same objects, mostly: compared in no time
            self._of_running = {id(task.pending.progress): task.pending.progress for task in now_running}
            self._running = now_running
        progress = self._of_running | {id(task.progress): task.progress for task in pending}
        sent = self._sent
        return CycleCapture(
            now_s=now_s,
            pending=tuple(pending),
            running=now_running,
            progress=[
                capture_progress(each)
                for key, each in progress.items()
                if key not in sent or sent[key][1] != each.changes
            ],
            chance=chance_of(self._rng),
            memory=memory,
            events=[] if self._needs_state else self._events.copy(),
            state=capture_state(self._state) if self._needs_state else None,
        )

    def kept(self, capture: CycleCapture) -> None:
        """Note that `capture`, the latest, is being written."""
        if not self._is_following:  # too much has happened since
            return
        self._needs_state = False
        del self._events[: self._captured_events]
        self._captured_events = 0
        for each in capture.progress:
            self._sent[id(each.progress)] = (each.progress, each.changes)

    def close(self) -> None:
        """Follow the state no longer."""
        self._state.tap = None
