"""What the scheduler's loop needs of its surroundings; each part is made elsewhere and tested alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from stowplan.core.decoder import Placed
from stowplan.core.domain import ClusterState, PendingTask, RunningTask
from stowplan.core.engine import CycleReport
from stowplan.kube.api.binder import Outcome
from stowplan.kube.live.listener import Listener
from stowplan.kube.live.pod import LivePod

__all__ = [
    "ActOutcome",
    "Actuator",
    "ComparisonSink",
    "DecisionSink",
    "Feed",
    "Mode",
    "Preemptor",
    "Released",
    "ShadowComparison",
    "TaskBook",
]


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


class Feed(Protocol):
    """The live cluster, as the scheduler uses it; `kube.live`'s ClusterFeed is one."""

    @property
    def state(self) -> ClusterState:
        """The cluster; changed by the feed and by the engine only."""
        ...

    @property
    def pods(self) -> Mapping[str, LivePod]:
        """All pods by key, also ended ones until they are deleted."""
        ...

    @property
    def is_settled(self) -> bool:
        """Whether every kind was listed once: only then may anyone decide."""
        ...

    def listen(self, listener: Listener) -> None:
        """Tell a listener of what changes from now on."""
        ...

    def assume(self, pod: LivePod, node_name: str) -> None:
        """Note that the engine has placed a pod; it holds its resources in the state already."""
        ...

    def is_assumed(self, pod: LivePod) -> bool:
        """Tell whether the pod's node is still only our belief."""
        ...

    def drop(self, pod: LivePod) -> None:
        """Note that the belief was given up; the engine has forgotten the pod already."""
        ...


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


class Preemptor(Protocol):
    """Makes room for pods of higher priority."""

    async def consider(self, pod: LivePod, task: PendingTask) -> str:
        """Make room for a pod that found no node; return the node that it is nominated for, or ""."""
        ...


@dataclass(frozen=True, slots=True)
class Released:
    """The pod is no longer ours to place. Next: free the reservation; others go on with it.

    Attributes:
        why: In words.
        loss: As what it is counted among lost placements; empty where nothing was lost.
    """

    why: str
    loss: str = ""


ActOutcome = Outcome | Released
"""What can become of a placement; `kube.api.binder` says what each means and what is next."""


class Actuator(Protocol):
    """Makes one placement a fact, in one of the modes. Many may be under way at once."""

    @property
    def reserves(self) -> bool:
        """Whether a placement holds its resources until it is known what became of it."""
        ...

    @property
    def binds(self) -> bool:
        """Whether it binds pods itself, and so tells that they are bound."""
        ...

    @property
    def backlog(self) -> int:
        """Placements that wait for their turn at the API server."""
        ...

    def seen(self, pod: LivePod) -> LivePod:
        """Return a waiting pod as it is to be decided on: mostly as it is."""
        ...

    async def act(self, pod: LivePod, placed: Placed) -> ActOutcome:
        """Carry out a placement and tell what became of it; never raises for what the API server says."""
        ...


@dataclass(frozen=True, slots=True)
class ShadowComparison:
    """Where a pod would have gone and where it went, and how long it was foretold to run on both.

    Attributes:
        pod: as it was bound by others.
        node: where it would have gone.
        actual_node: where it went.
        expected_s: the duration foretold on `node`.
        actual_expected_s: the duration foretold on `actual_node`, by the same policy at the same moment.
        decided_s, bound_s: when, in seconds since the epoch.
        policy: whose foresight it is.
    """

    pod: LivePod
    node: str
    actual_node: str
    expected_s: float
    actual_expected_s: float
    decided_s: float
    bound_s: float
    policy: str

    @property
    def saved_s(self) -> float:
        """Seconds by which the pod is foretold to run shorter where it would have gone."""
        return self.actual_expected_s - self.expected_s


class ComparisonSink(Protocol):
    """Keeps what shadow mode finds."""

    def __call__(self, comparison: ShadowComparison, /) -> None:
        """Note a comparison. Never blocks."""
        ...
