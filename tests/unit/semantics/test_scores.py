"""Statistics of training, frozen; standard scores; drift."""

import math
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from stowplan.core.semantics import (
    CATALOGUE,
    SCORE_LIMIT,
    DriftLimits,
    DriftVerdict,
    Feature,
    FrozenStatistics,
    Moments,
    Source,
    drift_report,
    feature_of,
    feature_rows,
    freeze,
    measured,
    no_moments,
    standard_scores,
    statistics_from_bytes,
    statistics_to_bytes,
)
from stowplan.core.semantics.moments import HISTOGRAM_BINS
from stowplan.errors import InvalidFile, InvalidInput

PLAIN = Feature("plain", -100.0, 100.0)
LOG = Feature("log", 1e-5, 60.0, is_log=True)
FEATURES = (PLAIN, LOG)
LIMITS = DriftLimits()


def drawn(count: int, seed: int = 3, mean: float = 2.0, spread: float = 4.0) -> np.ndarray:
    random = np.random.default_rng(seed)
    return np.column_stack([random.normal(mean, spread, count), random.lognormal(-5.0, 0.7, count)])


def moments(rows: np.ndarray) -> Moments:
    return no_moments(FEATURES).added(rows)


def test_mean_and_variance_are_numpys() -> None:
    rows = drawn(1000)
    seen = moments(rows)
    scaled = np.column_stack([rows[:, 0], np.log(rows[:, 1])])
    np.testing.assert_allclose(seen.mean, scaled.mean(axis=0))
    np.testing.assert_allclose(seen.variance, scaled.var(axis=0))
    assert seen.histogram.sum(axis=1).tolist() == [1000, 1000]


def test_missing_numbers_are_counted_and_outliers_bounded() -> None:
    rows = np.array([[1.0, math.nan], [math.nan, math.inf], [1e12, 1.0], [-math.inf, 0.0]])
    seen = moments(rows)
    assert seen.count.tolist() == [2, 2]
    assert seen.missing.tolist() == [2, 2]
    np.testing.assert_allclose(seen.mean, [(1.0 + 100.0) / 2, math.log(1e-5) / 2])


def test_a_far_mean_loses_no_digits() -> None:
    feature = Feature("far", 0.0, 1e12)
    rows = 1e9 + np.arange(1000.0)[:, None] % 2
    assert no_moments([feature]).added(rows).variance[0] == pytest.approx(0.25)


def test_scores_are_standard() -> None:
    rows = drawn(5000)
    scores, known = standard_scores(rows, freeze(moments(rows)))
    assert scores.dtype == np.float32
    assert known.all()
    np.testing.assert_allclose(scores.mean(axis=0), 0.0, atol=1e-5)
    np.testing.assert_allclose(scores.std(axis=0), 1.0, atol=1e-4)


def test_missing_is_zero_with_a_mask_beside_it() -> None:
    frozen = freeze(moments(drawn(500)))
    mean = frozen.features[0].mean
    scores, known = standard_scores(np.array([[math.nan, 1.0], [mean, math.inf]]), frozen)
    assert scores[0, 0] == scores[1, 0] == 0.0
    assert known.tolist() == [[False, True], [True, False]]
    extreme, _ = standard_scores(np.array([[1e30, 1e30], [-1e30, -1.0]]), frozen)
    assert extreme.tolist() == [[SCORE_LIMIT] * 2, [-SCORE_LIMIT] * 2]


def test_a_constant_feature_shows_when_it_is_no_longer() -> None:
    frozen = freeze(no_moments([PLAIN]).added(np.zeros((100, 1))))
    scores, _ = standard_scores(np.array([[0.0], [50.0]]), frozen)
    assert scores.ravel().tolist() == [0.0, SCORE_LIMIT]


def test_a_feature_that_training_never_saw_is_masked() -> None:
    frozen = freeze(no_moments([PLAIN]).added(np.full((10, 1), math.nan)))
    scores, known = standard_scores(np.array([[7.0]]), frozen)
    assert scores.tolist() == [[0.0]]
    assert known.tolist() == [[False]]
    assert drift_report(frozen, no_moments([PLAIN]), LIMITS).verdict is DriftVerdict.NEVER_TRAINED


