"""Whom each known rule serves first, and the fair rule in Python over what decisions show."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest

from stowplan.simulate.spark import (
    LEAVE,
    Answer,
    CompiledRule,
    Decision,
    SparkEpisode,
    SparkSetting,
    critical_path,
    fair,
    fifo,
    srpt,
    weighted_fair,
)
from stowplan.simulate.workloads.tpch import Query
from tests.spark_cases import profiles_of, query, sequence, stage


def episode(
    queries: Sequence[Query], executors: int, arrivals_s: Sequence[float], seed: int = 0
) -> SparkEpisode:
    setting = SparkSetting(executors=executors, jobs=len(arrivals_s))
    kinds = [number % len(queries) for number in range(len(arrivals_s))]
    jobs = sequence(*arrivals_s, kinds=kinds)
    return SparkEpisode(profiles_of(*queries), setting, jobs, np.random.default_rng(seed))


def chain(*durations_ms: float) -> Query:
    """Stages of one task, one after another."""
    return query([stage([one]) for one in durations_ms], [(n, n + 1) for n in range(len(durations_ms) - 1)])


WIDE = query([stage([4000.0], [4000.0] * 9)])
LONG = chain(9000.0, 9000.0)
SHORT = chain(1000.0)


@pytest.mark.parametrize(
    ("rule", "order"),
    [(fifo(), [0, 1, 2]), (srpt(), [2, 1, 0]), (critical_path(), [1, 0, 2])],
    ids=lambda value: value.name if isinstance(value, CompiledRule) else "",
)
def test_one_executor_serves_the_jobs_in_the_order_of_the_rule(rule: CompiledRule, order: list[int]) -> None:
    result = episode([WIDE, LONG, SHORT], 1, [0.0, 0.0, 0.0]).play(rule)
    assert np.argsort(result.completion_s).tolist() == order


@pytest.mark.parametrize(("exponent", "counts"), [(0.0, [3, 3]), (1.0, [5, 1]), (-1.0, [2, 4])])
def test_weights_go_with_remaining_work(exponent: float, counts: list[int]) -> None:
    small = query([stage([1000.0], [1000.0] * 9)])
    runs = episode([WIDE, small], 6, [0.0, 0.0]).play(weighted_fair(exponent)).runs
    at_first = runs["stage"][runs["start_ms"] == runs["start_ms"].min()]
    assert np.bincount(at_first, minlength=2).tolist() == counts


def fair_in_python(decision: Decision) -> Answer:
    """The fair scheduler, from what a policy sees."""

    def stage_of(job: int) -> int | None:
        rows = range(decision.first_row[job], decision.first_row[job + 1])
        able = sorted((not decision.can_run[row], row) for row in rows if decision.schedulable[row])
        return int(decision.stages[able[0][1]]) if able else None

    if decision.source >= 0 and (chosen := stage_of(decision.source)) is not None:
        return Answer(chosen, decision.offered)
    share = math.ceil(decision.executors / len(decision.jobs))
    for job, supply in enumerate(decision.supply.tolist()):
        if supply < share and job != decision.source and (chosen := stage_of(job)) is not None:
            return Answer(chosen, min(decision.offered, share - supply))
    return LEAVE


@pytest.mark.parametrize("seed", range(5))
def test_fair_in_python_is_the_compiled_one(seed: int) -> None:
    spread = query(
        [stage([3000.0, 5000.0], [2000.0] * 6), stage([1000.0] * 3, [900.0]), stage([500.0, 7000.0])],
        [(0, 2), (1, 2)],
    )
    queries, arrivals_s = [spread, WIDE, LONG, SHORT], [0.0, 3.0, 3.5, 11.0, 11.5, 30.0, 31.0]
    ours = episode(queries, 7, arrivals_s, seed).play(fair_in_python)
    compiled = episode(queries, 7, arrivals_s, seed).play(fair())
    assert ours.runs.tobytes() == compiled.runs.tobytes()
    assert (ours.decisions, ours.moves) == (compiled.decisions, compiled.moves)


def test_what_a_decision_shows() -> None:
    cluster = episode([query([stage([3000.0]), stage([1000.0, 2000.0])], [(0, 1)]), SHORT], 4, [0.0, 1.0])
    decision = cluster.decision()
    assert (decision.now_s, decision.executors, decision.offered, decision.source) == (0.0, 4, 4, -1)
    assert decision.mean_s.tolist() == decision.recent_s.tolist() == [3.0, 1.5]
    assert decision.edges.tolist() == [[0], [1]]
    assert decision.schedulable.tolist() == [True, False]
    cluster.answer(Answer(0, 3))  # takes the one that it has a task for, which makes stage 1 schedulable
    decision = cluster.decision()
    assert (decision.offered, decision.supply.tolist(), decision.coming.tolist()) == (3, [1], [1, 0])
    assert decision.schedulable.tolist() == [False, True]
    cluster.answer(LEAVE)
    decision = cluster.decision()  # the other job has arrived
    assert (decision.now_s, decision.offered, decision.jobs.tolist()) == (1.0, 3, [0, 1])
    assert (decision.arrival_s.tolist(), decision.local.tolist()) == ([0.0, 1.0], [0, 0])
    assert decision.first_row.tolist() == [0, 2, 3]
    assert decision.remaining.tolist() == [1, 2, 1]
    assert decision.schedulable.tolist() == [False, True, True]
