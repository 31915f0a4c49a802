"""Parts merged equal the whole; scores are a pure function of frozen statistics."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray

from stowplan.core.semantics import (
    SCORE_LIMIT,
    DriftLimits,
    DriftVerdict,
    Feature,
    drift_report,
    freeze,
    no_moments,
    standard_scores,
    statistics_from_bytes,
    statistics_to_bytes,
)

Rows = NDArray[np.float64]

FEATURES = (Feature("plain", -1e6, 1e6), Feature("log", 1e-6, 1e9, is_log=True))
anything = st.floats(allow_nan=True, allow_infinity=True, width=64)
rows = hnp.arrays(
    np.float64, st.tuples(st.integers(0, 8), st.just(2)), elements=anything | st.floats(-1e3, 1e3)
)


@given(rows, rows, rows)
def test_merged_parts_are_the_whole(first: Rows, second: Rows, third: Rows) -> None:
    empty = no_moments(FEATURES)
    whole = empty.added(np.concatenate([first, second, third]))
    streamed = empty.added(first).added(second).added(third)
    merged = empty.added(third).merged(empty.added(first).merged(empty.added(second)))
    for parts in (streamed, merged):
        np.testing.assert_array_equal(parts.count, whole.count)
        np.testing.assert_array_equal(parts.missing, whole.missing)
        np.testing.assert_array_equal(parts.histogram, whole.histogram)
        np.testing.assert_allclose(parts.mean, whole.mean, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(parts.squares, whole.squares, rtol=1e-9, atol=1e-6)


@given(rows, rows)
def test_scores_are_a_pure_function_of_frozen_statistics(trained: Rows, served: Rows) -> None:
    frozen = freeze(no_moments(FEATURES).added(trained))
    kept = served.copy()
    scores, known = standard_scores(served, frozen)
    np.testing.assert_array_equal(served, kept)
    again = standard_scores(served, statistics_from_bytes(statistics_to_bytes(frozen)))
    assert scores.tobytes() == again[0].tobytes()
    assert known.tobytes() == again[1].tobytes()
    assert np.isfinite(scores).all()
    assert (np.abs(scores) <= SCORE_LIMIT).all()
    assert (scores[~known] == 0.0).all()
    was_seen = np.isfinite(trained).any(axis=0)
    np.testing.assert_array_equal(known, np.isfinite(served) & was_seen)
    for row in range(served.shape[0]):  # a row's scores do not depend on the rows beside it
        alone, _ = standard_scores(served[row : row + 1], frozen)
        assert alone.tobytes() == scores[row : row + 1].tobytes()


@given(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3))
def test_scores_keep_the_order_of_numbers(low: float, high: float) -> None:
    frozen = freeze(no_moments(FEATURES[:1]).added(np.arange(-50.0, 50.0)[:, None]))
    scores, _ = standard_scores(np.array([[min(low, high)], [max(low, high)]]), frozen)
    assert scores[0, 0] <= scores[1, 0]


@given(rows, rows, st.integers(1, 40))
def test_a_drift_report_always_has_a_verdict(trained: Rows, seen: Rows, least: int) -> None:
    empty = no_moments(FEATURES)
    frozen = freeze(empty.added(trained))
    report = drift_report(frozen, empty.added(seen), DriftLimits(least_count=least))
    assert [feature.name for feature in report.features] == list(frozen.names)
    for feature in report.features:
        assert 0.0 <= feature.missing_share <= 1.0
        assert math.isnan(feature.stability_index) or feature.stability_index >= 0.0
        beyond = feature.verdict in {DriftVerdict.WATCH, DriftVerdict.DRIFTED}
        assert not beyond or feature.reasons
    # The more a report asks for before it judges, the less it can say.
    shy = drift_report(frozen, empty.added(seen), DriftLimits(least_count=1000))
    assert not any(feature.reasons for feature in shy.features)
