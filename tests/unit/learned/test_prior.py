"""What the learned policy starts from: physics and readings, as the rule that goes by them sees them."""

from typing import cast

import numpy as np
import pytest

from stowplan.core.constraints import CompiledFilters
from stowplan.core.domain import (
    BoundPod,
    Disk,
    Hardware,
    Node,
    PendingTask,
    Phase,
    PodBound,
    PodRemoved,
    Resources,
    RunningTask,
    Task,
    Workflow,
    WorkflowProgress,
    WorkProfile,
)
from stowplan.core.policy import CycleView
from stowplan.core.policy.interface import Replayable
from stowplan.core.policy.learned import LearnedPolicy
from stowplan.core.semantics import NodeReadings, Source, measured
from stowplan.learn.rules import FIRST_RULE, make_rule
from tests.learned_cases import GIB, ROOM, cluster, random_release, scored


@pytest.mark.parametrize("seed", range(12))
def test_untrained_it_places_as_the_rule_that_it_starts_from(seed: int) -> None:
    """Random machines, tasks and readings over some cycles; both look at the same state at the same time."""
    rng = np.random.default_rng(seed)
    policy = LearnedPolicy(random_release(name="untrained", is_trained=False))
    rule = make_rule(FIRST_RULE)
    state = cluster(*(some_node(rng, f"n{number}") for number in range(12)))
    readings = NodeReadings(state.capacity)
    running: dict[str, RunningTask] = {}
    compared = 0
    for turn in range(14):
        now_s = 5.0 * turn
        some_readings(rng, readings, now_s)
        for key in [key for key in running if rng.random() < 0.2]:
            del running[key]
            state.apply(PodRemoved(key))
        pending = some_workflow(rng, f"w{turn}")
        view = CycleView(state, now_s, pending, np.random.default_rng(0), running, readings=readings)
        plan, ruled = policy.plan(view), rule.plan(view)
        for index in plan.order:
            filters = CompiledFilters(state, pending[index].task.shape)
            rows = np.flatnonzero(filters.feasible)
            if not rows.size:
                continue
            score, wanted = (each.scores(index, filters)[rows] for each in (plan, ruled))
            row = int(rows[wanted.argmax()])
            assert rows[score.argmax()] == row
            assert plan.expected_duration_s(index, row) == pytest.approx(
                ruled.expected_duration_s(index, row), rel=2e-4
            )
            key = pending[index].key
            state.apply(PodBound(BoundPod(key, ROOM), state.node(row).name))
            running[key] = RunningTask(pending[index], row, now_s, now_s + 100.0)
            compared += 1
    assert compared > 30
    assert policy.memory == (cast("Replayable", rule).memory or ())[1:]


def some_node(rng: np.random.Generator, name: str) -> Node:
    kind = str(rng.choice(["", "slow", "fast"]))
    hardware = Hardware(
        cores=8.0,
        machine_type=kind,
        dram_bytes_per_s=float(rng.uniform(5e9, 4e10)),
        disks=(Disk(float(rng.uniform(5e7, 4e8)), 2000.0),),
    )
    room = Resources({"cpu": 8000, "memory": 32 * GIB, "pods": 50})
    return Node(name, room, hardware=hardware)


def some_readings(rng: np.random.Generator, board: NodeReadings, now_s: float) -> None:
    """Measure three nodes of four: some have hidden load, some slow disks."""
    board.advance(now_s)
    busy = np.random.default_rng(7).random(len(board))
    for row in range(12):
        if rng.random() < 0.75:
            numbers = {
                "memory_bandwidth_utilisation": 0.8 * busy[row],
                "storage_utilisation": busy[row],
                "storage_bytes_per_s": 8e7 * busy[row],
            }
            board.put(
                row,
                {
                    name: measured(name, number, source=Source.SIMULATED, measured_s=now_s)
                    for name, number in numbers.items()
                },
            )


def some_workflow(rng: np.random.Generator, name: str) -> list[PendingTask]:
    tasks = tuple(
        Task(
            f"t{number}",
            ROOM,
            WorkProfile(
                (
                    Phase(
                        float(rng.uniform(5.0, 50.0)),
                        cpu_cores=float(rng.uniform(0.2, 2.0)),
                        dram_bytes_per_s=float(rng.choice([0.0, 1.0]) * rng.uniform(1e9, 8e9)),
                        disk_read_bytes_per_s=float(rng.choice([0.0, 1.0]) * rng.uniform(1e6, 1e8)),
                        latency_share=float(rng.choice([0.0, 0.6])),
                    ),
                ),
                machine_factors=(("slow", float(rng.uniform(1.0, 2.0))), ("fast", 0.8)),
                cpu_limit_cores=float(rng.choice([0.5, 4.0])),
            ),
            20.0,
        )
        for number in range(5)
    )
    progress = WorkflowProgress(name, Workflow(name, tasks), 0.0)
    return [PendingTask(f"{name}/{i}", progress, i, 0.0) for i in progress.start()]


def test_it_remembers_what_readings_showed() -> None:
    policy, again, without = (LearnedPolicy(random_release()) for _ in range(3))
    rng = np.random.default_rng(0)
    state = cluster(*(some_node(rng, f"n{number}") for number in range(12)))
    readings = NodeReadings(state.capacity)
    pending = some_workflow(rng, "w")

    def scores(by: LearnedPolicy, now_s: float) -> list[list[float]]:
        view = CycleView(state, now_s, pending, np.random.default_rng(0), {}, readings=readings)
        plan = by.plan(view)
        return [scored(plan, state, pending, index) for index in range(5)]

    for turn in range(9):
        some_readings(rng, readings, 5.0 * turn)
        scores(policy, 5.0 * turn)
    some_readings(rng, readings, 45.0)
    again.recall(policy.memory)
    wanted = scores(policy, 45.0)
    assert scores(again, 45.0) == wanted
    assert scores(without, 45.0) != wanted


def test_among_equal_nodes_the_emptier_one_is_taken() -> None:
    policy = LearnedPolicy(random_release(name="untrained", is_trained=False))
    room = Resources({"cpu": 8000, "memory": 32 * GIB, "pods": 50})
    state = cluster(*(Node(name, room, hardware=Hardware(cores=8.0)) for name in "abc"))
    for number, name in enumerate("aac"):
        state.apply(PodBound(BoundPod(f"old{number}", ROOM), name))
    pending = some_workflow(np.random.default_rng(0), "w")
    view = CycleView(state, 1.0, pending, np.random.default_rng(0), {})
    scores = scored(policy.plan(view), state, pending, 0)
    assert scores[1] > scores[2] > scores[0]
    assert scores[0] == pytest.approx(scores[1], abs=1e-3)
