"""srpt-measured: what readings add to physics, on instances small enough to work out on paper."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest

from stowplan.core.constraints import CompiledFilters
from stowplan.core.domain import (
    BoundPod,
    ClusterState,
    Disk,
    Hardware,
    Node,
    NodeSet,
    PendingTask,
    Phase,
    PodBound,
    PodShape,
    Resources,
    RunningTask,
    Task,
    Workflow,
    WorkflowProgress,
    WorkProfile,
)
from stowplan.core.policy import CycleView, make_policy
from stowplan.core.policy.interface import Policy, Replayable, reads_nodes
from stowplan.core.semantics import NodeReadings, Source, measured

SHAPE = PodShape(requests=Resources({"cpu": 1000}), score_cpu_milli=1000)
STREAM = WorkProfile((Phase(10.0, cpu_cores=1.0, dram_bytes_per_s=8e9),))
READER = WorkProfile(
    (
        Phase(
            10.0,
            cpu_cores=0.1,
            disk_read_bytes_per_s=70e6,
            disk_queue_bytes=1048576.0,
            disk_request_bytes=131072.0,
        ),
    )
)
ACHIEVABLE = 0.85
"""Of the theoretical bandwidth, by the law: 10 GB/s achieved are 10 / 0.85 in theory."""


def waiting(work: WorkProfile, name: str = "w") -> list[PendingTask]:
    progress = WorkflowProgress(name, Workflow(name, (Task("t", SHAPE, work, 10.0),)), 0.0)
    return [PendingTask(f"{name}/t", progress, index, 0.0) for index in progress.start()]


@dataclass
class Bench:
    """Two equal nodes and what is measured of them."""

    policy: Policy = field(default_factory=lambda: make_policy("srpt-measured"))
    running: dict[str, RunningTask] = field(default_factory=dict[str, RunningTask])

    def __post_init__(self) -> None:
        self.state = ClusterState()
        for name in ("a", "b"):
            hardware = Hardware(cores=8.0, dram_bytes_per_s=10e9, disks=(Disk(140e6, 3000.0),))
            self.state.apply(NodeSet(Node(name, Resources({"cpu": 8000, "pods": 10}), hardware=hardware)))
        self.readings = NodeReadings(self.state.capacity)
        self.now_s = 0.0

    def read(self, row: int = 1, *, seconds: float = 5.0, **values: float) -> None:
        """Time goes on, and a node is measured."""
        self.now_s += seconds
        self.readings.advance(self.now_s)
        named = {
            "memory_bandwidth_utilisation": 0.0,
            "storage_utilisation": 0.0,
            "storage_bytes_per_s": 0.0,
            **values,
        }
        self.readings.put(
            row,
            {
                name: measured(name, number, source=Source.SIMULATED, measured_s=self.now_s)
                for name, number in named.items()
            },
        )
        self.durations_s(STREAM)  # a cycle, in which the policy sees it

    def traffic(self, gb_per_s: float) -> None:
        self.read(memory_bandwidth_utilisation=gb_per_s / 10.0 * ACHIEVABLE)

    def run_on(self, row: int, work: WorkProfile) -> None:
        (task,) = waiting(work, f"on-{row}")
        self.state.apply(PodBound(BoundPod(task.key, SHAPE), self.state.node(row).name))
        self.running[task.key] = RunningTask(task, row, self.now_s, self.now_s + 1000.0)

    def durations_s(self, work: WorkProfile, policy: Policy | None = None, **more: bool) -> list[float]:
        """Predicted seconds of a new task on both nodes."""
        readings = self.readings if more.get("measures", True) else None
        rng = np.random.default_rng(0)
        view = CycleView(self.state, self.now_s, waiting(work), rng, self.running, readings=readings)
        plan = (policy or self.policy).plan(view)
        plan.scores(0, CompiledFilters(self.state, SHAPE))
        return [plan.expected_duration_s(0, row) for row in (0, 1)]


def test_it_says_that_it_reads() -> None:
    assert reads_nodes(make_policy("srpt-measured"))
    assert reads_nodes(make_policy("look-ahead", policy="srpt-measured"))
    assert not reads_nodes(make_policy("srpt-physics"))
    assert not reads_nodes(make_policy("look-ahead"))


def test_traffic_that_nobody_placed_is_a_neighbour() -> None:
    bench = Bench()
    for _ in range(5):
        bench.traffic(8.0)
        assert bench.durations_s(STREAM) == pytest.approx([10.0, 10.0], rel=1e-3)  # may be of what has ended
    bench.traffic(8.0)
    # Hidden 8 GB/s weigh as 8 / 3 cores, the new one as 1: of 10 GB/s it gets 10 / (8 / 3 + 1) = 2.727.
    assert bench.durations_s(STREAM) == pytest.approx(
        [10.0, 8.0 / (10.0 / (8.0 / 3.0 + 1.0)) * 10.0], rel=1e-3
    )
    bench.traffic(0.0)
    assert bench.durations_s(STREAM) == pytest.approx([10.0, 10.0], rel=1e-3)


def test_traffic_that_a_placed_task_explains_is_not_hidden() -> None:
    bench, physics = Bench(), make_policy("srpt-physics")
    bench.run_on(1, STREAM)
    bench.now_s += 100.0
    for _ in range(20):
        bench.traffic(8.0)
    by_physics = bench.durations_s(STREAM, physics)
    assert by_physics == pytest.approx([10.0, 16.0], rel=1e-3)  # two of 8 GB/s share 10
    assert bench.durations_s(STREAM) == pytest.approx(by_physics)


def test_what_tasks_used_that_ended_since_is_not_hidden() -> None:
    bench = Bench()
    for number in range(12):  # a short one in every interval but one in five
        bench.traffic(8.0 if number % 5 else 0.0)
        assert bench.durations_s(STREAM) == pytest.approx([10.0, 10.0], rel=1e-3)


def test_a_task_explains_what_its_present_phase_asks_for() -> None:
    halves = WorkProfile((Phase(10.0, cpu_cores=1.0), Phase(10.0, cpu_cores=1.0, dram_bytes_per_s=8e9)))
    early, late = Bench(), Bench()
    for bench, passed_s in ((early, 100.0), (late, 600.0)):  # of 1000 that it is expected to take
        bench.run_on(1, halves)
        bench.now_s += passed_s
        for _ in range(12):
            bench.traffic(8.0)
    assert early.durations_s(STREAM)[1] > late.durations_s(STREAM)[1] + 5.0


def test_a_disk_that_serves_less_is_a_slower_disk_until_it_is_forgotten() -> None:
    bench = Bench()
    assert bench.durations_s(READER) == pytest.approx([10.0, 10.0], rel=1e-3)
    bench.read(storage_utilisation=1.0, storage_bytes_per_s=7e6)
    # 7 of 140 MB/s: what reads 70 MB/s takes ten times as long.
    assert bench.durations_s(READER) == pytest.approx([10.0, 100.0], rel=1e-3)
    bench.read(storage_utilisation=0.1, storage_bytes_per_s=3.5e6)  # a quarter, by the share that it is busy
    assert bench.durations_s(READER) == pytest.approx([10.0, 20.0], rel=1e-3)
    bench.read()
    bench.read()  # (250 + 1000) / 2 = 625, then 812
    assert bench.durations_s(READER) == pytest.approx([10.0, 10.0], rel=1e-3)


def test_disk_traffic_that_nobody_placed_is_a_neighbour() -> None:
    bench = Bench()
    for _ in range(6):
        bench.read(storage_utilisation=0.75, storage_bytes_per_s=105e6)
    # 105 hidden beside 70 wanted: both keep as much outstanding, so that 140 MB/s are shared 70 to 70.
    assert bench.durations_s(READER) == pytest.approx([10.0, 10.0], rel=1e-2)
    twice = WorkProfile(tuple(_faster(phase) for phase in READER.phases))
    assert bench.durations_s(twice) == pytest.approx([10.0, 20.0], rel=1e-2)


def _faster(phase: Phase) -> Phase:
    return Phase(
        phase.work_s, cpu_cores=0.1, disk_read_bytes_per_s=140e6, disk_queue_bytes=1048576.0,
        disk_request_bytes=131072.0,
    )  # fmt: skip


def test_without_readings_it_is_physics_and_nothing_is_kept() -> None:
    bench, physics = Bench(), make_policy("srpt-physics")
    for _ in range(6):
        bench.traffic(8.0)
    assert bench.durations_s(STREAM)[1] > 20.0
    assert bench.durations_s(STREAM, measures=False) == bench.durations_s(STREAM, physics)
    assert bench.durations_s(STREAM) == pytest.approx([10.0, 10.0], rel=1e-3)  # it begins anew


def test_what_is_too_old_is_forgotten() -> None:
    bench = Bench()
    for _ in range(6):
        bench.traffic(8.0)
    assert bench.durations_s(STREAM)[1] > 20.0
    bench.now_s += 16.0
    bench.readings.advance(bench.now_s)
    assert bench.durations_s(STREAM) == pytest.approx([10.0, 10.0], rel=1e-3)


@pytest.mark.parametrize("name", ["srpt-measured", "look-ahead"])
def test_from_what_it_remembers_another_decides_the_same(name: str) -> None:
    options: Mapping[str, object] = {"policy": "srpt-measured"} if name == "look-ahead" else {}
    bench = Bench(make_policy(name, **options))
    for number in range(7):
        bench.traffic(8.0 - 0.1 * number)
    bench.read(memory_bandwidth_utilisation=0.5, storage_utilisation=0.9, storage_bytes_per_s=9e6)
    other = make_policy(name, **options)
    assert isinstance(bench.policy, Replayable)
    assert isinstance(other, Replayable)
    remembered = bench.policy.memory
    assert remembered is not None
    other.recall(remembered)
    assert other.memory == remembered
    assert isinstance(other, type(bench.policy))
    for work in (STREAM, READER):
        here = bench.durations_s(work)
        assert bench.durations_s(work, other) == here
        assert here[1] > here[0] + 1.0
