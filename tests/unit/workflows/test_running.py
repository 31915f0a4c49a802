"""The ends that are expected of what runs."""

import random

from stowplan.core.domain import (
    ClusterState,
    Node,
    NodeRemoved,
    NodeSet,
    PendingTask,
    Resources,
    Task,
    WorkProfile,
)
from stowplan.observe.history import ExpectedDuration, Source
from stowplan.serve.workflows.expectations import one_task
from stowplan.serve.workflows.running import RunningTasks
from tests.unit.workflows.cases import SHAPE

EXPECTED = ExpectedDuration(
    log_middle=4.0, log_spread=0.3, freedom=10.0, source=Source.CLASS, runs=9, effective_runs=9.0
)


def made() -> RunningTasks:
    state = ClusterState()
    state.apply(NodeSet(Node("n1", Resources({"cpu": 4000}))))
    return RunningTasks(state)


def pending(key: str) -> PendingTask:
    progress = one_task(Task(key, SHAPE, WorkProfile(()), 1.0))
    return PendingTask(key, progress, 0, 0.0)


def test_the_end_of_a_run_that_goes_on_is_never_past() -> None:
    tasks = made()
    tasks.set(pending("a"), "n1", 0.0, EXPECTED, 0.0)
    ends = []
    for now_s in range(0, 2000, 10):
        (task,) = tasks.current(float(now_s)).values()
        assert task.expected_end_s > now_s
        ends.append(task.expected_end_s)
    assert ends[0] == EXPECTED.expected_s
    assert ends == sorted(ends)


def test_looking_costs_nothing_as_long_as_all_goes_as_foretold() -> None:
    tasks = made()
    tasks.set(pending("a"), "n1", 0.0, EXPECTED, 0.0)
    before = tasks.current(0.0)["a"]
    assert tasks.current(EXPECTED.expected_s - 1.0)["a"] is before
    assert tasks.current(EXPECTED.expected_s)["a"] is not before


def test_ends_that_no_longer_hold_are_not_kept() -> None:
    tasks = made()
    generator = random.Random(1)  # noqa: S311 - draws an example
    for number in range(5000):
        key = f"pod-{generator.randrange(20)}"
        if generator.random() < 0.3:
            tasks.remove(key)
        else:
            tasks.set(pending(key), "n1", float(number), EXPECTED, float(number))
    assert len(tasks._ends) <= 64 + 4 * 20
    assert set(tasks.current(5000.0)) == set(tasks._expected)


def test_what_changed_last_stands_last() -> None:
    """Records of cycles look at the end for what is new, and nowhere else."""
    tasks = made()
    state = tasks._state
    for number, key in enumerate("abcd"):
        tasks.set(pending(key), "n1", float(number), EXPECTED, float(number))
    tasks.set(pending("b"), "n1", 5.0, EXPECTED, 5.0)  # its durations were learnt anew
    assert list(tasks.current(5.0)) == ["a", "c", "d", "b"]
    foretold = tasks.current(5.0)["a"].expected_end_s
    assert list(tasks.current(foretold)) == ["c", "d", "b", "a"]
    state.apply(NodeRemoved("n1"))
    state.apply(NodeSet(Node("n0", Resources({"cpu": 4000}))))
    state.apply(NodeSet(Node("n1", Resources({"cpu": 4000}))))
    tasks.set(pending("e"), "n1", 6.0, EXPECTED, 6.0)
    tasks.nodes_moved()
    assert list(tasks.current(foretold)) == ["e", "c", "d", "b", "a"]
