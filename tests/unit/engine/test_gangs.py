"""Gangs in the decoder: all tasks of a gang are placed in one cycle, or none, and nothing is left behind."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.core.constraints import RuleTable
from stowplan.core.decoder import choose_gpus
from stowplan.core.domain import (
    ClusterState,
    Gang,
    Gpu,
    GpuRequest,
    Hardware,
    Node,
    NodeSet,
    PendingTask,
    Phase,
    PodShape,
    Resources,
    Task,
    Workflow,
    WorkflowProgress,
    WorkProfile,
    validate_state,
)
from stowplan.core.engine import CycleReport, Engine
from stowplan.core.policy import make_policy
from stowplan.errors import InvalidInput, InvalidWorkflow, UnknownName


def cluster(*cpu_milli: int, gpus: int = 0, roots: tuple[str, ...] = ()) -> ClusterState:
    state = ClusterState()
    hardware = Hardware(gpus=tuple(Gpu("g", root) for root in (roots or ("a",) * gpus)))
    for index, cpu in enumerate(cpu_milli):
        resources = Resources({"cpu": cpu, "memory": 2**33, "pods": 110})
        state.apply(NodeSet(Node(f"n{index}", resources, hardware=hardware)))
    return state


def cpu(milli: int, gpu: GpuRequest | None = None) -> PodShape:
    return PodShape(requests=Resources({"cpu": milli}), gpu=gpu)


def gang(name: str, size: int, shape: PodShape, *, ready: int | None = None) -> list[PendingTask]:
    """The pending tasks of a workflow that is one gang; only the first `ready` of them, if given."""
    work = WorkProfile((Phase(1.0),))
    tasks = tuple(Task(f"t{i}", shape, work, 1.0, gang=Gang("g", size)) for i in range(size))
    progress = WorkflowProgress(name, Workflow(name, tasks), 0.0)
    return [PendingTask(f"{name}/{i}", progress, i, 0.0) for i in progress.start()[:ready]]


def alone(name: str, shape: PodShape) -> list[PendingTask]:
    task = Task("t", shape, WorkProfile((Phase(1.0),)), 1.0)
    progress = WorkflowProgress(name, Workflow(name, (task,)), 0.0)
    return [PendingTask(f"{name}/0", progress, i, 0.0) for i in progress.start()]


def cycle(state: ClusterState, pending: list[PendingTask], rules: RuleTable | None = None) -> CycleReport:
    rules = rules or RuleTable()
    engine = Engine(state, make_policy("kube-scheduler"), rng=np.random.default_rng(0), rules=rules)
    return engine.cycle(0.0, pending)


def test_a_gang_that_fits_is_placed_whole() -> None:
    state = cluster(2000, 1000)
    report = cycle(state, gang("g", 3, cpu(1000)))
    assert sorted(outcome.node_name for _, outcome in report.placed) == ["n0", "n0", "n1"]


def test_a_gang_that_fits_in_part_leaves_no_trace_and_what_comes_after_it_takes_the_room() -> None:
    state = cluster(2000, 1000)
    report = cycle(
        state, [*gang("large", 4, cpu(1000)), *gang("small", 2, cpu(1000)), *alone("one", cpu(1000))]
    )
    assert sorted(task.key for task, _ in report.placed) == ["one/0", "small/0", "small/1"]
    waiting = {task.key: outcome.reason for task, outcome in report.waiting}
    assert sorted(waiting) == [f"large/{i}" for i in range(4)]
    assert all("gang 'g' of 4" in reason for reason in waiting.values())
    validate_state(state)
    assert len(state.pods) == 3


def test_a_gang_of_which_tasks_are_missing_waits_for_them() -> None:
    state = cluster(9000)
    report = cycle(state, gang("g", 3, cpu(1000), ready=2))
    assert [outcome.reason for _, outcome in report.waiting] == [
        "gang 'g' of 3: 2 of its tasks are pending"
    ] * 2
    assert not state.pods


def test_a_gang_with_a_task_that_no_node_takes_is_infeasible_as_a_whole() -> None:
    report = cycle(cluster(1000), gang("g", 2, cpu(5000)))
    assert [task.key for task, _ in report.infeasible] == ["g/0", "g/1"]
    assert not report.placed
    assert not report.waiting


def test_free_gpus_in_too_small_portions_are_told_without_a_trial() -> None:
    state = cluster(9000, 9000, gpus=3)  # two pods of two GPUs fit, one to a node; a third does not
    report = cycle(state, gang("g", 3, cpu(1, GpuRequest(2))))
    assert {outcome.reason for _, outcome in report.waiting} == {
        "gang 'g' of 3: the free GPUs take 2 of its tasks"
    }


@settings(max_examples=60)
@given(
    rooms=st.lists(st.integers(0, 6), min_size=1, max_size=5),
    sizes=st.lists(st.tuples(st.integers(1, 5), st.integers(1, 3)), min_size=1, max_size=6),
)
def test_whatever_there_is_a_gang_is_placed_whole_or_not_at_all(
    rooms: list[int], sizes: list[tuple[int, int]]
) -> None:
    state = cluster(*(1000 * room for room in rooms))
    gangs = [gang(f"g{n}", size, cpu(1000 * cores)) for n, (size, cores) in enumerate(sizes)]
    report = cycle(state, [task for tasks in gangs for task in tasks])
    placed = {task.key for task, _ in report.placed}
    for tasks in gangs:
        assert len(placed & {task.key for task in tasks}) in (0, len(tasks))
    assert placed == set(state.pods)
    told = [*report.placed, *report.waiting, *report.infeasible]
    assert sorted(task.key for task, _ in told) == sorted(t.key for tasks in gangs for t in tasks)
    validate_state(state)


def test_a_gang_of_another_size_than_it_says_is_refused() -> None:
    task = Task("t", cpu(1), WorkProfile((Phase(1.0),)), 1.0, gang=Gang("g", 2))
    with pytest.raises(InvalidWorkflow, match="gang 'g' is said to have 2 tasks, but 1 name it"):
        Workflow("w", (task,))
    with pytest.raises(InvalidWorkflow, match="needs at least 1"):
        Gang("g", 0)


def test_tasks_of_a_gang_must_be_ready_together() -> None:
    work = WorkProfile((Phase(1.0),))
    tasks = [Task("first", cpu(1), work, 1.0)]
    tasks += [Task(name, cpu(1), work, 1.0, gang=Gang("g", 2)) for name in ("a", "b")]
    with pytest.raises(InvalidWorkflow, match="wait for different tasks"):
        Workflow("w", tuple(tasks), (("first", "a"),))


# ---- root complexes --------------------------------------------------------------------------------


def test_gpus_that_hang_who_knows_where_are_apart_and_taken_last() -> None:
    state = cluster(1000, roots=("", "", "a", "a"))
    assert choose_gpus(state, 0, GpuRequest(2)) == (2, 3)
    assert choose_gpus(state, 0, GpuRequest(3)) == (0, 2, 3)
    unknown = cluster(1000, roots=("", "", ""))
    assert choose_gpus(unknown, 0, GpuRequest(2)) == (0, 1)


def two_shapes_of_nodes() -> ClusterState:
    """n0 is larger, so kube-scheduler's rules like it better, but two GPUs on each root complex."""
    state = ClusterState()
    for name, cores, roots in (("n0", 64, "aabb"), ("n1", 8, "aaa")):
        hardware = Hardware(gpus=tuple(Gpu("g", root) for root in roots))
        resources = Resources({"cpu": 1000 * cores, "memory": 2**36, "pods": 110})
        state.apply(NodeSet(Node(name, resources, hardware=hardware)))
    return state


