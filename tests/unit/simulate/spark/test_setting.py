"""The job sequences of seeds are those that published results were made with."""

from __future__ import annotations

import numpy as np
import pytest

from stowplan.errors import InvalidInput
from stowplan.simulate.spark import STREAMING, JobSequence, SparkProfiles, SparkSetting
from tests.spark_cases import query, sequence, stage

SCALES = ("2g", "5g", "10g", "20g", "50g", "80g", "100g")


def test_a_seed_gives_the_arrivals_of_the_public_simulator() -> None:
    queries = {str(number): query([stage([1.0])]) for number in range(1, 23)}
    profiles = SparkProfiles.of(dict.fromkeys(SCALES, queries), "test")
    drawn = JobSequence.draw(STREAMING, profiles, np.random.default_rng(0))
    jobs = [(1 + kind % 22, SCALES[kind // 22]) for kind in drawn.kinds[:4].tolist()]
    assert jobs == [(19, "50g"), (7, "2g"), (4, "80g"), (12, "50g")]
    assert drawn.arrivals_ms[:4] == pytest.approx([0.0, 25489.9275366466, 25546.6607036773, 66295.1715701369])
    assert len(drawn.kinds) == 200


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"executors": 0}, "0 executors for 5 jobs"),
        ({"jobs": 0}, "3 executors for 0 jobs"),
        ({"mean_gap_s": 0.0}, "mean gap between jobs is 0.0 s"),
        ({"moving_s": -1.0}, "moving delay is -1.0 s"),
        ({"warmup_s": float("nan")}, "warm-up is nan s"),
    ],
)
def test_a_setting_that_is_none_is_refused(change: dict[str, float], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        SparkSetting(**{"executors": 3, "jobs": 5, **change})  # type: ignore[arg-type]


def test_arrivals_out_of_order_are_refused() -> None:
    with pytest.raises(InvalidInput, match="0 kinds of jobs for 0 arrivals"):
        sequence()
    for arrivals_s in ((1.0,), (0.0, 2.0, 1.0), (0.0, float("inf"))):
        with pytest.raises(InvalidInput, match="arrivals must begin at 0 and ascend"):
            sequence(*arrivals_s)
