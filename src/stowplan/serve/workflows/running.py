"""The tasks that have a node, with the time at which each is expected to end.

A task that goes on beyond that time is expected to take as long as runs that lasted so long usually do: its
end is foretold anew then, and not before, so that looking costs nothing as long as all goes as foretold.
"""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Mapping
from typing import Final

from stowplan.core.domain import ClusterState, PendingTask, RunningTask
from stowplan.observe.history.expected import ExpectedDuration

__all__ = ["RunningTasks"]

_SHORTEST_WAIT_S: Final = 1.0  # until an end is foretold anew again


class RunningTasks:
    """Running tasks by the key of their pod; what changed last stands last. Times are monotonic seconds."""

    def __init__(self, state: ClusterState) -> None:
        """Look up rows in `state`."""
        self._state = state
        self._tasks: dict[str, RunningTask] = {}
        self._strays: dict[str, RunningTask] = {}  # on a node that is not there
        self._expected: dict[str, tuple[str, ExpectedDuration]] = {}
        self._ends: list[tuple[float, str]] = []
        self._rows_moved = False

    def set(
        self,
        pending: PendingTask,
        node_name: str,
        started_s: float,
        expected: ExpectedDuration,
        now_s: float,
    ) -> None:
        """Note that a task is on a node, since `started_s`."""
        end_s = started_s + expected.after(now_s - started_s)
        self._expected[pending.key] = (node_name, expected)
        row = self._state.row(node_name)
        self._put(RunningTask(pending, row, started_s, end_s))
        self._shrink()

    def remove(self, key: str) -> None:
        """Note that a task is on no node any more."""
        self._expected.pop(key, None)
        self._tasks.pop(key, None)
        self._strays.pop(key, None)
        self._shrink()

    def _put(self, task: RunningTask) -> None:
        key = task.pending.key
        here, there = (self._tasks, self._strays) if task.row >= 0 else (self._strays, self._tasks)
        there.pop(key, None)
        here.pop(key, None)  # so that it stands last: whoever records cycles looks for what is new there
        here[key] = task
        if task.row >= 0:
            heapq.heappush(self._ends, (task.expected_end_s, key))

    def _shrink(self) -> None:
        """Leave out ends that no longer hold, once they are most."""
        if len(self._ends) > 64 + 4 * len(self._tasks):
            self._ends = [(task.expected_end_s, key) for key, task in self._tasks.items()]
            heapq.heapify(self._ends)

    def nodes_moved(self) -> None:
        """Note that nodes came or went: rows may stand for others."""
        self._rows_moved = True

    def current(self, now_s: float) -> Mapping[str, RunningTask]:
        """Return them as they are now; those whose node is not there (yet, or any more) are left out."""
        if self._rows_moved:
            self._rows_moved = False
            for task in [*self._tasks.values(), *self._strays.values()]:
                row = self._state.row(self._expected[task.pending.key][0])
                if row != task.row:
                    self._put(dataclasses.replace(task, row=row))
        while self._ends and self._ends[0][0] <= now_s:
            end_s, key = heapq.heappop(self._ends)
            task = self._tasks.get(key)
            if task is None or task.expected_end_s != end_s:
                continue  # ended, or foretold anew since
            lasted_s = now_s - task.started_s
            whole_s = self._expected[key][1].after(lasted_s)
            end_s = task.started_s + max(whole_s, lasted_s + _SHORTEST_WAIT_S)
            self._put(dataclasses.replace(task, expected_end_s=end_s))
        return self._tasks