def test_a_node_that_would_spread_the_gpus_keeps_its_share_of_the_score() -> None:
    state = two_shapes_of_nodes
    task = alone("w", cpu(4000, GpuRequest(3)))
    table = RuleTable.parse({"version": 1, "root_complexes": {"spread": 0.4}})
    assert [outcome.node_name for _, outcome in cycle(state(), task).placed] == ["n0"]
    assert [outcome.node_name for _, outcome in cycle(state(), task, table).placed] == ["n1"]
    # Two GPUs are of one root complex on both: nothing to hold against n0.
    pair = alone("w", cpu(4000, GpuRequest(2)))
    assert [outcome.node_name for _, outcome in cycle(state(), pair, table).placed] == ["n0"]


@pytest.mark.parametrize("spread", [0, 1.5, "0.4", True, None])
def test_a_spread_that_is_no_share_is_refused(spread: object) -> None:
    with pytest.raises(InvalidInput, match="spread"):
        RuleTable.parse({"version": 1, "root_complexes": {"spread": spread}})


def test_the_rule_on_root_complexes_is_read_with_the_articles_factor_as_default() -> None:
    assert RuleTable.parse({"version": 1, "root_complexes": {}}).spread_factor == 0.4
    assert RuleTable.parse({"version": 1, "rules": []}).spread_factor == 1.0
    with pytest.raises(UnknownName, match="spread"):
        RuleTable.parse({"version": 1, "root_complexes": {"spred": 0.4}})
