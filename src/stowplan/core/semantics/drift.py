"""Drift: whether what is served still looks like what was trained on, feature by feature.

Four comparisons with the frozen statistics, each with a limit to watch and a limit to act on:

* share of missing numbers: by how much it grew;
* mean: by how many of training's deviations it moved;
* variance: ratio of the two, the larger over the smaller;
* distribution: population stability index over training's quantile bins, Σ (q−p)·ln(q/p), p the share of a
  bin at training and q now (half a count is added to each bin, so that an empty one is finite). Below 0.1 it
  is customarily called stable, from 0.25 on changed (Siddiqi, *Credit Risk Scorecards*, 2006). Without drift
  it is about (bins − 1)·(1/n + 1/m) for n and m numbers (Yurdakul and Naranjo, *Statistical properties of the
  population stability index*, 2020): 0.045 at 200 numbers against many, hence the least count.

Of a normal distribution the index of a shift by d deviations is d², that of a variance ratio r is (r + 1/r −
2)/2: the limits of mean and variance are where the index meets its own. That of missing numbers is a
proposal. All take the numbers for independent; readings a few seconds apart are not, so compare hours, not
minutes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.semantics.moments import Moments
from stowplan.core.semantics.scores import FeatureStatistics, FrozenStatistics
from stowplan.errors import InvalidInput

__all__ = ["DriftLimits", "DriftReport", "DriftVerdict", "FeatureDrift", "drift_report"]

Counts = NDArray[np.int64]


class DriftVerdict(StrEnum):
    """What is to be said of a feature."""

    STABLE = "stable"
    WATCH = "watch"
    """Beyond a limit to watch."""
    DRIFTED = "drifted"
    """Beyond a limit to act on: the model sees what it was not trained on."""
    TOO_FEW = "too-few"
    """Fewer numbers than a judgement needs; missing ones may still be a drift."""
    NEVER_TRAINED = "never-trained"
    """Training had no number of it, so the model ignores it."""


_ORDER: Final = (
    DriftVerdict.STABLE,
    DriftVerdict.TOO_FEW,
    DriftVerdict.NEVER_TRAINED,
    DriftVerdict.WATCH,
    DriftVerdict.DRIFTED,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftLimits:
    """From where on to watch, and to act; pairs (watch, act). See the module for their sources."""

    missing_growth: tuple[float, float] = (0.05, 0.2)
    mean_shift: tuple[float, float] = (0.3, 0.5)
    variance_ratio: tuple[float, float] = (1.5, 2.0)
    stability_index: tuple[float, float] = (0.1, 0.25)
    least_count: int = 200

    def __post_init__(self) -> None:
        """Refuse limits without meaning.

        Raises:
            InvalidInput: a pair is not ascending and above 0, the ratio not above 1, or the count below 1.
        """
        for name in ("missing_growth", "mean_shift", "variance_ratio", "stability_index"):
            watch, act = getattr(self, name)
            least = 1.0 if name == "variance_ratio" else 0.0
            if not least < watch <= act < math.inf:
                raise InvalidInput(
                    f"DriftLimits.{name} is {(watch, act)}; it must ascend from above {least:g} and be finite"
                )
        if self.least_count < 1:
            raise InvalidInput(f"DriftLimits.least_count is {self.least_count}; at least 1 is needed")


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureDrift:
    """The comparison of one feature.

    Attributes:
        name: of the feature.
        verdict: the worst of what the comparisons say.
        count: numbers seen now.
        missing_share, trained_missing_share: share of rows without a number.
        mean_shift: mean now less that of training, in training's deviations; NaN without numbers.
        variance_ratio: variance now over that of training; NaN without numbers.
        stability_index: of the distribution; NaN without numbers.
        reasons: what is beyond a limit, in words.
    """

    name: str
    verdict: DriftVerdict
    count: int
    missing_share: float
    trained_missing_share: float
    mean_shift: float
    variance_ratio: float
    stability_index: float
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftReport:
    """All features, in the order of the model's inputs."""

    features: tuple[FeatureDrift, ...]

    @property
    def verdict(self) -> DriftVerdict:
        """The worst verdict of all features; stable without features."""
        verdicts = [feature.verdict for feature in self.features]
        return max(verdicts, key=_ORDER.index, default=DriftVerdict.STABLE)

    def in_words(self) -> list[str]:
        """Return one line per feature that is not stable, worst first."""
        worst = sorted(self.features, key=lambda one: -_ORDER.index(one.verdict))
        return [
            f"{one.name}: {one.verdict} ({'; '.join(one.reasons) or f'{one.count} numbers'})"
            for one in worst
            if one.verdict is not DriftVerdict.STABLE
        ]


