"""A scheduler in small with a recorder over a real history, for tests of what is kept and told."""

from dataclasses import replace

import numpy as np

from stowplan import __version__
from stowplan.core.domain import (
    ClusterState,
    Node,
    NodeSet,
    PendingTask,
    Phase,
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
from stowplan.core.record import Setup
from stowplan.kube.api.status import SchedulingStatus
from stowplan.kube.live.pod import LivePod, MainContainer
from stowplan.observe.history import DecisionMode, HistoryStore, Record
from stowplan.serve.record import DecisionRecorder


def live_pod(key: str, shape: PodShape, **facts: object) -> LivePod:
    namespace, _, name = key.partition("/")
    pod = LivePod(
        key=key, namespace=namespace, name=name, uid=f"uid-{name}", shape=shape, phase="Pending",
        node_name="", is_terminating=False, created_s=1.0, started_s=None, status=SchedulingStatus(),
        reason="", message="",
        can_preempt=True, owner=None, identity=None, main=MainContainer("image", (), 100, 0),
    )  # fmt: skip
    return replace(pod, **facts)


class Keeper:
    """Writes to the store at once; `is_full` refuses records."""

    def __init__(self, store: HistoryStore) -> None:
        self.store = store
        self.is_full = False

    def put(self, record: Record) -> bool:
        if self.is_full and hasattr(record, "content"):
            return False
        self.store.write([record], 0.0)
        return True


class Small:
    """Two nodes, a recorder, and workflows of one task each."""

    def __init__(self, store: HistoryStore, policy: str = "srpt", **facts: object) -> None:
        self.state = ClusterState()
        for name, cpu in (("a", 4000), ("b", 2000)):
            self.state.apply(NodeSet(Node(name, Resources({"cpu": cpu, "memory": 1 << 33, "pods": 10}))))
        self.engine = Engine(self.state, make_policy(policy), rng=np.random.default_rng(5), explains=True)
        self.keeper = Keeper(store)
        self.wall_s = 1000.0
        self.recorder = DecisionRecorder(
            engine=self.engine,
            setup=Setup(version=__version__, policy=policy),
            writer=self.keeper,
            mode=DecisionMode.LIVE,
            wall=lambda: self.wall_s,
            **facts,  # pyright: ignore[reportArgumentType]
        )
        self.recorder.start()
        self.running: dict[str, RunningTask] = {}
        self.pods: dict[str, LivePod] = {}

    def task(self, name: str, cpu_milli: int = 1000) -> PendingTask:
        shape = PodShape(requests=Resources({"cpu": cpu_milli}))
        workflow = Workflow(name, (Task("only", shape, WorkProfile((Phase(5.0),)), 5.0),))
        progress = WorkflowProgress(f"lab/{name}", workflow, 0.0)
        progress.start()
        self.pods[f"lab/{name}"] = live_pod(f"lab/{name}", shape)
        return PendingTask(f"lab/{name}", progress, 0, 0.0)

    def cycle(self, now_s: float, *pending: PendingTask) -> None:
        self.wall_s = 1000.0 + now_s
        begun = self.recorder.begin(now_s, pending, self.running)
        report = self.engine.cycle(now_s, pending, self.running)
        self.recorder.end(begun, report, self.pods)
        for task, placed in report.placed:
            task.progress.running(0)
            self.running[task.key] = RunningTask(task, placed.row, now_s, now_s + 5.0)
        assert self.recorder.flush(30.0)

    def close(self) -> None:
        self.recorder.stop(30.0)


def ids_of(store: HistoryStore, name: str) -> list[str]:
    return [decision.decision_id for decision in reversed(store.decisions_of_pod("lab", name))]
