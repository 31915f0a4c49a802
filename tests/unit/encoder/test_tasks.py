"""Rows of tasks, worked by hand: a diamond with a tail."""

import math

import numpy as np
import pytest

from stowplan.core.domain import (
    CPU,
    MEMORY,
    ClusterState,
    Gang,
    GpuRequest,
    Hardware,
    Node,
    NodeSet,
    PendingTask,
    Phase,
    PodShape,
    Resources,
    Task,
    Training,
    Workflow,
    WorkflowProgress,
    WorkProfile,
)
from stowplan.core.encoder import SCHEMA, Encoded, Encoder
from stowplan.core.policy import CycleView

GIB = 1 << 30
SHAPE = PodShape(requests=Resources({CPU: 2000, MEMORY: GIB}))


def task(name: str, expected_s: float, **more: object) -> Task:
    profile = WorkProfile((Phase(expected_s),), machine_factors=(("fast", 0.5), ("slow", 2.0)))
    given = {"shape": SHAPE, "work": profile, "template": name, **more}
    return Task(name=name, expected_s=expected_s, **given)  # pyright: ignore[reportArgumentType]


DIAMOND = Workflow(
    "diamond",
    (task("top", 10.0), task("left", 20.0), task("right", 5.0), task("join", 30.0), task("alone", 7.0)),
    (("top", "left"), ("top", "right"), ("left", "join"), ("right", "join")),
)


def state_of(*types: str) -> ClusterState:
    state = ClusterState()
    for number, kind in enumerate(types):
        allocatable = Resources({CPU: 4000, MEMORY: 16 * GIB, "pods": 10})
        state.apply(NodeSet(Node(f"n{number}", allocatable, hardware=Hardware(machine_type=kind))))
    return state


def encode(*pending: PendingTask, now_s: float = 100.0, state: ClusterState | None = None) -> Encoded:
    state = state_of("fast", "slow", "slow") if state is None else state
    return Encoder().encode(CycleView(state, now_s, pending, np.random.default_rng(0)))


def row(encoded: Encoded, group: int) -> dict[str, float]:
    names = [column.name for column in SCHEMA.task.columns]
    return dict(zip(names, encoded.raw_task[group].tolist(), strict=True))


def test_the_middle_of_a_diamond() -> None:
    progress = WorkflowProgress("w", DIAMOND, submitted_s=40.0)
    assert progress.start() == [0, 4]
    progress.running(0)
    assert progress.done(0) == [1, 2]
    progress.running(4)
    left, right = (PendingTask(f"p{index}", progress, index, 90.0 - index) for index in (1, 2))
    encoded = encode(right, left)
    assert encoded.members == [[1], [0]]  # the longer way first
    assert encoded.group_of.tolist() == [1, 0]
    expected = np.array([[2.0, 1.0, 1.0, 50.0 / 60.0], [3.0, 1.0, 1.0, 35.0 / 60.0]], np.float32)
    assert np.array_equal(encoded.position, expected)
    assert encoded.order_prior == pytest.approx([-math.log(62.0)] * 2)
    first, second = row(encoded, 0), row(encoded, 1)
    assert first["workflow_age_s"] == 60.0
    assert first["workflow_open_tasks"] == 4
    assert first["workflow_open_share"] == 0.8
    assert first["workflow_pending_tasks"] == 2
    assert first["workflow_running_tasks"] == 1
    assert first["workflow_remaining_s"] == 62.0
    assert first["workflow_remaining_share"] == pytest.approx(62.0 / 72.0)
    assert (first["critical_path_s"], first["upward_rank_s"], first["slack_s"]) == (50.0, 50.0, 0.0)
    assert (second["critical_path_s"], second["upward_rank_s"], second["slack_s"]) == (50.0, 35.0, 15.0)
    assert (first["waiting_s"], second["waiting_s"]) == (11.0, 12.0)
    assert (first["order_share"], first["depth"], first["parents"], first["children"]) == (0.5, 1, 1, 1)
    assert (first["freed_children"], first["is_leaf"]) == (0, 0.0)  # the other one holds it back too
    progress.running(2)
    progress.done(2)
    assert row(encode(left), 0)["freed_children"] == 1


def test_what_a_task_asks_for_and_needs() -> None:
    work = WorkProfile(
        (Phase(10.0, cpu_cores=3.0, dram_bytes_per_s=2e9, latency_share=0.4), Phase(30.0, cpu_cores=1.0)),
        anon_bytes=2.0 * GIB,
    )
    shape = PodShape(requests=Resources({CPU: 1500, "nvidia.com/gpu": 1}), gpu=GpuRequest(1, 500))
    only = Workflow("w", (task("t", 40.0, work=work, shape=shape, input_bytes=5e9),))
    progress = WorkflowProgress("w", only, 0.0)
    found = row(encode(PendingTask("p", progress, progress.start()[0], 0.0)), 0)
    assert found["demand_cpu_cores"] == pytest.approx(1.5)
    assert found["demand_dram_bytes_per_s"] == pytest.approx(5e8)
    assert found["exposed_latency_share"] == pytest.approx(0.1)
    assert math.isnan(found["demand_disk_bytes_per_s"])  # the profile says nothing of disks
    mute = WorkProfile((Phase(40.0, cpu_cores=1.0),))
    silent = WorkflowProgress("v", Workflow("v", (task("t", 40.0, work=mute),)), 0.0)
    known = row(encode(PendingTask("q", silent, silent.start()[0], 0.0)), 0)
    assert known["demand_cpu_cores"] == 1.0
    assert math.isnan(known["demand_dram_bytes_per_s"])
    assert math.isnan(known["exposed_latency_share"])
    assert (found["request_cpu_cores"], found["request_memory_bytes"]) == (1.5, 0.0)
    assert found["request_gpus"] == 1.5
    assert (found["anon_bytes"], found["input_bytes"]) == (2.0 * GIB, 5e9)
    assert math.isnan(found["cache_bytes"])
    assert math.isnan(found["output_bytes"])
    assert (found["is_leaf"], found["children"], found["order_share"]) == (1.0, 0, 0.0)


