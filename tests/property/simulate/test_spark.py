"""What holds in every Spark episode: tasks run once, an executor does one thing at a time, stages wait."""

from __future__ import annotations

import hashlib

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from stowplan.errors import StateConflict
from stowplan.simulate.spark import (
    CompiledRule,
    JobSequence,
    SparkEpisode,
    SparkPolicy,
    SparkProfiles,
    SparkSetting,
    fair,
    fifo,
    srpt,
    weighted_fair,
)
from stowplan.simulate.spark.profiles import FIRST, FRESH, LEVELS
from tests.spark_cases import RandomPolicy, clusters

Case = tuple[SparkProfiles, SparkSetting, JobSequence]

policies = st.one_of(
    st.sampled_from([fair(), fifo(), srpt(), weighted_fair()]),
    st.builds(RandomPolicy, st.integers(0, 1000), st.sampled_from([0.0, 0.3])),
)


def start(case: Case, seed: int = 0) -> SparkEpisode:
    profiles, setting, sequence = case
    return SparkEpisode(profiles, setting, sequence, np.random.default_rng(seed))


def play(episode: SparkEpisode, policy: CompiledRule | SparkPolicy) -> NDArray[np.void]:
    """Play to the end, or to where the policy leaves everything idle; returns the tasks that were run."""
    try:
        return episode.play(policy).runs
    except StateConflict:
        return episode.state.runs[: episode.state.counters["runs"][0]]


@settings(max_examples=100)
@given(clusters(), policies)
def test_an_executor_does_one_thing_at_a_time(case: Case, policy: CompiledRule | SparkPolicy) -> None:
    _, setting, _ = case
    episode = start(case)
    runs = play(episode, policy)
    jobs = episode.state.stages["job"][runs["stage"]]
    for executor in range(setting.executors):
        own = runs["executor"] == executor
        pause_ms = runs["start_ms"][own][1:] - runs["end_ms"][own][:-1]
        has_moved = np.diff(jobs[own]) != 0
        assert (pause_ms >= np.where(has_moved, 1000.0 * setting.moving_s, 0.0) - 1e-6).all()
        assert (runs["wave"][own][1:][has_moved] != 2).all()


@settings(max_examples=100)
@given(clusters(), policies)
def test_a_stage_waits_for_its_parents_and_a_job_for_its_last_task(
    case: Case, policy: CompiledRule | SparkPolicy
) -> None:
    profiles, setting, sequence = case
    episode = start(case)
    runs = play(episode, policy)
    state = episode.state
    for number, stage in enumerate(state.stages):
        own = runs["stage"] == number
        known = profiles.stages[stage["profile"]]
        assert own.sum() == known["tasks"] - stage["remaining"]
        first_ms = runs["start_ms"][own].min(initial=np.inf)
        job = state.jobs[stage["job"]]
        assert first_ms >= job["arrival_ms"] + 1000.0 * setting.moving_s
        for parent in profiles.neighbours[known["first_parent"] :][: known["parents"]]:
            before = runs["stage"] == job["first_stage"] + parent
            assert first_ms >= runs["end_ms"][before].max(initial=0.0)
            assert (
                not own.any()
                or before.sum()
                == state.profiles["tasks"][state.stages["profile"]][job["first_stage"] + parent]
            )
    for number, job in enumerate(state.jobs):
        of_job = state.stages["job"][runs["stage"]] == number
        if not np.isnan(job["completed_ms"]):
            assert job["completed_ms"] == runs["end_ms"][of_job].max()
    assert len(sequence.kinds) == len(state.jobs)


@settings(max_examples=100)
@given(clusters(), policies)
def test_a_duration_is_a_sample_of_the_stage(case: Case, policy: CompiledRule | SparkPolicy) -> None:
    profiles, setting, _ = case
    episode = start(case)
    for run in play(episode, policy):
        known = profiles.stages[episode.state.stages["profile"][run["stage"]]]
        span = run["wave"] * len(LEVELS) + run["level"]
        samples = profiles.samples_ms[known["start"][span] :][: known["count"][span]]
        allowed = [samples]
        if run["wave"] == FIRST and known["count"][FRESH * len(LEVELS) + run["level"]] == 0:
            allowed.append(samples + 1000.0 * setting.warmup_s)
        took_ms = run["end_ms"] - run["start_ms"]
        assert np.isclose(np.concatenate(allowed), took_ms, atol=1e-6).any()


@settings(max_examples=50)
@given(clusters(), policies, st.integers(0, 1000))
def test_a_policy_that_leaves_nobody_idle_finishes_every_job(
    case: Case, policy: CompiledRule | SparkPolicy, seed: int
) -> None:
    episode = start(case, seed)
    if isinstance(policy, RandomPolicy):
        policy = RandomPolicy(seed, 0.0)
    result = episode.play(policy)
    assert (result.completion_s > 0.0).all()
    assert len(result.runs) == sum(
        int(case[0].stages["tasks"][case[0].first_stage[kind] : case[0].first_stage[kind + 1]].sum())
        for kind in case[2].kinds
    )


def digest(episode: SparkEpisode) -> str:
    """Fold every table into one value."""
    whole = hashlib.sha256()
    for table in episode.state:
        whole.update(table.tobytes())
    return whole.hexdigest()


@settings(max_examples=50)
@given(clusters(), st.integers(0, 1000), st.integers(0, 12))
def test_the_same_answers_give_the_same_bytes_from_the_start_and_from_a_copy(
    case: Case, seed: int, answers: int
) -> None:
    one, other = start(case, seed), start(case, seed)
    policy, same = RandomPolicy(seed, 0.1), RandomPolicy(seed, 0.1)
    for _ in range(answers):
        if one.is_over:
            break
        one.answer(policy(one.decision()))
        other.answer(same(other.decision()))
    assert digest(one) == digest(other)
    copied = one.copy()
    before = digest(one)
    play(copied, fair())
    assert digest(one) == before
    play(one, fair())
    assert digest(one) == digest(copied)
