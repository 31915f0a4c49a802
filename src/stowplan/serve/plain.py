"""Tasks without workflows: every pod by itself, all of the same length. Replaced by the book of workflows."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from stowplan.core.domain import (
    CPU,
    PendingTask,
    Phase,
    RunningTask,
    Task,
    Workflow,
    WorkflowProgress,
    WorkProfile,
)
from stowplan.kube.live.feed import ClusterFeed
from stowplan.kube.live.listener import ClusterChange
from stowplan.kube.live.pod import LivePod
from stowplan.observe.history import ExpectedDuration

__all__ = ["PlainTasks"]

_EXPECTED_S: Final = 60.0


class PlainTasks:
    """A `TaskBook` that knows no workflows."""

    running: Mapping[str, RunningTask]

    def __init__(self, feed: ClusterFeed) -> None:
        """Follow `feed`."""
        self.running = {}
        self._tasks: dict[str, PendingTask] = {}
        feed.listen(self)

    def pod_set(self, before: LivePod | None, now: LivePod) -> None:
        """Nothing to do."""

    def pod_gone(self, last: LivePod) -> None:
        """Forget the pod."""
        self._tasks.pop(last.uid, None)

    def cluster_changed(self, change: ClusterChange) -> None:
        """Nothing to do."""

    async def run(self) -> None:
        """Do nothing until cancelled."""
        await asyncio.Event().wait()

    def task_of(self, pod: LivePod, ready_s: float) -> PendingTask:
        """Return the pod as a workflow of its own."""
        known = self._tasks.get(pod.uid)
        if known is None or known.task.shape is not pod.shape:
            cores = (pod.shape.requests.get(CPU, 0) or 1000) / 1000
            work = WorkProfile((Phase(work_s=_EXPECTED_S, cpu_cores=cores),))
            workflow = Workflow(pod.key, (Task(pod.name, pod.shape, work, _EXPECTED_S),))
            progress = WorkflowProgress(pod.key, workflow, ready_s)
            progress.start()
            known = self._tasks[pod.uid] = PendingTask(pod.key, progress, 0, ready_s)
        return known

    def expected_on(self, pod: LivePod, node_name: str) -> ExpectedDuration | None:
        """Return nothing: there is no history here."""
        del pod, node_name

    def live_tasks(self, namespace: str, name: str) -> Sequence[Mapping[str, Any]] | None:
        """Return nothing: there are no workflows here."""
        del namespace, name
