"""A hand-made feed, task book, actuator and pods for tests of the scheduler's loop."""

import asyncio
import dataclasses
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stowplan.core.decoder import Placed
from stowplan.core.domain import (
    BoundPod,
    ClusterState,
    Node,
    NodeRemoved,
    NodeSet,
    PendingTask,
    Phase,
    PodBound,
    PodRemoved,
    PodShape,
    Resources,
    RunningTask,
    Task,
    Workflow,
    WorkflowProgress,
    WorkProfile,
)
from stowplan.core.engine import Engine
from stowplan.core.policy import make_policy
from stowplan.kube.api.binder import Bound
from stowplan.kube.api.status import SchedulingStatus
from stowplan.kube.live.listener import ClusterChange, Listener
from stowplan.kube.live.pod import LivePod, MainContainer
from stowplan.serve.metrics import SchedulerMetrics
from stowplan.serve.scheduler.interface import ActOutcome, Released
from stowplan.serve.scheduler.loop import Scheduler
from stowplan.serve.scheduler.settings import SchedulerSettings

MAIN = MainContainer("image", (), 0, 0)
CREATED_S = 1_000_000.0


def shape(cpu_milli: int = 100, **fields: object) -> PodShape:
    plain = PodShape(requests=Resources({"cpu": cpu_milli}), scheduler_name="stowplan")
    return dataclasses.replace(plain, **fields)


def live_pod(name: str, of: PodShape | None = None, **fields: object) -> LivePod:
    """A pod that waits, unless the fields say otherwise."""
    pod = LivePod(
        key=f"default/{name}",
        namespace="default",
        name=name,
        uid=f"uid-{name}",
        shape=of if of is not None else shape(),
        phase="Pending",
        node_name="",
        is_terminating=False,
        created_s=CREATED_S,
        started_s=None,
        status=SchedulingStatus(),
        reason="",
        message="",
        can_preempt=True,
        owner=None,
        identity=None,
        main=MAIN,
    )
    return dataclasses.replace(pod, **fields)


