import math

import numpy as np
import pytest

from stowplan.errors import InvalidInput
from stowplan.simulate.statistics import paired_change, percentile, student_t_quantile


@pytest.mark.parametrize(
    ("degrees", "expected"),
    [(1, 12.7062), (2, 4.30265), (4, 2.77645), (9, 2.26216), (29, 2.04523), (1000, 1.96234)],
)
def test_student_quantile_agrees_with_printed_tables(degrees: int, expected: float) -> None:
    assert student_t_quantile(0.975, degrees) == pytest.approx(expected, rel=1e-5)


def test_student_quantile_of_one_degree_is_cauchys() -> None:
    assert student_t_quantile(0.9, 1) == pytest.approx(math.tan(math.pi * 0.4), rel=1e-9)


@pytest.mark.parametrize(("probability", "degrees"), [(0.5, 3), (1.0, 3), (0.975, 0)])
def test_student_quantile_refuses_what_has_none(probability: float, degrees: int) -> None:
    with pytest.raises(InvalidInput, match="Student"):
        student_t_quantile(probability, degrees)


def test_change_is_the_geometric_mean_ratio_with_a_t_interval() -> None:
    # log ratios −0.1, −0.2, −0.3: mean −0.2, deviation 0.1, half width 4.30265 · 0.1/√3.
    theirs = [10.0, 20.0, 40.0]
    ours = [value * math.exp(-step) for value, step in zip(theirs, (0.1, 0.2, 0.3), strict=True)]
    change = paired_change(ours, theirs)
    half = 4.302652729749464 * 0.1 / math.sqrt(3.0)
    assert change.estimate == pytest.approx(100.0 * math.expm1(-0.2))
    assert change.low == pytest.approx(100.0 * math.expm1(-0.2 - half), rel=1e-6)
    assert change.high == pytest.approx(100.0 * math.expm1(-0.2 + half), rel=1e-6)
    assert change.is_bounded


def test_interval_covers_the_truth_95_times_in_100() -> None:
    rng = np.random.default_rng(7)
    covered = 0
    for _ in range(1000):
        theirs = rng.uniform(50.0, 500.0, 5)
        ours = theirs * np.exp(rng.normal(-0.1, 0.2, 5))
        change = paired_change(ours.tolist(), theirs.tolist())
        covered += change.low <= 100.0 * math.expm1(-0.1) <= change.high
    assert 0.93 <= covered / 1000 <= 0.97


def test_one_pair_has_no_interval_and_equal_runs_no_change() -> None:
    assert not paired_change([1.0], [2.0]).is_bounded
    assert paired_change([1.0], [2.0]).estimate == pytest.approx(-50.0)
    assert paired_change([0.0, 0.0], [0.0, 0.0]).estimate == 0.0
    assert math.isnan(paired_change([1.0, 2.0], [0.0, 2.0]).estimate)


@pytest.mark.parametrize(("ours", "theirs"), [([], []), ([1.0], [1.0, 2.0])])
def test_pairs_must_be_pairs(ours: list[float], theirs: list[float]) -> None:
    with pytest.raises(InvalidInput, match="paired"):
        paired_change(ours, theirs)


def test_percentile_interpolates_and_knows_nothing_of_nothing() -> None:
    assert percentile(np.array([0.0, 10.0]), 0.95) == pytest.approx(9.5)
    assert math.isnan(percentile(np.zeros(0), 0.5))
