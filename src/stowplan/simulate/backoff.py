"""When kube-scheduler looks again at a pod that fitted nowhere.

A pod that could not be placed is looked at again once something happened that may have made room, but not
before its back-off is over: `podInitialBackoffSeconds`, doubled by every further failure up to
`podMaxBackoffSeconds` (1 s and 10 s by default; Kubernetes, KubeSchedulerConfiguration v1). On a full cluster
this leaves room unused for seconds after a pod ended, and lets later pods overtake. Off by default: a
scheduler that is told of every change needs none.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from stowplan.core.domain import PendingTask

__all__ = ["SchedulerBackoff"]


class SchedulerBackoff:
    """Which pending tasks a cycle may look at. With `first_s` 0 it is all of them, always."""

    __slots__ = ("_failed", "_first_s", "_most_s", "_room_made")

    def __init__(self, first_s: float, most_s: float) -> None:
        """Wait `first_s` after the first failure, then twice as long each time, at most `most_s`."""
        self._first_s = first_s
        self._most_s = most_s
        self._room_made = 0
        self._failed: dict[
            str, tuple[int, float, int]
        ] = {}  # key → (failures, not before, room made by then)

    @property
    def is_on(self) -> bool:
        """Whether any task is ever held back."""
        return self._first_s > 0.0

    def note_room(self) -> None:
        """Note that something happened that may have made room: a pod ended, a node changed."""
        self._room_made += 1

    def eligible(self, tasks: Sequence[PendingTask], now_s: float) -> Sequence[PendingTask]:
        """Return the tasks that may be looked at now, in the same order."""
        if not self.is_on:
            return tasks
        return [task for task in tasks if self._is_eligible(task.key, now_s)]

    def next_s(self, tasks: Iterable[PendingTask]) -> float:
        """Return when the next back-off ends of a task for which room may have been made since; inf: none."""
        ends = (self._failed.get(task.key) for task in tasks)
        return min((end[1] for end in ends if end is not None and end[2] < self._room_made), default=math.inf)

    def note_failures(self, tasks: Iterable[PendingTask], now_s: float) -> None:
        """Note that tasks were looked at and found no room."""
        if self.is_on:
            for task in tasks:
                failures = self._failed.get(task.key, (0, 0.0, 0))[0]
                wait_s = min(self._first_s * 2.0 ** min(failures, 60), self._most_s)
                self._failed[task.key] = (failures + 1, now_s + wait_s, self._room_made)

    def forget(self, keys: Iterable[str]) -> None:
        """Forget tasks that were placed or given up."""
        for key in keys:
            self._failed.pop(key, None)

    def _is_eligible(self, key: str, now_s: float) -> bool:
        known = self._failed.get(key)
        return known is None or (known[1] <= now_s and known[2] < self._room_made)
