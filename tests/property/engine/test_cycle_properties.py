"""Whatever the policy: nothing is overcommitted, nothing is lost, and chance is the engine's alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.core.constraints import CompiledFilters
from stowplan.core.domain import (
    ClusterState,
    HostPort,
    LabelSelector,
    Node,
    NodeSet,
    PendingTask,
    Phase,
    PodAffinityTerm,
    PodRemoved,
    PodShape,
    Resources,
    RunningTask,
    SpreadConstraint,
    Task,
    WhenUnsatisfiable,
    Workflow,
    WorkflowProgress,
    WorkProfile,
    validate_state,
)
from stowplan.core.engine import Engine
from stowplan.core.policy import make_policy, policy_names
from tests.learned_cases import make_any

SELF = LabelSelector.from_labels({"app": "x"})
LABELS = (("app", "x"),)
ZONE = "topology.kubernetes.io/zone"

nodes = st.lists(
    st.tuples(st.integers(0, 4000), st.integers(0, 5), st.sampled_from(["a", "b", ""])),
    min_size=1,
    max_size=8,
)
shapes = st.builds(
    PodShape,
    labels=st.just(LABELS),
    requests=st.integers(0, 3000).map(lambda cpu: Resources({"cpu": cpu})),
    host_ports=st.sampled_from([(), (), (HostPort("TCP", "127.0.0.1", 80),)]),
    anti_affinity=st.sampled_from([(), (), (), (PodAffinityTerm(ZONE, SELF),)]),
    affinity=st.sampled_from([(), (), (), (PodAffinityTerm(ZONE, SELF),)]),
    spread=st.sampled_from(
        [(), (), (SpreadConstraint(1, ZONE, WhenUnsatisfiable.DO_NOT_SCHEDULE, SELF),)],
    ),
)


def build(description: list[tuple[int, int, str]]) -> ClusterState:
    state = ClusterState()
    for index, (cpu, pods, zone) in enumerate(description):
        labels = ((ZONE, zone),) if zone else ()
        state.apply(NodeSet(Node(f"n{index}", Resources({"cpu": cpu, "pods": pods}), labels)))
    return state


def run(policy: str, description: list[tuple[int, int, str]], tasks: list[PodShape], seed: int) -> list[str]:
    """Run cycles until nothing moves; half of what runs ends between two cycles. Returns what happened."""
    state = build(description)
    engine = Engine(state, make_any(policy), rng=np.random.default_rng(seed))
    workflow = Workflow(
        "w", tuple(Task(f"t{i}", s, WorkProfile((Phase(1.0 + i),)), 1.0 + i) for i, s in enumerate(tasks))
    )
    progress = WorkflowProgress("w", workflow, 0.0)
    pending = [PendingTask(f"default/w-{i}", progress, i, 0.0) for i in progress.start()]
    running: dict[str, RunningTask] = {}
    story: list[str] = []
    for turn in range(2 * len(tasks) + 2):
        report = engine.cycle(float(turn), pending, running)
        keys = [task.key for part in (report.placed, report.waiting, report.infeasible) for task, _ in part]
        assert sorted(keys) == sorted(task.key for task in pending)
        validate_state(state)
        assert np.all(state.requested <= state.allocatable)
        for task, placed in report.placed:
            assert state.node(placed.row).name == placed.node_name
            running[task.key] = RunningTask(task, placed.row, float(turn), turn + placed.expected_duration_s)
            progress.running(task.index)
            story.append(f"{turn} {task.key} on {placed.node_name}")
        for task, wait in report.waiting:
            assert wait.refused
            story.append(f"{turn} {task.key} waits: {wait.reason}")
        for task, infeasible in report.infeasible:
            assert not CompiledFilters(build(description), task.task.shape).feasible.any()
            story.append(f"{turn} {task.key} never: {infeasible.reason}")
        gone = {task.key for part in (report.placed, report.infeasible) for task, _ in part}
        pending = [task for task in pending if task.key not in gone]
        for key in list(running)[::2]:
            state.apply(PodRemoved(key))
            progress.done(running.pop(key).pending.index)
        if not pending and not running:
            break
    return story


@pytest.mark.parametrize("policy", sorted(policy_names()))
@given(description=nodes, tasks=st.lists(shapes, min_size=1, max_size=12), seed=st.integers(0, 9))
@settings(max_examples=15, deadline=None)
def test_every_policy_keeps_the_rules_and_repeats_itself(
    policy: str, description: list[tuple[int, int, str]], tasks: list[PodShape], seed: int
) -> None:
    assert run(policy, description, tasks, seed) == run(policy, description, tasks, seed)


@given(description=nodes, tasks=st.lists(shapes, min_size=1, max_size=12))
@settings(max_examples=100, deadline=None)
def test_a_cached_answer_equals_a_fresh_one(
    description: list[tuple[int, int, str]], tasks: list[PodShape]
) -> None:
    state = build(description)
    engine = Engine(state, make_policy("fifo"), rng=np.random.default_rng(0))
    workflow = Workflow(
        "w", tuple(Task(f"t{i}", s, WorkProfile((Phase(1.0),)), 1.0) for i, s in enumerate(tasks))
    )
    progress = WorkflowProgress("w", workflow, 0.0)
    for index in progress.start():
        engine.cycle(0.0, [PendingTask(f"default/w-{index}", progress, index, 0.0)])
        for shape in tasks:
            kept, fresh = engine.filters_of(shape), CompiledFilters(state, shape)
            assert kept.refused_by.tolist() == fresh.refused_by.tolist()
            assert kept.counts() == fresh.counts()
