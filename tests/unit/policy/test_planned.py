"""The policy that carries out a plan: who waits for whom, and who does not."""

import pytest

from stowplan.core.domain import Workflow
from stowplan.core.policy import make_policy
from stowplan.errors import InvalidInput
from stowplan.simulate.simulator import Simulation
from tests.simulation_cases import cluster, node, task, workload

WIDE = Workflow("w", (task("first", cores=2.0), task("wide", cores=4.0), task("thin", cores=1.0)))


def starts_of(order: list[str], *workflows: Workflow, times_s: list[float] | None = None) -> dict[str, float]:
    """Run on four cores; return when each task that was placed was placed."""
    simulation = Simulation(
        cluster(node("n0", cores=4.0)),
        workload(*workflows, times_s=times_s),
        make_policy("planned", order=order),
        seed=0,
        contention=False,
    )
    rows = simulation.run().tasks.select("workflow", "task", "placed_s").drop_nulls().rows()
    return {f"{flow}/{name}": placed_s for flow, name, placed_s in rows}


def test_a_task_that_fits_waits_for_those_before_it() -> None:
    starts = starts_of(["w/first", "w/wide", "w/thin"], WIDE)
    assert starts == {"w/first": 0.0, "w/wide": 10.0, "w/thin": 20.0}


def test_tasks_that_no_plan_names_wait_for_nobody() -> None:
    starts = starts_of(["w/first", "w/wide"], WIDE)
    assert starts == {"w/first": 0.0, "w/thin": 0.0, "w/wide": 10.0}


def test_without_a_plan_tasks_go_by_arrival() -> None:
    other = Workflow("x", (task("late", cores=4.0),))
    starts = starts_of([], WIDE, other)
    assert starts == {"w/first": 0.0, "w/thin": 0.0, "w/wide": 10.0, "x/late": 20.0}


def test_a_task_waits_for_one_before_it_whose_parent_still_runs() -> None:
    chain = Workflow("c", (task("parent", seconds=3.0), task("child", seconds=1.0)), (("parent", "child"),))
    starts = starts_of(["c/parent", "c/child", "w/thin"], chain, Workflow("w", (task("thin"),)))
    assert starts == {"c/parent": 0.0, "c/child": 3.0, "w/thin": 3.0}


def test_nobody_waits_for_a_workflow_that_is_not_there() -> None:
    later = Workflow("later", (task("t"),))
    starts = starts_of(["later/t", "w/thin"], later, Workflow("w", (task("thin"),)), times_s=[50.0, 0.0])
    assert starts == {"later/t": 50.0, "w/thin": 0.0}


def test_nobody_waits_for_a_task_that_was_skipped() -> None:
    broken = Workflow("b", (task("huge", cores=64.0), task("child")), (("huge", "child"),))
    starts = starts_of(["b/huge", "b/child", "w/thin"], broken, Workflow("w", (task("thin"),)))
    assert starts == {"w/thin": 0.0}


def test_a_plan_with_a_child_before_its_parent_comes_to_an_end() -> None:
    chain = Workflow("c", (task("parent"), task("child")), (("parent", "child"),))
    assert starts_of(["c/child", "c/parent"], chain) == {"c/parent": 0.0, "c/child": 10.0}


def test_a_plan_names_each_task_once() -> None:
    with pytest.raises(InvalidInput, match="names task 'w/first' twice"):
        make_policy("planned", order=["w/first", "w/wide", "w/first"])
