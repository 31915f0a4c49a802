"""What holds for shares by size, whatever its parameters: jobs end, executors are left, bounds hold."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.simulate.spark import (
    JobSequence,
    ShareParameters,
    SparkEpisode,
    SparkProfiles,
    SparkSetting,
    size_shares,
)
from stowplan.simulate.spark.bounds import completion_bounds_s, mean_completion_bound_s
from stowplan.simulate.spark.shares import BOUNDS
from tests.spark_cases import clusters

Case = tuple[SparkProfiles, SparkSetting, JobSequence]
parameters = st.builds(ShareParameters, **{name: st.floats(*ends) for name, ends in BOUNDS.items()})


@settings(max_examples=150)
@given(clusters(), parameters, st.integers(0, 1000))
def test_every_job_ends_every_executor_is_left_and_no_bound_is_beaten(
    case: Case, chosen: ShareParameters, seed: int
) -> None:
    profiles, setting, sequence = case
    episode = SparkEpisode(profiles, setting, sequence, np.random.default_rng(seed))
    result = episode.play(size_shares(chosen))
    state = episode.state
    assert (state.stages["remaining"] == 0).all()
    assert (state.stages["running"] == 0).all()
    # At the end all executors are at rest, each in one pool, and none is promised.
    assert state.pools["size"].sum() == setting.executors
    assert (state.due_ms == np.inf).all()
    assert np.bincount(state.executors["pool"], minlength=len(state.pools)).tolist() == (
        state.pools["size"].tolist()
    )
    assert (state.jobs["supply"] >= 0).all()
    assert (result.completion_s >= completion_bounds_s(profiles, setting, result) - 1e-6).all()
    assert result.mean_completion_s >= mean_completion_bound_s(profiles, setting, result) - 1e-6
