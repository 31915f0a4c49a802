"""The pending tasks, in order of arrival, and the window of them that a cycle looks at.

Without a bound a cycle sees every pending task. With one it sees at most so many, taken evenly from the
distinct pod
shapes, oldest first: identical tasks that fit nowhere now cannot hide others that would fit, and the cost of
a cycle does not grow with the backlog.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, KeysView, Sequence
from itertools import islice

from stowplan.core.domain import PendingTask, PodShape

__all__ = ["PendingQueue"]


def _arrival(task: PendingTask) -> tuple[float, str]:
    return task.ready_s, task.key


class PendingQueue:
    """Pending tasks by shape. `peak` is the largest backlog that `note_backlog` saw."""

    __slots__ = ("_by_shape", "_count", "_fresh", "_limit", "_ordered", "peak")

    def __init__(self, limit: int | None) -> None:
        """Show at most `limit` tasks per cycle; None: all."""
        self._limit = limit
        self._fresh: list[PendingTask] = []
        self._ordered: list[PendingTask] = []  # all, in order of arrival; used without a limit
        self._by_shape: dict[PodShape, dict[str, PendingTask]] = {}  # used with a limit
        self._count = 0
        self.peak = 0

    def __len__(self) -> int:
        """Count the pending tasks."""
        return self._count

    def add(self, tasks: Sequence[PendingTask]) -> None:
        """Queue tasks that became ready, no earlier than those already queued."""
        self._fresh += tasks
        self._count += len(tasks)

    def note_backlog(self) -> None:
        """Remember the size of the backlog if it is the largest so far; called after each cycle."""
        self.peak = max(self.peak, self._count)

    def tasks(self) -> list[PendingTask]:
        """Return all pending tasks in order of arrival."""
        self._sort_in()
        if self._limit is None:
            return self._ordered
        return sorted((task for group in self._by_shape.values() for task in group.values()), key=_arrival)

    def window(self) -> Sequence[PendingTask]:
        """Return the tasks for the next cycle in order of arrival."""
        self._sort_in()
        if self._limit is None:
            return self._ordered
        if self._count <= self._limit:
            return self.tasks()
        shown: list[PendingTask] = []
        shapes = min(len(self._by_shape), self._limit)
        for group in islice(self._by_shape.values(), shapes):
            room = math.ceil((self._limit - len(shown)) / shapes)
            shown += islice(group.values(), room)
            shapes -= 1
        shown.sort(key=_arrival)
        return shown

    def remove(self, keys: Container[str], tasks: Sequence[PendingTask]) -> None:
        """Take out `tasks`, whose keys are `keys`: they were placed or have failed."""
        self._sort_in()
        self._count -= len(tasks)
        if self._limit is None:
            self._ordered = [task for task in self._ordered if task.key not in keys]
            return
        for task in tasks:
            shape = task.task.shape
            group = self._by_shape[shape]
            del group[task.key]
            if not group:
                del self._by_shape[shape]

    @property
    def shapes(self) -> KeysView[PodShape]:
        """The distinct shapes of the pending tasks, next to be looked at first; only kept with a limit."""
        self._sort_in()
        return self._by_shape.keys()

    def put_last(self, shapes: Iterable[PodShape]) -> None:
        """Look at `shapes`, which found no node, after the others next time; for queues with a limit."""
        for shape in dict.fromkeys(shapes):
            group = self._by_shape.pop(shape, None)
            if group is not None:
                self._by_shape[shape] = group

    def _sort_in(self) -> None:
        if not self._fresh:
            return
        if len(self._fresh) > 1:
            self._fresh.sort(key=_arrival)
        if self._limit is None:
            self._ordered += self._fresh
        else:
            for task in self._fresh:
                self._by_shape.setdefault(task.task.shape, {})[task.key] = task
        self._fresh.clear()
