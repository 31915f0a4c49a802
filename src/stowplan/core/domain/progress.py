"""How far a submitted workflow has come, and who runs where.

Drivers feed ends and failures in; policies read what remains. Every update costs the edges of the task it
concerns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain.workflow import Task, Workflow
from stowplan.errors import StateConflict

__all__ = ["PendingTask", "RunningTask", "TaskStatus", "WorkflowProgress"]


class TaskStatus(IntEnum):
    """Life of a task. FAILED and SKIPPED are final; a task that is retried goes back to PENDING."""

    WAITING = 0
    PENDING = 1
    RUNNING = 2
    DONE = 3
    FAILED = 4
    SKIPPED = 5


# Plain integers: looking up members of an enumeration and comparing them with NumPy costs more than the rest.
_WAITING, _PENDING, _RUNNING, _DONE, _FAILED, _SKIPPED = (int(status) for status in TaskStatus)


class WorkflowProgress:
    """One submitted workflow.

    Attributes:
        status: int8 (tasks,), values of `TaskStatus`.
        unfinished_parents: int32 (tasks,).
        remaining_work_s: expected seconds of all tasks that have not ended, summed.
        upward_rank_s: float64 (tasks,); longest expected path from each task to an exit, itself included.
        watcher: told of every change, for whoever keeps copies; whoever changes a value here without the
            methods below calls `changed`.
    """

    __slots__ = (
        "key",
        "open_tasks",
        "remaining_work_s",
        "status",
        "submitted_s",
        "unfinished_parents",
        "upward_rank_s",
        "watcher",
        "workflow",
    )

    def __init__(self, key: str, workflow: Workflow, submitted_s: float) -> None:
        """Start with every task waiting; call `start` for the entry tasks."""
        self.key = key
        self.workflow = workflow
        self.submitted_s = submitted_s
        self.status: NDArray[np.int8] = np.zeros(len(workflow), dtype=np.int8)
        self.unfinished_parents: NDArray[np.int32] = np.array(
            [len(p) for p in workflow.parents], dtype=np.int32
        )
        self.remaining_work_s = float(workflow.expected_s.sum())
        self.upward_rank_s = workflow.upward_ranks()
        self.open_tasks = len(workflow)
        self.watcher: Callable[[WorkflowProgress], None] | None = None

    def changed(self) -> None:
        """Tell whoever watches that something here changed."""
        if self.watcher is not None:
            self.watcher(self)

    @property
    def is_finished(self) -> bool:
        """Whether every task has come to an end, good or bad."""
        return self.open_tasks == 0

    @property
    def has_failed(self) -> bool:
        """Whether some task failed for good."""
        return bool((self.status == TaskStatus.FAILED).any())

    def start(self) -> list[int]:
        """Return the entry tasks, now pending."""
        entries = [index for index, above in enumerate(self.workflow.parents) if not above]
        self.status[entries] = TaskStatus.PENDING
        self.changed()
        return entries

    def running(self, index: int) -> None:
        """Note that a pending task was placed."""
        self._move(index, _PENDING, _RUNNING)

    def retry(self, index: int) -> None:
        """Note that a running task was lost and is pending again."""
        self._move(index, _RUNNING, _PENDING)

    def done(self, index: int) -> list[int]:
        """Note that a running task succeeded; return the tasks that became pending."""
        self._move(index, _RUNNING, _DONE)
        self._close(index)
        ready: list[int] = []
        for child in self.workflow.children[index]:
            self.unfinished_parents[child] -= 1
            if self.unfinished_parents.item(child) == 0 and self.status.item(child) == _WAITING:
                self.status[child] = _PENDING
                ready.append(child)
        return ready

    def failed(self, index: int) -> list[int]:
        """Note that a pending or running task failed for good; return the descendants, which are skipped."""
        if self.status.item(index) not in (_PENDING, _RUNNING):
            raise StateConflict(self._story(index, _FAILED))
        self.status[index] = _FAILED
        self.changed()
        self._close(index)
        skipped: list[int] = []
        stack = list(self.workflow.children[index])
        while stack:
            child = stack.pop()
            if self.status.item(child) == _WAITING:
                self.status[child] = _SKIPPED
                self._close(child)
                skipped.append(child)
                stack.extend(self.workflow.children[child])
        return skipped

    def _move(self, index: int, expected: int, to: int) -> None:
        if self.status.item(index) != expected:
            raise StateConflict(self._story(index, to))
        self.status[index] = to
        self.changed()

    def _close(self, index: int) -> None:
        self.open_tasks -= 1
        self.remaining_work_s -= self.workflow.tasks[index].expected_s
        if self.open_tasks == 0:
            self.remaining_work_s = 0.0

    def _story(self, index: int, to: int) -> str:
        name = self.workflow.tasks[index].name
        status = TaskStatus(int(self.status[index]))
        return (
            f"workflow {self.key!r}: task {name!r} is {status.name}; it cannot become {TaskStatus(to).name}"
        )


@dataclass(frozen=True, slots=True)
class PendingTask:
    """A task whose parents are done and that has no node yet. `key` is unique among the pods of a cluster.

    `actual` is the task as it really came, where that is known better than from the workflow: a live pod has
    the shape that the API server has, and one of a fan-out may have an expected duration of its own.
    """

    key: str
    progress: WorkflowProgress
    index: int
    ready_s: float
    actual: Task | None = None

    @property
    def task(self) -> Task:
        """The task."""
        return self.actual if self.actual is not None else self.progress.workflow.tasks[self.index]

    @property
    def gang_key(self) -> tuple[str, str] | None:
        """Workflow key and name of the task's gang; None: it stands alone."""
        gang = self.task.gang
        return None if gang is None else (self.progress.key, gang.name)


@dataclass(frozen=True, slots=True)
class RunningTask:
    """A placed task. `expected_end_s` is what the scheduler believes, not what physics will make of it."""

    pending: PendingTask
    row: int
    started_s: float
    expected_end_s: float
