"""The tasks of all submissions: numbered, keyed, and how far each workflow has come.

Task ids count through the submissions in order of arrival, and through each workflow in its own order. A
task's key, its name towards scheduler and cluster, is `WORKFLOW/TASK`; the next attempt of a lost task has
the same key.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from stowplan.core.domain import PendingTask, Task, TaskStatus, WorkflowProgress
from stowplan.errors import InternalError
from stowplan.simulate.workloads.model import Submission

__all__ = ["EndStatus", "TaskBook"]


class EndStatus(IntEnum):
    """Why a task has no further attempt, where its last attempt does not tell."""

    OPEN = 0
    """It may yet run, or has an attempt that tells."""
    INFEASIBLE = 1
    """No node could take it even if empty."""
    STARVED = 2
    """Some node could have taken it, but none ever had room and nothing was left to happen."""
    SKIPPED = 3
    """A task before it failed."""


class TaskBook:
    """Lookups by task id (T tasks) and by workflow (W submissions, in order of arrival).

    Attributes:
        tasks: (T,) the tasks.
        keys: (T,) their keys.
        workflow_of: (T,) index of each task's workflow.
        first_id: (W,) task id of each workflow's first task.
        progress: (W,) of the workflows that arrived so far.
        end_status: (T,) values of `EndStatus`.
        attempts: (T,) how often each task was placed.
        finished_s: per workflow index, when its last task came to its end.
    """

    def __init__(self, submissions: Sequence[Submission]) -> None:
        """Number the tasks of `submissions`, which are in order of arrival."""
        self.submissions = submissions
        self.tasks: list[Task] = []
        self.keys: list[str] = []
        self.workflow_of: list[int] = []
        self.first_id: list[int] = []
        self.progress: list[WorkflowProgress] = []
        self.finished_s: dict[int, float] = {}
        for index, submission in enumerate(submissions):
            workflow = submission.workflow
            self.first_id.append(len(self.tasks))
            self.tasks += workflow.tasks
            self.keys += [f"{workflow.name}/{task.name}" for task in workflow.tasks]
            self.workflow_of += [index] * len(workflow)
        self.end_status = bytearray(len(self.tasks))
        self.attempts = [0] * len(self.tasks)
        self.id_of = {key: task_id for task_id, key in enumerate(self.keys)}
        self.ended_tasks = 0

    @property
    def next_arrival_s(self) -> float | None:
        """When the next workflow is submitted; None when all have been."""
        arrived = len(self.progress)
        return self.submissions[arrived].time_s if arrived < len(self.submissions) else None

    def arrive(self) -> list[PendingTask]:
        """Submit the next workflow; return its entry tasks."""
        index = len(self.progress)
        submission = self.submissions[index]
        progress = WorkflowProgress(submission.workflow.name, submission.workflow, submission.time_s)
        self.progress.append(progress)
        return self._pending(index, progress.start(), submission.time_s)

    def placed(self, task_id: int) -> int:
        """Note that a pending task was placed; return which attempt this is, from 1."""
        workflow = self.workflow_of[task_id]
        self.progress[workflow].running(task_id - self.first_id[workflow])
        self.attempts[task_id] += 1
        return self.attempts[task_id]

    def done(self, task_id: int, time_s: float) -> list[PendingTask]:
        """Note that a running task succeeded; return the tasks that became ready."""
        workflow = self.workflow_of[task_id]
        progress = self.progress[workflow]
        ready = progress.done(task_id - self.first_id[workflow])
        self.ended_tasks += 1
        if progress.open_tasks == 0:
            self.finished_s[workflow] = time_s
        return self._pending(workflow, ready, time_s) if ready else []

    def retry(self, task_id: int) -> None:
        """Note that a running task was lost and will be pending again."""
        workflow = self.workflow_of[task_id]
        self.progress[workflow].retry(task_id - self.first_id[workflow])

    def pending_again(self, task_id: int, time_s: float) -> PendingTask:
        """Return a lost task as pending from `time_s` on."""
        workflow = self.workflow_of[task_id]
        index = task_id - self.first_id[workflow]
        return PendingTask(self.keys[task_id], self.progress[workflow], index, time_s)

    def failed(self, task_id: int, time_s: float, status: EndStatus) -> None:
        """Note that a task failed for good, OPEN: as its last attempt tells; descendants are skipped."""
        workflow = self.workflow_of[task_id]
        first, progress = self.first_id[workflow], self.progress[workflow]
        skipped = progress.failed(task_id - first)
        self.end_status[task_id] = status
        for index in skipped:
            self.end_status[first + index] = EndStatus.SKIPPED
        self.ended_tasks += 1 + len(skipped)
        if progress.open_tasks == 0:
            self.finished_s[workflow] = time_s

    def validate(self, pending: set[str], running: set[str]) -> None:
        """Check that no task is lost: each is waiting, pending, running or ended, in one place only.

        `pending` and `running` are the keys that the simulator holds; a lost task that waits out its back-off
        counts as pending.

        Raises:
            InternalError: a task is in no place, or in two; the message names it.
        """
        both = pending & running
        if both:
            raise InternalError(f"task {min(both)!r} is both pending and running")
        ended = 0
        for workflow, progress in enumerate(self.progress):
            for index, status in enumerate(progress.status.tolist()):
                key = self.keys[self.first_id[workflow] + index]
                if (status == TaskStatus.PENDING) != (key in pending):
                    raise InternalError(
                        f"task {key!r} is {TaskStatus(status).name} but pending is {key in pending}"
                    )
                if (status == TaskStatus.RUNNING) != (key in running):
                    raise InternalError(
                        f"task {key!r} is {TaskStatus(status).name} but running is {key in running}"
                    )
                ended += status >= TaskStatus.DONE
            if progress.is_finished != (workflow in self.finished_s):
                raise InternalError(
                    f"workflow {progress.key!r} and the book disagree about whether it is finished"
                )
        if ended != self.ended_tasks:
            raise InternalError(f"{ended} tasks have ended but {self.ended_tasks} were counted")

    def _pending(self, workflow: int, indexes: Sequence[int], time_s: float) -> list[PendingTask]:
        first, progress = self.first_id[workflow], self.progress[workflow]
        return [PendingTask(self.keys[first + index], progress, index, time_s) for index in indexes]
