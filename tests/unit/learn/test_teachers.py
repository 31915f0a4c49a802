"""Records of rules, and what came of their decisions, against the simulator's own results."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from stowplan.core.encoder import Encoder
from stowplan.learn.episodes import Reward, run_episode, simulation_of
from stowplan.learn.imitation import best_of_each
from stowplan.learn.rollouts import Job, Worker
from stowplan.learn.rules import make_rule
from stowplan.learn.teachers import Teacher

RULE = "srpt-fastest"


def test_a_rule_that_is_watched_decides_as_it_does_alone(worker: Worker) -> None:
    scenario = worker.scenario(Job(number=3))
    alone = simulation_of(scenario, make_rule(RULE)).run()
    watched = run_episode(
        scenario, Teacher(make_rule(RULE), Encoder(), np.random.default_rng(1), kept_share=1.0), Reward()
    )
    assert watched.completion_s == pytest.approx(alone.summary["completion_mean_s"].item())
    assert watched.tail_s == pytest.approx(alone.summary["completion_p95_s"].item())
    assert watched.tasks == alone.summary["placements"].item()


def test_outcomes_are_those_of_the_simulator(worker: Worker) -> None:
    scenario = worker.scenario(Job(number=3))
    teacher = Teacher(make_rule(RULE), Encoder(), np.random.default_rng(1), kept_share=1.0)
    record = run_episode(scenario, teacher, Reward())
    frame = simulation_of(scenario, make_rule(RULE)).run().tasks
    factors = {
        f"{s.workflow.name}/{task.name}": dict(task.work.machine_factors)
        for s in scenario.workload.submissions
        for task in s.workflow.tasks
    }
    kinds = {node.name: node.hardware.machine_type for node in scenario.cluster.nodes}
    real = {
        f"{row['workflow']}/{row['task']}": row
        for row in frame.iter_rows(named=True)
        if row["status"] == "done"
    }
    checked = 0
    for cycle in record.cycles:
        for decision in cycle.decisions:
            row = real[decision.key]
            if row["placed_s"] == cycle.time_s:
                foreseen = decision.log_prior[decision.choice]
                slowdown = min(max(math.log(row["actual_s"] / row["expected_s"]) - foreseen, -2.0), 5.0)
                assert decision.log_slowdown == pytest.approx(slowdown, abs=1e-6)
                assert foreseen >= math.log(factors[decision.key][kinds[row["node"]]]) - 1e-6
                checked += 1
        for key, bar_s, blocked in zip(cycle.keys, cycle.bar_s, cycle.blocked, strict=True):
            assert blocked == (real[key]["finished_s"] - cycle.time_s > bar_s)
    assert checked > 30
    labels = np.concatenate([cycle.blocked for cycle in record.cycles])
    assert 0.0 < labels.mean() < 1.0
    assert len(record.cycles) > 10


def test_readings_are_followed_in_cycles_that_are_not_kept(worker: Worker) -> None:
    scenario = worker.scenario(Job(number=3))
    encoders = [Encoder(), Encoder()]
    for encoder, share in zip(encoders, (0.0, 1.0), strict=True):
        teacher = Teacher(make_rule(RULE), encoder, np.random.default_rng(1), kept_share=share)
        run_episode(scenario, teacher, Reward())
    assert encoders[0].memory == encoders[1].memory != ()


def test_decisions_name_the_nodes_as_they_were(worker: Worker) -> None:
    """The free share of cores of the node that was chosen falls by what the task asks for."""
    scenario = worker.scenario(Job(number=1, difficulty=0.0))
    teacher = Teacher(make_rule(RULE), Encoder(), np.random.default_rng(1), kept_share=1.0)
    record = run_episode(scenario, teacher, Reward())
    seen = 0
    for cycle in record.cycles:
        for decision, after in zip(cycle.decisions, cycle.decisions[1:], strict=False):
            changed = decision.rows != after.rows
            if decision.choice < len(decision.rows):
                assert changed[decision.choice]
                assert changed.sum() == 1
                seen += 1
            else:
                assert not changed.any()
    assert seen > 10


def test_orders_are_whole_and_begin_with_what_was_decided(worker: Worker) -> None:
    record = worker.run(Job(number=0, actor=RULE, kept_decisions=100), None).record
    for cycle in record.cycles:
        assert sorted(cycle.order.tolist()) == list(range(len(cycle.keys)))
        decided = {decision.group for decision in cycle.decisions}
        assert decided <= set(cycle.order[: cycle.ordered].tolist())
        assert int(cycle.order[cycle.ordered - 1]) in decided


def test_only_about_as_many_decisions_are_kept_as_asked(worker: Worker) -> None:
    kept = [
        sum(
            len(cycle.decisions)
            for cycle in worker.run(Job(number=n, actor=RULE, kept_decisions=30), None).record.cycles
        )
        for n in range(6)
    ]
    assert 10 < np.mean(kept) < 70


def test_the_run_that_cost_least_is_imitated(worker: Worker) -> None:
    records = [
        worker.run(Job(number=n, actor=actor), None).record for n in (0, 1) for actor in (RULE, "random")
    ]
    best = best_of_each(records)
    assert [record.scenario for record in best] == [0, 1]
    assert all(
        one.rewards.sum() == max(records[2 * n].rewards.sum(), records[2 * n + 1].rewards.sum())
        for n, one in enumerate(best)
    )


def test_rewards_are_the_completion_times(worker: Worker) -> None:
    scenario = worker.scenario(Job(number=2))
    teacher = Teacher(make_rule(RULE), Encoder(), np.random.default_rng(1), kept_share=0.0)
    record = run_episode(scenario, teacher, Reward(tail_weight=0.0))
    assert not record.is_cut_off
    count = len(scenario.workload)
    before_s = sum(max(record.times_s[0] - s.time_s, 0.0) for s in scenario.workload.submissions) / count
    seen_s = -record.rewards.sum() * scenario.time_scale_s  # from the first cycle on
    assert_allclose(seen_s + before_s, record.completion_s, rtol=1e-9)