class TableFeed:
    """A feed whose watch is the test: the same face and rules as the real one, over the same state."""

    def __init__(self) -> None:
        self.state = ClusterState()
        self.pods: dict[str, LivePod] = {}
        self.is_settled = True
        self._listeners: list[Listener] = []
        self._assumed: dict[str, tuple[str, str]] = {}  # key → (uid, node)

    def listen(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def assume(self, pod: LivePod, node_name: str) -> None:
        assert pod.key in self.state.pods
        self._assumed[pod.key] = (pod.uid, node_name)

    def is_assumed(self, pod: LivePod) -> bool:
        return self._assumed.get(pod.key, ("", ""))[0] == pod.uid

    def drop(self, pod: LivePod) -> None:
        assert pod.key not in self.state.pods
        del self._assumed[pod.key]

    def lose_assumption(self, key: str) -> None:
        """As when the node goes that a pod is assumed on."""
        self._assumed.pop(key, None)

    # ---- the watch ----

    def set_node(self, name: str, cpu_milli: int = 1000) -> None:
        self.state.apply(NodeSet(Node(name, Resources({"cpu": cpu_milli, "memory": 2**33, "pods": 110}))))
        self.changed(ClusterChange.NODE_ADDED)

    def remove_node(self, name: str) -> None:
        for key in list(self.state.pods_on[self.state.row(name)]):
            self.state.apply(PodRemoved(key))
        self.state.apply(NodeRemoved(name))
        self.changed(ClusterChange.NODE_REMOVED)

    def changed(self, change: ClusterChange) -> None:
        for listener in self._listeners:
            listener.cluster_changed(change)

    def set_pod(self, pod: LivePod) -> None:
        before = self.pods.get(pod.key)
        if before is not None and before.uid != pod.uid:
            self.delete_pod(pod.key)
            before = None
        self.pods[pod.key] = pod
        is_there = bool(pod.node_name) and not pod.has_ended
        held = self.state.pods.get(pod.key)
        if is_there or pod.has_ended:
            self._assumed.pop(pod.key, None)
        if held is not None and (pod.has_ended or is_there):
            self.state.apply(PodRemoved(pod.key))
        if is_there and self.state.row(pod.node_name) >= 0:
            self.state.apply(PodBound(BoundPod(pod.key, pod.shape, uid=pod.uid), pod.node_name))
        for listener in self._listeners:
            listener.pod_set(before, pod)

    def change_pod(self, key: str, **fields: object) -> LivePod:
        pod = dataclasses.replace(self.pods[key], **fields)
        self.set_pod(pod)
        return pod

    def bind(self, key: str, node_name: str) -> None:
        self.change_pod(key, node_name=node_name)

    def end(self, key: str, phase: str = "Succeeded", reason: str = "") -> None:
        self.change_pod(key, phase=phase, reason=reason)

    def delete_pod(self, key: str) -> None:
        last = self.pods.pop(key)
        self._assumed.pop(key, None)
        if key in self.state.pods:
            self.state.apply(PodRemoved(key))
        for listener in self._listeners:
            listener.pod_gone(last)


@dataclass
class BareTasks:
    """Every pod is a workflow of its own; its expected duration is in `seconds`."""

    seconds: Mapping[str, float] = field(default_factory=dict[str, float])
    running: dict[str, RunningTask] = field(default_factory=dict[str, RunningTask])
    poison: str = ""
    _known: dict[str, PendingTask] = field(default_factory=dict[str, PendingTask])

    def task_of(self, pod: LivePod, ready_s: float) -> PendingTask:
        if pod.key == self.poison:
            raise ZeroDivisionError("what is this")
        known = self._known.get(pod.uid)
        if known is not None and known.task.shape is pod.shape:
            return known
        duration_s = self.seconds.get(pod.name, 1.0)
        task = Task(pod.name, pod.shape, WorkProfile((Phase(duration_s),)), duration_s)
        progress = WorkflowProgress(pod.key, Workflow(pod.key, (task,)), 0.0)
        progress.start()
        known = self._known[pod.uid] = PendingTask(pod.key, progress, 0, ready_s)
        return known


Answer = Callable[[LivePod, Placed], ActOutcome]


@dataclass
class TableActuator:
    """Answers as told, at once or when it is let; by default the binding succeeds, and the watch shows it."""

    feed: TableFeed
    answers: dict[str, list[ActOutcome]] = field(default_factory=dict[str, list[ActOutcome]])
    acts: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    is_shown: bool = True
    reserves: bool = True
    binds: bool = True
    backlog: int = 0
    gate: asyncio.Event | None = None
    breaks: str = ""

    def seen(self, pod: LivePod) -> LivePod:
        return pod

    async def act(self, pod: LivePod, placed: Placed) -> ActOutcome:
        self.acts.append((pod.name, placed.node_name))
        if self.gate is not None:
            await self.gate.wait()
        if pod.name == self.breaks:
            raise ZeroDivisionError("a defect")
        answers = self.answers.get(pod.name)
        if answers:
            return answers.pop(0)
        if not self.reserves:
            return Released("shadow")
        if self.is_shown:
            self.feed.bind(pod.key, placed.node_name)
        return Bound(placed.node_name)


@dataclass
class Bench:
    """A scheduler with hand-made parts."""

    feed: TableFeed = field(default_factory=TableFeed)
    tasks: BareTasks = field(default_factory=BareTasks)
    policy: str = "fifo"
    settings: SchedulerSettings = field(default_factory=SchedulerSettings)
    is_leader: bool = True
    more: dict[str, Any] = field(default_factory=dict[str, Any])

    def __post_init__(self) -> None:
        self.actuator = TableActuator(self.feed)
        self.metrics = SchedulerMetrics()
        self.engine = Engine(
            self.feed.state,
            make_policy(self.policy),
            rng=np.random.default_rng(1),
            fallback=make_policy("fifo"),
            explains=True,
        )

    def make(self) -> Scheduler:
        """Make the scheduler, in the running event loop."""
        parts: dict[str, Any] = {"actuator": self.actuator, "tasks": self.tasks, "engine": self.engine}
        self.scheduler = Scheduler(
            feed=self.feed,
            selects=lambda pod: pod.shape.scheduler_name == "stowplan",
            metrics=self.metrics,
            settings=self.settings,
            is_leader=lambda: self.is_leader,
            **{**parts, **self.more},
        )
        return self.scheduler

    def count(self, place: str) -> int:
        return self.scheduler.status.queues[place]

    def value(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(f"stowplan_{name}", labels) or 0.0


async def until(holds: Callable[[], object], within_s: float = 20.0) -> None:
    """Let the event loop go on until something holds."""
    async with asyncio.timeout(within_s):
        while not holds():  # noqa: ASYNC110 - a test asks what it likes, of parts that tell nobody
            await asyncio.sleep(0.001)


@asynccontextmanager
async def running(bench: Bench) -> AsyncGenerator[Scheduler]:
    """Make the scheduler and run it for the duration of a block."""
    scheduler = bench.make()
    task = asyncio.create_task(scheduler.run())
    try:
        yield scheduler
    finally:
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            task.result()