def test_empty_input() -> None:
    frozen = freeze(no_moments(FEATURES).added(np.empty((0, 2))))
    scores, known = standard_scores(np.empty((0, 2)), frozen)
    assert scores.shape == known.shape == (0, 2)
    assert freeze(no_moments([])).features == ()
    assert standard_scores(np.empty((3, 0)), freeze(no_moments([])))[0].shape == (3, 0)


def test_statistics_travel_as_bytes() -> None:
    frozen = freeze(moments(drawn(500)))
    content = statistics_to_bytes(frozen)
    assert statistics_from_bytes(content) == frozen
    assert statistics_to_bytes(statistics_from_bytes(content)) == content
    for broken in (content[:-5], b"", b"{}", content.replace(b'"mean"', b'"men"')):
        with pytest.raises(InvalidFile, match="cannot be read"):
            statistics_from_bytes(broken)
    with pytest.raises(InvalidFile, match="statistics/9"):
        statistics_from_bytes(content.replace(b"statistics/1", b"statistics/9"))
    wrong = msgspec.json.decode(content)
    wrong["features"][0]["deviation"] = 0.0
    with pytest.raises(InvalidFile, match="deviation"):
        statistics_from_bytes(msgspec.json.encode(wrong))


def test_columns_that_training_had_not_are_refused() -> None:
    frozen = freeze(moments(drawn(10)))
    frozen.require_names(["plain", "log"])
    with pytest.raises(InvalidInput, match="column 0 is 'log'"):
        frozen.require_names(["log", "plain"])
    with pytest.raises(InvalidInput, match="1 columns"):
        frozen.require_names(["plain"])
    with pytest.raises(InvalidInput, match="one column per feature"):
        standard_scores(np.zeros((3, 1)), frozen)
    with pytest.raises(InvalidInput, match="occur twice"):
        no_moments([PLAIN, PLAIN])
    with pytest.raises(InvalidInput, match="occur twice"):
        FrozenStatistics((frozen.features[0],) * 2)
    with pytest.raises(InvalidInput, match="cannot be merged"):
        no_moments([PLAIN]).merged(no_moments([LOG]))


@pytest.mark.parametrize(
    ("low", "high", "is_log"),
    [(1.0, 1.0, False), (0.0, 1.0, True), (math.nan, 1.0, False), (0.0, math.inf, False)],
)
def test_features_without_meaning_are_refused(low: float, high: float, is_log: bool) -> None:
    with pytest.raises(InvalidInput, match="is clipped to"):
        Feature("x", low, high, is_log)


def test_quantile_bins_hold_equal_shares() -> None:
    statistics = freeze(moments(drawn(20_000))).features[0]
    assert len(statistics.shares) == 10
    assert math.fsum(statistics.shares) == pytest.approx(1.0)
    assert max(statistics.shares) < 0.15
    assert statistics.edges[-1] < HISTOGRAM_BINS
    constant = freeze(no_moments([PLAIN]).added(np.zeros((50, 1)))).features[0]
    assert constant.shares in {(1.0,), (1.0, 0.0)}


def test_the_same_distribution_is_stable() -> None:
    report = drift_report(freeze(moments(drawn(20_000, 1))), moments(drawn(2000, 2)), LIMITS)
    assert report.verdict is DriftVerdict.STABLE
    assert report.in_words() == []
    for feature in report.features:
        assert abs(feature.mean_shift) < 0.1
        assert feature.variance_ratio == pytest.approx(1.0, abs=0.15)
        assert feature.stability_index < 0.02


