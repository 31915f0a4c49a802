"""What records of decisions cost: time of the scheduler's thread beside its cycles, work elsewhere, bytes.

1,000 nodes with 5,000 running pods of workflows of ten tasks; every cycle finds one, 16 or 256 new pods and
as many old ones end, so that each record has to say both. Shares are of the thread's own processor time, so
that a busy machine does not distort them. The policy is `srpt`, with explanations, as live decisions have
them. A cycle here is the engine's alone: what the scheduler does around it, for each pod, comes on top.
"""

import statistics
from collections import deque
from time import process_time, thread_time

import numpy as np

from bench.harness import Row, median_ci95
from stowplan import __version__
from stowplan.core.domain import (
    BoundPod,
    ClusterState,
    Hardware,
    Node,
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
from stowplan.core.record import Setup
from stowplan.kube.api.status import SchedulingStatus
from stowplan.kube.live.pod import LivePod, MainContainer
from stowplan.observe.history import DecisionMode, Record, Snapshot
from stowplan.serve.record import DecisionRecorder

GIB = 1 << 30
TASKS = 10
SIZES = (1, 16, 256)


class Scale:
    """Stands in for the history and weighs the records."""

    def __init__(self) -> None:
        """Begin empty."""
        self.record_bytes = 0

    def put(self, record: Record) -> bool:
        """Take a record."""
        if isinstance(record, Snapshot):
            self.record_bytes += len(record.content)
        return True


class Cluster:
    """A busy cluster, and its scheduler with a recorder."""

    def __init__(self, nodes: int, pods: int, policy: str) -> None:
        """Fill it."""
        self.rng = np.random.default_rng(1)
        self.state = ClusterState()
        for number in range(nodes):
            labels = (
                ("kubernetes.io/hostname", f"n{number}"),
                ("topology.kubernetes.io/zone", f"z{number % 3}"),
            )
            allocatable = Resources({"cpu": 32_000, "memory": 128 * GIB, "pods": 110})
            self.state.apply(NodeSet(Node(f"n{number}", allocatable, labels, hardware=Hardware(cores=32.0))))
        self.shapes = [
            PodShape(
                namespace="lab",
                labels=(("step", f"s{number}"),),
                requests=Resources({"cpu": 500 + 100 * number, "memory": GIB}),
                template=f"s{number}",
            )
            for number in range(20)
        ]
        self.count = 0
        self.running: dict[str, RunningTask] = {}
        self.pods: dict[str, LivePod] = {}
        self.waiting: deque[PendingTask] = deque()
        for number in range(pods):
            task = self.next_task()
            row = number % nodes
            self.state.apply(PodBound(BoundPod(task.key, task.task.shape), f"n{row}"))
            self.start(task, row, 0.0)
        self.engine = Engine(self.state, make_policy(policy), rng=np.random.default_rng(2), explains=True)
        self.scale = Scale()
        self.recorder = DecisionRecorder(
            engine=self.engine,
            setup=Setup(version=__version__, policy=policy),
            writer=self.scale,
            mode=DecisionMode.LIVE,
            wall=lambda: 1.7e9,
        )
        self.recorder.start()
        self.now_s = 0.0

    def next_task(self) -> PendingTask:
        """Return the next task of a stream of workflows whose tasks are all ready."""
        if not self.waiting:
            name = f"lab/w{self.count}"
            tasks = tuple(
                Task(f"t{i}", self.shapes[(self.count + i) % 20], WorkProfile((Phase(60.0),)), 60.0)
                for i in range(TASKS)
            )
            progress = WorkflowProgress(name, Workflow(name, tasks), 0.0)
            self.waiting.extend(
                PendingTask(f"{name}-{index}", progress, index, float(self.count))
                for index in progress.start()
            )
            self.count += 1
        task = self.waiting.popleft()
        name = task.key.partition("/")[2]
        self.pods[task.key] = LivePod(
            key=task.key, namespace="lab", name=name, uid=f"0d6e2f4a-{task.key}", shape=task.task.shape,
            phase="Pending", node_name="", is_terminating=False, created_s=0.0, started_s=None,
            status=SchedulingStatus(), reason="", message="", can_preempt=True, owner=None, identity=None,
            main=MainContainer("image", (), 500, GIB),
        )  # fmt: skip
        return task

    def start(self, task: PendingTask, row: int, now_s: float) -> None:
        """Note that a task runs."""
        task.progress.running(task.index)
        self.running[task.key] = RunningTask(task, row, now_s, now_s + 60.0)

    def cycle(self, size: int) -> tuple[float, float, int]:
        """Run a cycle; return the seconds of it and of its recording, and how many pods it placed."""
        self.now_s += 1.0
        pending = [self.next_task() for _ in range(size)]
        start_s = thread_time()
        begun = self.recorder.begin(self.now_s, pending, self.running)
        begun_s = thread_time()
        report = self.engine.cycle(self.now_s, pending, self.running)
        decided_s = thread_time()
        self.recorder.end(begun, report, self.pods)
        ended_s = thread_time()
        for task, placed in report.placed:
            self.start(task, placed.row, self.now_s)
        for key in list(self.running)[: len(report.placed)]:
            self.state.apply(PodRemoved(key))
            task = self.running.pop(key).pending
            task.progress.done(task.index)
            del self.pods[key]
        return decided_s - begun_s, ended_s - decided_s + begun_s - start_s, len(report.placed)


def run(*, quick: bool) -> list[Row]:
    """Measure; `quick` takes a small cluster and few cycles."""
    nodes, pods = (50, 250) if quick else (1000, 5000)
    rows: list[Row] = []
    for size in SIZES:
        cluster = Cluster(nodes, pods, "srpt")
        cycles = 20 if quick else {1: 300, 16: 100, 256: 16}[size]
        cluster.cycle(size)
        if not cluster.recorder.flush(60.0):
            raise RuntimeError("the recorder does not keep up")
        state = cluster.recorder.state
        first_bytes, placed, cycle_s, beside_s = state.record_bytes, 0, list[float](), list[float]()
        all_s, own_s = process_time(), thread_time()
        for _ in range(cycles):
            one_s, recording_s, count = cluster.cycle(size)
            cycle_s.append(one_s)
            beside_s.append(recording_s)
            placed += count
            cluster.recorder.flush(60.0)
        elsewhere_s = (process_time() - all_s) - (thread_time() - own_s)
        state = cluster.recorder.stop(60.0)
        if state.without_record or placed != size * cycles:
            raise RuntimeError(f"not everything was recorded: {state}, {placed} placed")
        shares = [100.0 * recording / one for one, recording in zip(cycle_s, beside_s, strict=True)]
        name = f"decision-records/{size}"
        rows += [
            Row.of(
                median_ci95(shares),
                name=f"{name}-share",
                what=f"recording beside a cycle of {size}, of its time",
                unit="%",
            ),
            Row.exact(
                100.0 * sum(beside_s) / sum(cycle_s),
                name=f"{name}-share-of-all",
                what="the same over all cycles, whole clusters included",
                unit="%",
            ),
            Row.of(
                median_ci95([1e6 * s for s in beside_s]),
                name=f"{name}-time",
                what="recording beside the cycle",
                unit="µs",
            ),
            Row.exact(
                1e6 * elsewhere_s / placed,
                name=f"{name}-elsewhere",
                what="work of the recorder's thread, for each decision",
                unit="µs",
            ),
            Row.exact(
                (state.record_bytes - first_bytes) / placed,
                name=f"{name}-bytes",
                what="records, for each decision, whole clusters included",
                unit="bytes",
            ),
        ]
        if size == SIZES[0]:
            rows.append(
                Row.exact(
                    first_bytes,
                    name="decision-records/first",
                    what="a record of the whole cluster",
                    unit="bytes",
                )
            )
        if statistics.median(cycle_s) <= 0.0:
            raise RuntimeError("the clock is too coarse for these cycles")
    return rows
