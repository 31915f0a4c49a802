"""What a driver may bound: tasks per cycle, nodes that take none; and a policy that fails half-way."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from stowplan.core.constraints import CompiledFilters
from stowplan.core.decoder import CLOSED
from stowplan.core.domain import (
    ClusterState,
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
from stowplan.core.engine import Engine
from stowplan.core.policy import CycleView, make_policy


def cluster(nodes: int, cpu_milli: int = 1000) -> ClusterState:
    state = ClusterState()
    for number in range(nodes):
        state.apply(NodeSet(Node(f"n{number}", Resources({"cpu": cpu_milli, "pods": 110}))))
    return state


def pending(*cpu_milli: int) -> list[PendingTask]:
    tasks = tuple(
        Task(f"t{i}", PodShape(requests=Resources({"cpu": cpu})), WorkProfile((Phase(1.0),)), 1.0)
        for i, cpu in enumerate(cpu_milli)
    )
    progress = WorkflowProgress("w", Workflow("w", tasks), 0.0)
    return [PendingTask(f"default/w-{i}", progress, i, 0.0) for i in progress.start()]


def engine(state: ClusterState, **more: object) -> Engine:
    return Engine(state, make_policy("fifo"), rng=np.random.default_rng(1), **more)  # pyright: ignore[reportArgumentType]


def test_a_limit_defers_the_rest_and_counts_a_shape_that_fits_nowhere_once() -> None:
    tasks = pending(5000, 5000, 5000, 100, 200, 300)
    state = cluster(1)
    scheduler = engine(state)
    report = scheduler.cycle(0.0, tasks, limit=2)
    assert [task.index for task, _ in report.infeasible] == [0, 1, 2]
    assert [task.index for task, _ in report.placed] == [3]
    assert [task.index for task in report.deferred] == [4, 5]
    assert report.limit == 2
    again = scheduler.cycle(0.0, report.deferred, limit=2)
    assert [task.index for task, _ in again.placed] == [4, 5]
    assert not again.deferred


def test_without_a_limit_nothing_is_deferred() -> None:
    report = engine(cluster(1)).cycle(0.0, pending(*[100] * 5))
    assert len(report.placed) == 5
    assert (report.deferred, report.limit) == ([], None)


def test_a_closed_node_takes_nothing_and_is_open_in_the_next_cycle() -> None:
    state = cluster(2)
    scheduler = engine(state)
    report = scheduler.cycle(0.0, pending(600, 600), closed=["n0", "unknown"])
    assert [placed.node_name for _, placed in report.placed] == ["n1"]
    (task, wait), *_ = report.waiting
    assert wait.refused == {"NodeResourcesFit": 1, CLOSED: 1}
    assert report.closed == ("n0", "unknown")
    assert [placed.node_name for _, placed in scheduler.cycle(1.0, [task]).placed] == ["n0"]


def test_when_every_node_is_closed_all_tasks_wait() -> None:
    report = engine(cluster(2)).cycle(0.0, pending(1, 1, 1), closed=["n0", "n1"])
    assert [wait.refused for _, wait in report.waiting] == [{CLOSED: 2}] * 3


@dataclass
class Fragile:
    """Scores until it meets a task of that index; then it raises something that is no error of ours."""

    at: int
    name: str = "fragile"
    breaks_ties_randomly: bool = False

    def plan(self, view: CycleView) -> "Fragile":
        self.order = range(len(view.pending))
        self._capacity = view.state.capacity
        return self

    def scores(self, index: int, filters: CompiledFilters) -> NDArray[np.float64]:
        del filters
        if index == self.at:
            raise ZeroDivisionError("no weights")
        return np.zeros(self._capacity)

    def choose_gpus(self, index: int, row: int) -> tuple[int, ...] | None:
        del index, row

    def expected_duration_s(self, index: int, row: int) -> float:
        return float(index + 10 * row)

    def contributions(self, index: int, row: int) -> Mapping[str, float]:
        del index, row
        return {}


def fragile_engine(state: ClusterState, at: int, **more: object) -> Engine:
    return Engine(state, Fragile(at), rng=np.random.default_rng(1), **more)  # pyright: ignore[reportArgumentType]


def test_a_policy_that_fails_half_way_is_replaced_for_the_rest_of_the_cycle() -> None:
    state = cluster(2)
    report = fragile_engine(state, 2, fallback=make_policy("fifo")).cycle(0.0, pending(100, 100, 100, 100))
    assert sorted(task.index for task, _ in report.placed) == [0, 1, 2, 3]
    assert report.degraded is not None
    assert report.degraded.reason == "ZeroDivisionError: no weights"
    assert report.degraded.used_instead == "fifo"
    validate_state(state)


def test_the_limit_holds_for_both_policies_together() -> None:
    report = fragile_engine(cluster(2), 1, fallback=make_policy("fifo")).cycle(
        0.0, pending(*[100] * 6), limit=3
    )
    assert len(report.placed) == 3
    assert len(report.deferred) == 3


@pytest.mark.parametrize("fallback", [None, Fragile(0, "second")], ids=["none", "fails too"])
def test_when_nobody_can_decide_nothing_is_assumed(fallback: Fragile | None) -> None:
    state = cluster(2)
    with pytest.raises(ZeroDivisionError):
        fragile_engine(state, 2, fallback=fallback).cycle(0.0, pending(100, 100, 100))
    assert not state.pods
    assert not state.requested.any()


def test_durations_are_predicted_for_any_row() -> None:
    scheduler = fragile_engine(cluster(3), 99)
    assert scheduler.predict_s(0.0, pending(100)[0], [0, 2]) == [0.0, 20.0]
