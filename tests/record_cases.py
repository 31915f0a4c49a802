"""A scheduler in small for tests of records: random clusters, workflows, cycles, and what happens between."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from stowplan.core.constraints import RuleTable
from stowplan.core.domain import (
    AccessMode,
    BindingMode,
    BoundPod,
    ClusterEvent,
    ClusterState,
    Disk,
    Gang,
    Gpu,
    GpuRequest,
    Hardware,
    LabelSelector,
    NamespaceSet,
    Node,
    NodeAffinity,
    NodeRemoved,
    NodeSelectorTerm,
    NodeSet,
    NominationRemoved,
    Operator,
    PendingTask,
    PersistentVolume,
    PersistentVolumeClaim,
    Phase,
    PodAffinityTerm,
    PodBound,
    PodNominated,
    PodRemoved,
    PodShape,
    PodVolume,
    Requirement,
    Resources,
    RunningTask,
    SpreadConstraint,
    StorageClass,
    StorageSet,
    Taint,
    TaintEffect,
    Task,
    Toleration,
    WhenUnsatisfiable,
    Workflow,
    WorkflowProgress,
    WorkProfile,
)
from stowplan.core.engine import CycleReport, Engine
from stowplan.core.lookahead import LookAhead
from stowplan.core.policy import Policy, make_policy
from stowplan.core.policy.interface import Replayable
from stowplan.core.record import (
    CycleCapture,
    FrameWriter,
    ReadingsFollower,
    Setup,
    capture_progress,
    capture_state,
    chance_of,
    decided_to_plain,
)
from stowplan.core.semantics import NodeReadings, Source, measured, quantity

T = TypeVar("T")
GIB = 1 << 30
ZONE = "topology.kubernetes.io/zone"
RULES = RuleTable.parse(
    {
        "version": 1,
        "rules": [
            {
                "name": "y-on-large",
                "tasks": {"labels": {"app": "y"}},
                "require": {"allocatable": {"cpu": ">= 4"}},
            }
        ],
    }
)
SELF = LabelSelector.from_labels({"app": "x"})


def some_node(rng: np.random.Generator, name: str) -> Node:
    labels = {"kubernetes.io/hostname": name, ZONE: str(rng.choice(["z1", "z2", "z3"]))}
    if rng.random() < 0.3:
        labels["rack"] = str(rng.choice(["r1", "r2"]))
    amounts = {"cpu": int(rng.integers(1, 6)) * 1000, "memory": 32 * GIB, "pods": 20}
    if rng.random() < 0.2:
        amounts["example.com/thing"] = 3
    return Node(
        name,
        Resources(amounts),
        labels=tuple(sorted(labels.items())),
        taints=(Taint("t", "x", TaintEffect.NO_SCHEDULE),) if rng.random() < 0.2 else (),
        unschedulable=bool(rng.random() < 0.1),
        images=(("app:1", 700 << 20),) if rng.random() < 0.3 else (),
        hardware=Hardware(
            dram_bytes_per_s=float(rng.integers(5, 30)) * 1e9,
            disks=(Disk(1e8, 1000.0),),
            gpus=tuple(Gpu(str(rng.choice(["A", "B"]))) for _ in range(int(rng.choice([0, 0, 2])))),
            machine_type=str(rng.choice(["", "fast", "slow"])),
        ),
    )


def some_shape(rng: np.random.Generator) -> PodShape:
    def at_times(value: T, share: float = 0.2) -> tuple[T, ...]:
        return (value,) if rng.random() < share else ()

    requests = {"cpu": int(rng.integers(0, 5)) * 500, "memory": int(rng.integers(0, 4)) * GIB}
    if rng.random() < 0.1:
        requests["example.com/thing"] = 1
    required = (NodeSelectorTerm((Requirement("rack", Operator.IN, ("r1",)),)),)
    return PodShape(
        labels=(("app", str(rng.choice(["x", "y"]))),),
        requests=Resources(requests),
        gpu=GpuRequest(1, 500) if rng.random() < 0.15 else None,
        node_affinity=NodeAffinity(required=required if rng.random() < 0.1 else None),
        anti_affinity=at_times(PodAffinityTerm("kubernetes.io/hostname", SELF)),
        affinity=at_times(PodAffinityTerm(ZONE, SELF), 0.1),
        tolerations=at_times(Toleration("t", value="x")),
        spread=at_times(SpreadConstraint(1, ZONE, WhenUnsatisfiable.SCHEDULE_ANYWAY, SELF)),
        volumes=at_times(PodVolume("v", claim=str(rng.choice(["c0", "c1", "c2"])))),
        images=at_times("app:1"),
        priority=int(rng.integers(0, 2)),
    )


def some_workflow(rng: np.random.Generator, name: str) -> WorkflowProgress:
    size = int(rng.integers(1, 6))
    tasks = tuple(
        Task(
            f"t{i}",
            some_shape(rng),
            WorkProfile(
                (Phase(float(rng.uniform(1, 20)), cpu_cores=2.0, dram_bytes_per_s=3e9, latency_share=0.2),),
                machine_factors=(("fast", 0.5), ("slow", float(rng.uniform(1, 3)))),
            ),
            float(rng.uniform(1, 20)),
            template=f"p{i % 3}",
        )
        for i in range(size)
    )
    edges = tuple((f"t{i}", f"t{j}") for i in range(size) for j in range(i + 1, size) if rng.random() < 0.3)
    if size % 2 == 0 and ("t0", "t1") not in edges:  # both wait for nothing
        gang = Gang("pair", 2)
        tasks = tuple(replace(task, gang=gang if i < 2 else None) for i, task in enumerate(tasks))
    return WorkflowProgress(name, Workflow(name, tasks, edges), 0.0)


def storage() -> Iterator[ClusterEvent]:
    yield StorageSet(StorageClass("wait", "p.example.com", BindingMode.WAIT_FOR_FIRST_CONSUMER))
    once = (AccessMode.READ_WRITE_ONCE,)
    for number in range(3):
        yield StorageSet(
            PersistentVolumeClaim("default", f"c{number}", once, 5, storage_class="wait", uid=f"u{number}")
        )
        yield StorageSet(PersistentVolume(f"v{number}", 10 - number, once, storage_class="wait"))


@dataclass
class Written:
    """A recorded cycle: its chain up to it, and what was decided."""

    frames: list[bytes]
    report: CycleReport
    capture: CycleCapture
    before: ClusterState
    board: NodeReadings | None = None


@dataclass
class Drive:
    """Drives an engine through random cycles and records every one; a checkpoint every `every` cycles."""

    seed: int
    policy: str
    options: Mapping[str, object] = field(default_factory=dict[str, object])
    every: int = 4
    measures: bool = False
    make: Callable[..., Policy] = make_policy
    state: ClusterState = field(default_factory=ClusterState)

    def __post_init__(self) -> None:
        self.chance = np.random.default_rng(self.seed)  # what happens
        self.rng = np.random.default_rng(self.seed + 1)  # the engine's
        for number in range(4):
            self.state.apply(NodeSet(some_node(self.chance, f"n{number}")))
        for event in storage():
            self.state.apply(event)
        self.made = self.make(self.policy, **self.options)
        self.engine = Engine(
            self.state, self.made, rng=self.rng, rules=RULES, fallback=make_policy("fifo"), explains=True
        )
        setup = Setup(version="1", policy=self.policy, options=self.options, fallback="fifo", rules=RULES)
        self.writer = FrameWriter(setup)
        self.pending: list[PendingTask] = []
        self.running: dict[str, RunningTask] = {}
        self.events: list[ClusterEvent] = []
        self.changed: dict[int, WorkflowProgress] = {}
        self.frames: list[bytes] = []
        self.state.tap = self.events.append
        self.workflows = self.others = 0
        self.measured = np.random.default_rng(self.seed + 2)  # what is measured; moves nothing else
        self.board = NodeReadings(self.state.capacity)
        self.follower = ReadingsFollower()

    def arrive(self) -> None:
        progress = some_workflow(self.chance, f"w{self.workflows}")
        progress.watcher = lambda one: self.changed.update({id(one): one})
        self.workflows += 1
        self.queue(progress, progress.start())

    def queue(self, progress: WorkflowProgress, indexes: list[int]) -> None:
        for i in indexes:
            actual = None
            if self.chance.random() < 0.3:
                task = progress.workflow.tasks[i]
                actual = Task(task.name, some_shape(self.chance), task.work, task.expected_s * 2)
            self.pending.append(PendingTask(f"default/{progress.key}-{i}", progress, i, self.now_s, actual))

    def happen(self) -> None:
        """Let something happen to pods, nodes, namespaces and promises."""
        chance, state = self.chance, self.state
        for key in [key for key in self.running if chance.random() < 0.3]:
            task = self.running.pop(key).pending
            state.apply(PodRemoved(key))
            self.queue(task.progress, task.progress.done(task.index))
        if chance.random() < 0.8:
            self.arrive()
        node = state.node(int(chance.choice([row for _, row in state.rows()]))).name
        if chance.random() < 0.4:
            self.others += 1
            shape = PodShape(namespace="other", requests=Resources({"cpu": int(chance.integers(0, 3)) * 500}))
            state.apply(PodBound(BoundPod(f"other/{self.others}", shape), node))
        if chance.random() < 0.3:
            state.apply(NamespaceSet("default", (("team", str(chance.integers(3))),)))
        if self.pending and chance.random() < 0.3:
            self.expect(self.pending[int(chance.integers(len(self.pending)))].progress)
        self.promise(node)
        self.change(node)

    def expect(self, progress: WorkflowProgress) -> None:
        """Expect other durations of a workflow's tasks, as a live book does when the history says so."""
        old = progress.workflow
        tasks = tuple(replace(task, expected_s=task.expected_s * 1.5) for task in old.tasks)
        progress.workflow = Workflow(old.name, tasks, old.edges, old.family)
        progress.upward_rank_s = progress.workflow.upward_ranks()
        progress.remaining_work_s *= 1.5
        progress.changed()

    def promise(self, node: str) -> None:
        """Promise the node to a pod that waits, or withdraw a promise."""
        chance, state = self.chance, self.state
        waits = [task for task in self.pending if task.key not in state.nominations]
        if waits and chance.random() < 0.3:
            some = waits[int(chance.integers(len(waits)))]
            state.apply(PodNominated(BoundPod(some.key, some.task.shape), node))
        if state.nominations.on and chance.random() < 0.3:
            state.apply(NominationRemoved(next(iter(next(iter(state.nominations.on.values()))))))

    def change(self, node: str) -> None:
        """Change a node, or put another in its place."""
        chance, state = self.chance, self.state
        held = list(state.pods_on[state.row(node)])
        is_ours = any(key in self.running or key.startswith("default/") for key in held)
        changed = some_node(chance, node)
        if chance.random() < 0.3 and not is_ours:
            state.apply(NodeSet(changed))
        if chance.random() < 0.2 and state.node_count > 2 and not is_ours:
            for key in held:
                state.apply(PodRemoved(key))
            state.apply(NodeRemoved(node))
            other = some_node(chance, f"m{chance.integers(100)}")
            if state.row(other.name) < 0:  # one that is there may have GPUs in use
                state.apply(NodeSet(other))

    def measure(self) -> NodeReadings | None:
        """Measure some nodes, some of them badly, now and then none."""
        board, chance = self.board, self.measured
        board.grow(self.state.capacity)
        board.advance(10.0 * self.now_s)  # so that readings grow stale
        for row in range(len(board)):
            if not self.state.is_node[row]:
                board.clear(row)
            elif chance.random() < 0.7:
                values = {
                    name: measured(
                        name,
                        float(chance.random() * min(quantity(name).high, 1e8) * 1.1),
                        source=Source.SIMULATED,
                        measured_s=board.now_s - float(chance.random()),
                    )
                    for name in board.quantities
                    if chance.random() < 0.8
                }
                board.put(row, values)
        return board if chance.random() < 0.9 else None

    def run(self, cycles: int) -> Iterator[Written]:
        """Run cycles, with all that happens between; each is given as it was written."""
        self.now_s = 0.0
        for number in range(cycles):
            self.now_s = number + float(self.chance.random())
            self.happen()
            yield self.cycle(number)

    def cycle(self, number: int) -> Written:
        is_first = number % self.every == 0
        seen = {id(t.progress): t.progress for t in self.pending}
        seen |= {id(r.pending.progress): r.pending.progress for r in self.running.values()}
        if is_first:
            self.changed = dict(seen)
            self.frames = []
            self.follower.start_over()
        board = self.measure() if self.measures else None
        assert isinstance(self.made, Replayable)
        capture = CycleCapture(
            now_s=self.now_s,
            pending=tuple(self.pending),
            running=tuple(self.running.values()),
            progress=[capture_progress(p) for p in self.changed.values()],
            chance=chance_of(self.rng),
            memory=self.made.memory or (),
            events=self.events.copy(),
            state=capture_state(self.state) if is_first else None,
            readings=self.follower.capture(board) if board is not None else None,
        )
        if capture.readings is not None:
            self.follower.kept(capture.readings)
        self.changed.clear()
        self.events.clear()
        closed = [self.state.node(row).name for _, row in list(self.state.rows())[:1] if number % 3 == 2]
        limit = 3 if number % 4 == 3 else None
        before = self.state.copy()
        report = self.engine.cycle(
            self.now_s, self.pending, self.running, limit=limit, closed=closed, readings=board
        )
        examined = self.made.examined.plans if isinstance(self.made, LookAhead) else None
        decided = decided_to_plain(report, capture.pending, examined)
        parent = f"p{len(self.frames)}" if self.frames else None
        self.frames.append(self.writer.write(capture, decided, parent))
        placed = {task.key for task, _ in report.placed}
        self.pending = [task for task in self.pending if task.key not in placed]
        for task, outcome in report.placed:
            task.progress.running(task.index)
            ends_s = self.now_s + outcome.expected_duration_s
            if self.chance.random() < 0.9:  # the book hears of some later
                self.running[task.key] = RunningTask(task, outcome.row, self.now_s, ends_s)
        return Written(list(self.frames), report, capture, before, board)
