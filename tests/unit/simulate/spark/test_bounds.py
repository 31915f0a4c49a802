"""Bounds worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from stowplan.simulate.spark import SparkEpisode, SparkSetting, fair
from stowplan.simulate.spark.bounds import completion_bounds_s, mean_completion_bound_s
from tests.spark_cases import profiles_of, query, sequence, stage


def test_a_path_or_the_work_bounds_a_job() -> None:
    # 0 → 1 → 3 and 2 → 3: the path is 4 + 1 + 2 s long. The second job has 12 s of work for two executors.
    path = query(
        [stage([4000.0]), stage([1000.0]), stage([3000.0]), stage([2000.0])], [(0, 1), (1, 3), (2, 3)]
    )
    profiles = profiles_of(path, query([stage([2000.0], [2000.0] * 5)]))
    setting = SparkSetting(executors=2, jobs=2, warmup_s=0.0)
    jobs = sequence(0.0, 100.0)
    result = SparkEpisode(profiles, setting, jobs, np.random.default_rng(0)).play(fair())
    assert completion_bounds_s(profiles, setting, result).tolist() == [9.0, 8.0]
    assert mean_completion_bound_s(profiles, setting, result) == 8.5
    assert (result.completion_s >= [9.0, 8.0]).all()


def test_the_queue_bounds_the_mean() -> None:
    # One executor: 8 s of work at 0 s, 2 s at 1 s and 3 s at 20 s. The second goes first: 10, 2 and 3 s.
    profiles = profiles_of(query([stage([8000.0])]), query([stage([2000.0])]), query([stage([3000.0])]))
    setting = SparkSetting(executors=1, jobs=3, moving_s=0.0, warmup_s=0.0)
    jobs = sequence(0.0, 1.0, 20.0)
    result = SparkEpisode(profiles, setting, jobs, np.random.default_rng(0)).play(fair())
    assert mean_completion_bound_s(profiles, setting, result) == pytest.approx((10.0 + 2.0 + 3.0) / 3.0)
    assert result.mean_completion_s == pytest.approx((8.0 + 9.0 + 3.0) / 3.0)