def test_the_worker_of_a_training_job() -> None:
    job = Training(steps=100.0, compute_s=0.5, gradient_bytes=4e9)
    work = WorkProfile((Phase(50.0),), training=job)
    workers = tuple(task(f"w{i}", 50.0, work=work, template="w", gang=Gang("g", 2)) for i in range(2))
    others = tuple(task(f"v{i}", 50.0, work=work, template="w", gang=Gang("h", 2)) for i in range(2))
    progress = WorkflowProgress("w", Workflow("w", workers + others), 0.0)
    encoded = encode(*(PendingTask(f"p{i}", progress, i, 0.0) for i in progress.start()))
    assert encoded.members == [[0, 1], [2, 3]]  # a group of its own for each gang
    assert (row(encoded, 0)["gang_tasks"], row(encoded, 0)["reduced_bytes_per_s"]) == (2, 8e9)
    alone = WorkflowProgress("v", DIAMOND, 0.0)
    found = row(encode(PendingTask("p", alone, alone.start()[0], 0.0)), 0)
    assert found["gang_tasks"] == 1
    assert math.isnan(found["reduced_bytes_per_s"])


def test_factors_are_those_of_the_machines_there_are() -> None:
    progress = WorkflowProgress("w", DIAMOND, 0.0)
    pending = PendingTask("p", progress, progress.start()[0], 0.0)
    encoded = encode(pending)
    assert encoded.log_factor() == pytest.approx(np.log([[0.5, 2.0, 2.0]]))
    assert row(encoded, 0)["best_factor"] == pytest.approx(0.5)
    assert row(encoded, 0)["mean_factor"] == pytest.approx(2.0 ** (1 / 3))
    encoded = encode(pending, state=state_of("slow", "other"))
    assert encoded.log_factor() == pytest.approx(np.log([[2.0, 1.0]]))
    assert row(encoded, 0)["best_factor"] == 1.0


def test_tasks_that_are_alike_are_one_group() -> None:
    same = WorkProfile((Phase(5.0),))
    tasks = [task(f"f{i}", 5.0, work=same, template="fan") for i in range(1000)]
    tasks += [task("other-template", 5.0, work=same), task("other-work", 5.0, template="fan")]
    tasks += [task("other-duration", 6.0, work=same, template="fan")]
    tasks += [task("other-files", 5.0, work=same, template="fan", input_bytes=1e9)]
    tasks += [task("other-shape", 5.0, work=same, template="fan", shape=PodShape())]
    progress = WorkflowProgress("w", Workflow("w", tuple(tasks)), 0.0)
    pending = [PendingTask(f"p{i}", progress, i, float(i)) for i in progress.start()]
    encoded = encode(*pending, now_s=2000.0)
    assert sorted(map(len, encoded.members)) == [1, 1, 1, 1, 1, 1000]
    fan = int(encoded.group_of[0])
    assert encoded.members[fan] == list(range(1000))
    assert row(encoded, fan)["group_tasks"] == 1000
    assert row(encoded, fan)["waiting_s"] == 2000.0
    other = WorkflowProgress("v", Workflow("v", tuple(tasks[:1])), 0.0)
    assert len(encode(pending[0], PendingTask("q", other, 0, 0.0)).members) == 2


def test_another_first_of_a_group_stands_elsewhere() -> None:
    same = WorkProfile((Phase(5.0),))
    tasks = tuple(task(f"f{i}", 5.0, work=same, template="fan") for i in range(3))
    progress = WorkflowProgress("w", Workflow("w", tasks), 0.0)
    pending = [PendingTask(f"p{i}", progress, i, 0.0) for i in progress.start()]
    encoder, state, rng = Encoder(), state_of("fast"), np.random.default_rng(0)
    assert encoder.encode(CycleView(state, 1.0, pending, rng)).position[0, 0] == 0.0
    assert encoder.encode(CycleView(state, 1.0, pending[1:], rng)).position[0, 0] == 1.0


def test_other_expectations_are_taken_up() -> None:
    progress = WorkflowProgress("w", DIAMOND, 0.0)
    pending = PendingTask("p", progress, progress.start()[0], 0.0)
    encoder, state, rng = Encoder(), state_of("fast"), np.random.default_rng(0)
    encoder.encode(CycleView(state, 1.0, [pending], rng))
    doubled = tuple(task(one.name, one.expected_s * 2) for one in DIAMOND.tasks)
    progress.workflow = Workflow("diamond", doubled, DIAMOND.edges)
    progress.upward_rank_s = progress.workflow.upward_ranks()
    progress.remaining_work_s *= 2
    found = row(encoder.encode(CycleView(state, 1.0, [pending], rng)), 0)
    assert (found["expected_s"], found["upward_rank_s"], found["workflow_remaining_s"]) == (
        20.0,
        120.0,
        144.0,
    )
