"""Arrival times: what each kind promises, and the same times from the same generator."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stowplan.errors import InvalidInput
from stowplan.simulate.workloads import AllAtOnce, Burst, Poisson, Replay, parse_arrivals

KINDS = (
    AllAtOnce(),
    Replay(),
    Replay(2.0),
    Poisson(30.0),
    Burst(60.0, 300.0, 120.0),
    Burst(5.0, 0.0, 10.0, 3.0),
)


@given(seed=st.integers(0, 2**32), count=st.integers(0, 50), kind=st.sampled_from(KINDS))
def test_times_are_finite_ascending_and_repeatable(seed: int, count: int, kind: Poisson) -> None:
    recorded = [3.0 * index for index in range(count)]
    times = kind.times_s(recorded, np.random.default_rng(seed))
    assert times.shape == (count,)
    assert np.isfinite(times).all()
    assert (times >= 0.0).all()
    assert (np.diff(times) >= 0.0).all()
    assert times.tolist() == kind.times_s(recorded, np.random.default_rng(seed)).tolist()


def test_replay_starts_at_zero_and_scales() -> None:
    rng = np.random.default_rng(0)
    assert Replay().times_s([100.0, 130.0, 190.0], rng).tolist() == [0.0, 30.0, 90.0]
    assert Replay(3.0).times_s([100.0, 130.0, 190.0], rng).tolist() == [0.0, 10.0, 30.0]


def test_poisson_has_its_mean_gap() -> None:
    times = Poisson(12.0).times_s([0.0] * 20_000, np.random.default_rng(1))
    gaps = np.diff(times)
    assert gaps.mean() == pytest.approx(12.0, rel=0.03)
    assert gaps.std() == pytest.approx(12.0, rel=0.03)  # exponential: mean and deviation agree


def test_burst_has_its_rates_inside_and_outside() -> None:
    burst = Burst(mean_gap_s=10.0, start_s=20_000.0, length_s=5_000.0)
    times = burst.times_s([0.0] * 20_000, np.random.default_rng(2))
    before = np.sum(times < 20_000.0)
    inside = np.sum((times >= 20_000.0) & (times < 25_000.0))
    after = np.sum((times >= 25_000.0) & (times < 60_000.0))
    assert before == pytest.approx(2_000, rel=0.1)
    assert inside == pytest.approx(17 * 500, rel=0.05)
    assert after == pytest.approx(3_500, rel=0.1)


def test_burst_of_factor_one_is_poisson() -> None:
    plain = Poisson(7.0).times_s([0.0] * 500, np.random.default_rng(3))
    burst = Burst(7.0, 100.0, 50.0, 1.0).times_s([0.0] * 500, np.random.default_rng(3))
    assert burst == pytest.approx(plain)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("at-once", AllAtOnce()),
        ("replay", Replay()),
        ("replay:4", Replay(4.0)),
        ("poisson:60", Poisson(60.0)),
        ("burst:60:300:120", Burst(60.0, 300.0, 120.0)),
        ("burst:60:300:120:5", Burst(60.0, 300.0, 120.0, 5.0)),
    ],
)
def test_parse(text: str, expected: object) -> None:
    assert parse_arrivals(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "", "soon", "poisson", "poisson:", "poisson:fast", "poisson:0", "poisson:-1", "poisson:nan",
        "poisson:inf", "poisson:1:2", "replay:0", "at-once:1", "burst:1:2", "burst:1:-2:3", "burst:1:2:0",
        "burst:1:2:3:0",
    ],
)  # fmt: skip
def test_unusable_arrivals_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="arrivals"):
        parse_arrivals(text)
