"""What the scheduler's loop needs of its surroundings; each part is made elsewhere and tested alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Protocol

from stowplan.core.decoder import Placed
from stowplan.core.domain import PendingTask, RunningTask
from stowplan.core.engine import CycleReport
from stowplan.kube.api.binder import Outcome
from stowplan.kube.live.pod import LivePod

__all__ = ["Actuator", "DecisionSink", "Mode", "TaskBook"]


class Mode(StrEnum):
    """How decisions become facts."""

    EXTENDER = "extender"
    """kube-scheduler asks, Stowplan scores; kube-scheduler's queue, kube-scheduler's binding."""
    BINDER = "binder"
    """Stowplan is the scheduler of the pods that name it, and binds them."""
    GATE = "gate"
    """Stowplan takes its scheduling gate off pods in its own order and prefers a node; others bind."""
    SHADOW = "shadow"
    """Stowplan decides and writes down what it would have done."""


class TaskBook(Protocol):
    """Knows what pods are in their workflows, and how long they will take."""

    def task_of(self, pod: LivePod, ready_s: float) -> PendingTask:
        """Return the pod as a task of its workflow; a pod of no workflow is a workflow of its own.

        Cheap: it is asked for every waiting pod in every cycle. `PendingTask.key` is the pod's key, its
        `task.shape` the pod's shape. `ready_s` is monotonic.
        """
        ...

    @property
    def running(self) -> Mapping[str, RunningTask]:
        """The tasks that have a node now, by the pod's key; times are monotonic seconds."""
        ...


class DecisionSink(Protocol):
    """Keeps decisions so that they can be explained and replayed."""

    def begin(
        self, now_s: float, pending: Sequence[PendingTask], running: Mapping[str, RunningTask]
    ) -> object:
        """Note what a cycle is about to decide on; the answer is handed to `end`."""
        ...

    def end(self, begun: object, report: CycleReport, pods: Mapping[str, LivePod]) -> None:
        """Note what came of it. `pods` holds the pod of each pending task by key. Never blocks."""
        ...


class Actuator(Protocol):
    """Makes one placement a fact, in one of the modes."""

    async def act(self, pod: LivePod, placed: Placed) -> Outcome:
        """Carry out a placement and tell what became of it; never raises for what the API server says."""
        ...
