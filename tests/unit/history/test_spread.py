"""Quantiles with bounds and weights, credibility and variance components, on numbers worked by hand."""

import pytest

from stowplan.observe.history.spread import (
    Sample,
    credibility,
    effective_count,
    intraclass,
    quantile,
    scale,
    t_quantile,
)


def ends(*values: float) -> list[Sample]:
    return [Sample(value) for value in values]


@pytest.mark.parametrize(
    ("values", "median"), [((5.0,), 5.0), ((1.0, 3.0), 2.0), ((1.0, 2.0, 9.0), 2.0), ((1, 2, 4, 9), 3.0)]
)
def test_without_bounds_it_is_the_median(values: tuple[float, ...], median: float) -> None:
    assert quantile(ends(*values), 0.5) == median


def test_kaplan_and_meier_by_hand() -> None:
    # Lasting beyond 1: 4/5; a bound at 2; beyond 3: 4/5 × 2/3 = 8/15; beyond 4: 4/15; beyond 5: none.
    samples = [Sample(1.0), Sample(2.0, is_bound=True), Sample(3.0), Sample(4.0), Sample(5.0)]
    assert quantile(samples, 0.5) == 4.0
    assert quantile(samples, 0.25) == 3.0
    assert quantile(samples, 0.19) == 1.0


def test_a_last_bound_counts_as_an_end() -> None:
    assert quantile([Sample(1.0), Sample(7.0, is_bound=True)], 0.75) == 7.0
    assert quantile([Sample(7.0, is_bound=True)], 0.5) == 7.0


def test_weights_are_as_if_a_value_came_more_often() -> None:
    weighed = [Sample(1.0, weight=3.0), Sample(2.0), Sample(9.0, is_bound=True), Sample(10.0, weight=2.0)]
    repeated = [Sample(1.0)] * 3 + [Sample(2.0), Sample(9.0, is_bound=True)] + [Sample(10.0)] * 2
    for share in (0.1, 0.25, 0.45, 0.5, 0.75, 0.9):
        assert quantile(weighed, share) == quantile(repeated, share)


def test_nothing_has_no_quantile() -> None:
    with pytest.raises(ValueError, match="no samples"):
        quantile([], 0.5)


def test_scale_is_that_of_the_quartiles_and_an_outlier_does_not_move_it() -> None:
    assert scale(ends(0, 1, 2, 3, 4)) == pytest.approx(2.0 / 1.34898, rel=1e-5)
    assert scale(ends(0, 1, 2, 3, 400)) == scale(ends(0, 1, 2, 3, 4))


def test_effective_count_by_hand() -> None:
    assert effective_count([1.0, 1.0, 1.0]) == 3.0
    assert effective_count([2.0, 1.0]) == 9.0 / 5.0
    assert effective_count([]) == 0.0


@pytest.mark.parametrize(
    ("count", "share", "expected"),
    [(0.0, 0.5, 0.0), (1.0, 0.5, 0.5), (3.0, 0.5, 0.75), (1.0, 0.8, 0.8), (9, 0, 0)],
)
def test_credibility_by_hand(count: float, share: float, expected: float) -> None:
    assert credibility(count, share) == pytest.approx(expected)


def test_variance_components_by_hand() -> None:
    # Means 1 and 5, grand mean 3, n₀ = 2; within = (1 + 1 + 1 + 1) / 2 = 2; between = (16 − 2) / 2 = 7.
    found = intraclass([[0.0, 2.0], [4.0, 6.0]])
    assert found == (pytest.approx(7.0 / 9.0), 2)


def test_variance_components_where_nothing_can_be_told() -> None:
    assert intraclass([[1.0], [2.0]]) is None
    assert intraclass([[1.0, 2.0]]) is None
    assert intraclass([[1.0, 1.0], [1.0, 1.0]]) is None
    assert intraclass([[0.0, 4.0], [2.0, 2.0]]) == (0.0, 2)


@pytest.mark.parametrize(  # Abramowitz, Stegun, table 26.10; Fisher, Yates, table III
    ("freedom", "expected"), [(3, 1.638), (4, 1.533), (5, 1.476), (10, 1.372), (30, 1.310), (120, 1.289)]
)
def test_students_quantile_against_the_table(freedom: float, expected: float) -> None:
    assert t_quantile(0.9, freedom) == pytest.approx(expected, abs=1.5e-3)
    assert t_quantile(0.1, freedom) == -t_quantile(0.9, freedom)
