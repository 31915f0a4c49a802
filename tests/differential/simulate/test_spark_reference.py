"""The compiled Spark cluster against the one in plain Python: every decision, task and time is the same."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.simulate.spark.episode import SparkEpisode
from stowplan.simulate.spark.profiles import SparkProfiles
from stowplan.simulate.spark.setting import JobSequence, SparkSetting
from tests.spark_cases import RandomPolicy, clusters
from tests.spark_reference import ReferenceCluster, Sight


@settings(max_examples=200)
@given(case=clusters(), seed=st.integers(0, 1000), leaves=st.sampled_from([0.0, 0.2]))
def test_any_answers_have_the_same_consequences(
    case: tuple[SparkProfiles, SparkSetting, JobSequence], seed: int, leaves: float
) -> None:
    profiles, setting, sequence = case
    reference = ReferenceCluster(
        profiles, setting, sequence, np.random.default_rng(seed), RandomPolicy(seed, leaves).choose
    )
    reference.run()

    seen: list[Sight] = []
    policy = RandomPolicy(seed, leaves)
    episode = SparkEpisode(profiles, setting, sequence, np.random.default_rng(seed))
    while not episode.is_over:
        decision = episode.decision()
        schedulable = decision.stages[decision.schedulable].tolist()
        seen.append(Sight(episode.now_s, decision.offered, schedulable, decision.supply.tolist()))
        episode.answer(policy(decision))
    assert seen == reference.seen
    runs = episode.state.runs[: episode.state.counters["runs"][0]]
    assert runs[["start_ms", "end_ms", "stage", "executor"]].tolist() == reference.runs
    completed_ms = [np.nan if job.completed_ms is None else job.completed_ms for job in reference.jobs]
    np.testing.assert_array_equal(episode.state.jobs["completed_ms"], completed_ms)