def _stability_index(trained: FeatureStatistics, histogram: Counts) -> float:
    parts = np.add.reduceat(histogram, (0, *trained.edges)).astype(np.float64)
    shares = np.array(trained.shares) * trained.count
    now = (parts + 0.5) / (parts.sum() + 0.5 * parts.size)
    then = (shares + 0.5) / (shares.sum() + 0.5 * shares.size)
    return float(((now - then) * np.log(now / then)).sum())


class _Findings:
    """Collects what is beyond a limit."""

    def __init__(self) -> None:
        self.verdict = DriftVerdict.STABLE
        self.reasons: list[str] = []

    def weigh(self, what: str, amount: float, limits: tuple[float, float]) -> None:
        watch, act = limits
        if not amount >= watch:
            return
        found = DriftVerdict.DRIFTED if amount >= act else DriftVerdict.WATCH
        self.verdict = max(self.verdict, found, key=_ORDER.index)
        self.reasons.append(f"{what} {amount:.3g}, limit {act if amount >= act else watch:g}")


def _compare(trained: FeatureStatistics, seen: Moments, column: int, limits: DriftLimits) -> FeatureDrift:
    count, absent = int(seen.count[column]), int(seen.missing[column])
    missing_share = absent / (count + absent) if count + absent else 0.0
    shift = ratio = index = math.nan
    if count and trained.count:
        shift = (float(seen.mean[column]) - trained.mean) / trained.deviation
        ratio = float(seen.variance[column]) / trained.deviation**2
        index = _stability_index(trained, seen.histogram[column])
    findings = _Findings()
    if count + absent >= limits.least_count:
        growth = missing_share - trained.missing_share
        findings.weigh("share missing grew by", growth, limits.missing_growth)
    if count >= limits.least_count:
        spread = max(ratio, 1.0 / ratio) if ratio > 0.0 else math.inf
        findings.weigh("mean moved by deviations", abs(shift), limits.mean_shift)
        findings.weigh("variance changed by the factor", spread, limits.variance_ratio)
        findings.weigh("stability index", index, limits.stability_index)
    verdict = findings.verdict
    if not trained.count:
        verdict = DriftVerdict.NEVER_TRAINED
    elif count < limits.least_count and verdict is DriftVerdict.STABLE:
        verdict = DriftVerdict.TOO_FEW
    return FeatureDrift(
        name=trained.feature.name,
        verdict=verdict,
        count=count,
        missing_share=missing_share,
        trained_missing_share=trained.missing_share,
        mean_shift=shift,
        variance_ratio=ratio,
        stability_index=index,
        reasons=tuple(findings.reasons),
    )


def drift_report(frozen: FrozenStatistics, seen: Moments, limits: DriftLimits) -> DriftReport:
    """Compare what was seen since with the statistics of training.

    Args:
        frozen: statistics of training.
        seen: moments of what was served, of the same features.
        limits: from where on to watch and to act.

    Raises:
        InvalidInput: the features differ.
    """
    trained = [one.feature for one in frozen.features]
    if list(seen.features) != trained:
        frozen.require_names([feature.name for feature in seen.features])
        raise InvalidInput("the features seen have other bounds or scales than those of training")
    return DriftReport(
        features=tuple(_compare(one, seen, column, limits) for column, one in enumerate(frozen.features))
    )
