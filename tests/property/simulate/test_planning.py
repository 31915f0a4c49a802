"""A plan keeps precedence and capacity, is optimal where that can be tried out, and runs as planned."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.simulate.planning import plan_batch
from stowplan.simulate.simulator import Simulation
from tests.planning_cases import Case, cases

FRACTIONS = st.one_of(st.floats(0.01, 20.0), st.sampled_from([0.1, 0.2, 0.3, 1.0]))
SECONDS = st.integers(1, 5).map(float)
SEEDS = st.integers(0, 1000)


@settings(max_examples=60, deadline=None)
@given(case=cases(most_tasks=16, seconds=FRACTIONS), seed=SEEDS, passes=st.sampled_from([0, 30, 300]))
def test_a_plan_is_feasible_and_no_shorter_than_its_bounds(case: Case, seed: int, passes: int) -> None:
    plan = plan_batch(case.batch, seed=seed, passes=passes)
    case.require_feasible(plan.start_s.tolist())
    end_s = plan.start_s + [task.expected_s for task in case.tasks]
    assert plan.makespan_s == end_s.max()
    assert plan.makespan_s >= plan.bounds.best_s * (1.0 - 1e-12)


@settings(max_examples=60, deadline=None)
@given(case=cases(most_tasks=5, seconds=SECONDS), seed=SEEDS)
def test_a_tiny_batch_is_planned_optimally_and_no_bound_is_beaten(case: Case, seed: int) -> None:
    plan = plan_batch(case.batch, seed=seed, passes=1_000)
    shortest_s = case.shortest_s()
    assert plan.makespan_s == shortest_s
    assert plan.bounds.best_s <= shortest_s + 1e-9


@settings(max_examples=60, deadline=None)
@given(case=cases(most_tasks=16, seconds=FRACTIONS), seed=SEEDS)
def test_a_plan_runs_in_the_simulator_as_it_was_planned(case: Case, seed: int) -> None:
    plan = plan_batch(case.batch, seed=seed, passes=100)
    simulation = Simulation(case.cluster, case.workload, plan.policy(), seed=seed, contention=False)
    result = simulation.run()
    assert simulation.now_s == pytest.approx(plan.makespan_s, rel=1e-9, abs=1e-9)
    started = {
        f"{flow}/{task}": at_s
        for flow, task, at_s in result.tasks.select("workflow", "task", "placed_s").rows()
    }
    assert [started[key] for key in plan.batch.keys] == pytest.approx(
        plan.start_s.tolist(), rel=1e-9, abs=1e-9
    )


@settings(max_examples=40, deadline=None)
@given(case=cases(most_tasks=12, seconds=FRACTIONS), share=st.floats(0.0, 1.0), seed=SEEDS)
def test_tasks_that_end_sooner_than_planned_never_make_it_longer(case: Case, share: float, seed: int) -> None:
    plan = plan_batch(case.batch, seed=seed, passes=100)
    sooner = case.running_for(share, np.random.default_rng(seed))
    simulation = Simulation(case.cluster, sooner, plan.policy(), seed=seed, contention=False)
    assert simulation.run().summary["tasks_done"].item() == len(case.tasks)
    assert simulation.now_s <= plan.makespan_s * (1.0 + 1e-9)


@settings(max_examples=20, deadline=None)
@given(case=cases(most_tasks=16, seconds=FRACTIONS), seed=SEEDS)
def test_the_same_seed_and_passes_give_the_same_bytes(case: Case, seed: int) -> None:
    first, second = (plan_batch(case.batch, seed=seed, passes=200) for _ in range(2))
    assert first.start_s.tobytes() == second.start_s.tobytes()
    assert first.order == second.order
