"""What a view says of running tasks that it did not say in the cycle before.

With thousands of tasks running, nearly all are the same from cycle to cycle, and whoever keeps something
about each of them wants to look only at the others. A task is another one when its entry is replaced, or when
its workflow is, for example because durations were learnt anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from stowplan.core.domain import RunningTask, Workflow, WorkflowProgress
from stowplan.core.policy.interface import CycleView

__all__ = ["RunningWatch", "differing"]

_STRETCH: Final = 64


@dataclass(slots=True)
class _Watched:
    """A workflow of which tasks run: they are others when it is replaced."""

    progress: WorkflowProgress
    workflow: Workflow
    keys: set[str] = field(default_factory=set[str])


class RunningWatch:
    """Compares the running tasks of each cycle with those of the cycle before."""

    def __init__(self) -> None:
        """Begin with nothing running."""
        self._running: list[RunningTask] = []
        self._watched: dict[int, _Watched] = {}  # by identity of the progress, which is kept with it

    def changed(self, view: CycleView) -> set[str]:
        """Return the keys of tasks that came, went or are others than in the view before."""
        keys: set[str] = set()
        for watched in self._watched.values():
            if watched.progress.workflow is not watched.workflow:
                watched.workflow = watched.progress.workflow
                keys |= watched.keys
        before, now = self._running, list(view.running.values())
        self._running = now
        arrived: list[RunningTask] = []
        for task in differing(before, now, view.running):
            if view.running.get(task.pending.key) is task:
                arrived.append(task)
            else:
                self._unwatch(task)
            keys.add(task.pending.key)
        for task in arrived:
            self._watch(task)
        return keys

    def _watch(self, task: RunningTask) -> None:
        progress = task.pending.progress
        watched = self._watched.get(id(progress))
        if watched is None:
            watched = self._watched[id(progress)] = _Watched(progress, progress.workflow)
        watched.keys.add(task.pending.key)

    def _unwatch(self, task: RunningTask) -> None:
        number = id(task.pending.progress)
        watched = self._watched.get(number)
        if watched is not None:
            watched.keys.discard(task.pending.key)
            if not watched.keys:
                del self._watched[number]


def differing(
    before: list[RunningTask], now: list[RunningTask], current: Mapping[str, RunningTask]
) -> list[RunningTask]:
    """Return the tasks that are in one of two lists only, and perhaps some that moved in between.

    Nearly all are the same in the same order, so whole stretches are compared at once; equal is the same.

    Args:
        before: the tasks as they were.
        now: those that there are.
        current: the same, by key.
    """
    found: list[RunningTask] = []
    left = right = 0
    while left < len(before) and right < len(now):
        if before[left : left + _STRETCH] == now[right : right + _STRETCH]:
            left, right = left + _STRETCH, right + _STRETCH
            continue
        one, other = before[left], now[right]
        if one is other:
            left, right = left + 1, right + 1
        elif current.get(one.pending.key) is not one:
            found.append(one)
            left += 1
        else:
            found.append(other)
            right += 1
    found += now[right:]
    found += (task for task in before[left:] if current.get(task.pending.key) is not task)
    return found
