"""What tasks need, remembered: a task is looked at when it is pending, and again when it runs."""

from __future__ import annotations

from typing import Final

from stowplan.core.domain import Task
from stowplan.core.policy.demand import TaskDemand, demand_of_task

__all__ = ["Demands"]

_MOST: Final = 16384


class Demands:
    """Demands of the tasks that were met lately."""

    def __init__(self) -> None:
        """Know none."""
        self._known: dict[int, tuple[Task, TaskDemand]] = {}  # by identity of the task, which is kept with it

    def of(self, task: Task) -> TaskDemand:
        """Return what a task needs."""
        known = self._known.get(id(task))
        if known is None:
            if len(self._known) >= _MOST:
                self._known.clear()
            known = self._known[id(task)] = (task, demand_of_task(task))
        return known[1]