@pytest.mark.parametrize(
    ("rows", "verdict", "word"),
    [
        (drawn(2000, mean=3.4), DriftVerdict.WATCH, "mean moved"),
        (drawn(2000, mean=7.0), DriftVerdict.DRIFTED, "mean moved"),
        (drawn(2000, mean=-3.0), DriftVerdict.DRIFTED, "mean moved"),
        (drawn(2000, spread=9.0), DriftVerdict.DRIFTED, "variance changed"),
        (drawn(2000, spread=1.0), DriftVerdict.DRIFTED, "variance changed"),
        (
            np.where(np.arange(4000).reshape(2000, 2) % 20 == 0, math.nan, drawn(2000)),
            DriftVerdict.WATCH,
            "missing",
        ),
        (
            np.where(np.arange(4000).reshape(2000, 2) % 4 == 0, math.nan, drawn(2000)),
            DriftVerdict.DRIFTED,
            "missing",
        ),
        (np.full((2000, 2), math.nan), DriftVerdict.DRIFTED, "missing"),
        (np.full((2000, 2), 2.0), DriftVerdict.DRIFTED, "variance changed"),
    ],
)
def test_what_drifts_is_named(rows: np.ndarray, verdict: DriftVerdict, word: str) -> None:
    report = drift_report(freeze(moments(drawn(20_000, 1))), moments(rows), LIMITS)
    assert report.features[0].verdict is verdict
    assert any(word in reason for reason in report.features[0].reasons)
    assert report.in_words()[0]


def test_a_changed_shape_shows_in_the_stability_index_alone() -> None:
    # Two peaks with mean and variance of the one at training.
    peaks = np.where(np.random.default_rng(5).random(4000) < 0.5, 2.0 - 4.0, 2.0 + 4.0)
    rows = np.column_stack([peaks, drawn(4000)[:, 1]])
    (feature, _) = drift_report(freeze(moments(drawn(20_000, 1))), moments(rows), LIMITS).features
    assert abs(feature.mean_shift) < 0.1
    assert 0.9 < feature.variance_ratio < 1.1
    assert feature.stability_index > 1.0
    assert feature.verdict is DriftVerdict.DRIFTED
    assert [reason.split(" ")[0] for reason in feature.reasons] == ["stability"]


def test_few_numbers_are_no_judgement() -> None:
    frozen = freeze(moments(drawn(20_000, 1)))
    assert drift_report(frozen, moments(drawn(199, mean=50.0)), LIMITS).verdict is DriftVerdict.TOO_FEW
    assert drift_report(frozen, no_moments(FEATURES), LIMITS).verdict is DriftVerdict.TOO_FEW
    assert drift_report(freeze(no_moments([])), no_moments([]), LIMITS).verdict is DriftVerdict.STABLE


def test_only_the_features_of_training_are_compared() -> None:
    frozen = freeze(moments(drawn(100)))
    with pytest.raises(InvalidInput, match="column 0 is 'log'"):
        drift_report(frozen, no_moments([LOG, PLAIN]), LIMITS)
    with pytest.raises(InvalidInput, match="other bounds"):
        drift_report(frozen, no_moments([Feature("plain", -1.0, 1.0), LOG]), LIMITS)


@pytest.mark.parametrize("name", ["missing_growth", "mean_shift", "variance_ratio", "stability_index"])
@pytest.mark.parametrize("pair", [(2.0, 1.5), (-1.0, 2.0), (1.5, math.inf)])
def test_limits_without_meaning_are_refused(name: str, pair: tuple[float, float]) -> None:
    with pytest.raises(InvalidInput, match=f"DriftLimits.{name}"):
        replace(LIMITS, **{name: pair})


def test_statistics_without_meaning_are_refused() -> None:
    one = freeze(moments(drawn(100))).features[0]
    for changed in ({"count": -1}, {"mean": math.nan}, {"edges": (5, 5)}, {"shares": (1.0,)}):
        with pytest.raises(InvalidInput, match=next(iter(changed))):
            msgspec.structs.replace(one, **changed)


def test_every_quantity_can_be_a_feature() -> None:
    features = [feature_of(name) for name in CATALOGUE]
    assert [feature.name for feature in features] == list(CATALOGUE)
    frozen = freeze(no_moments(features).added(np.ones((5, len(features)))))
    assert standard_scores(np.zeros((1, len(features))), frozen)[1].all()


def test_rows_hold_only_known_numbers() -> None:
    features = [feature_of("rtt_s"), feature_of("storage_iops")]
    fresh = measured("rtt_s", 1e-3, source=Source.PING, measured_s=0.0)
    rows = feature_rows([{"rtt_s": fresh}, {"rtt_s": fresh.at(1000.0)}, {}], features)
    assert rows[0, 0] == 1e-3
    assert np.isnan(rows).sum() == 5
