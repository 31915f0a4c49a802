"""The statistics of durations: quantiles with weights and bounds, credibility, and Student's quantile.

All values are natural logarithms of seconds: durations spread by factors, not by seconds.

Sources:
    E. L. Kaplan, P. Meier, "Nonparametric Estimation from Incomplete Observations", JASA 53 (1958): the share
        that lasts longer than y, from ends and bounds.
    B. Efron, "The two sample problem with censored data", 5th Berkeley Symposium (1967): a bound beyond the
        last end counts as an end.
    L. Kish, Survey Sampling (1965), section 11.7: how many equal weights a set of weights is worth.
    H. Bühlmann, "Experience rating and credibility", ASTIN Bulletin 4 (1967): Z = n / (n + k).
    S. R. Searle, Linear Models (1971), chapter 9: variance components of one-way data by moments.
    M. Abramowitz, I. A. Stegun, Handbook of Mathematical Functions (1964), 26.7.5: Student's quantile.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

__all__ = [
    "LOW",
    "MAD_TO_SIGMA",
    "Sample",
    "credibility",
    "effective_count",
    "intraclass",
    "quantile",
    "scale",
    "t_quantile",
]

LOW: Final = 0.1
"""The lower end of every interval given; the upper is its mirror image, so an interval holds 80 %."""

MAD_TO_SIGMA: Final = 1.0 / NormalDist().inv_cdf(0.75)
"""From the median absolute deviation of a normal law to its standard deviation."""

_QUARTILES_TO_SIGMA: Final = 2.0 * NormalDist().inv_cdf(0.75)
_SAME: Final = 1e-12


@dataclass(frozen=True, slots=True, order=True)
class Sample:
    """A value with its weight; a bound (`is_bound`) says that the value is larger than `value`.

    Samples are ordered by value, at equal values an end before a bound, as Kaplan and Meier have it.
    """

    value: float
    is_bound: bool = False
    weight: float = 1.0


def quantile(samples: Sequence[Sample], share: float) -> float:
    """Return the value below which `share` (0–1) of the weight lies, by Kaplan and Meier.

    Where exactly `share` lies below one end, the middle between it and the next counts. `samples` are sorted.

    Raises:
        ValueError: there are no samples.
    """
    at_risk = math.fsum(sample.weight for sample in samples)
    lasting = 1.0
    previous: float | None = None
    last = len(samples) - 1
    for index, sample in enumerate(samples):
        if not sample.is_bound or index == last:  # Efron: the last counts as an end
            if previous is not None:
                return 0.5 * (previous + sample.value)
            lasting = lasting * max(0.0, 1.0 - sample.weight / at_risk) if index < last else 0.0
            below = 1.0 - lasting
            if below > share + _SAME:
                return sample.value
            if below >= share - _SAME:
                previous = sample.value
        at_risk -= sample.weight
    if previous is not None:
        return previous
    raise ValueError("no samples to take a quantile of; give at least one")


def scale(samples: Sequence[Sample]) -> float:
    """Return the standard deviation of the normal law with the same quartiles; outliers do not move it."""
    return (quantile(samples, 0.75) - quantile(samples, 0.25)) / _QUARTILES_TO_SIGMA


def effective_count(weights: Iterable[float]) -> float:
    """Return how many equal weights the `weights` are worth (Kish); 0 without any."""
    listed = list(weights)
    squares = math.fsum(weight * weight for weight in listed)
    return math.fsum(listed) ** 2 / squares if squares > 0.0 else 0.0


def credibility(count: float, share_between: float) -> float:
    """Return the weight Z of a group's own mean against that of all, 0–1 (Bühlmann).

    Z = n / (n + k) with k = within-group variance ∕ between-group variance = (1 − ρ) / ρ.

    Args:
        count: n, the group's observations.
        share_between: ρ, the share of the variance that lies between groups, 0–1.
    """
    if count <= 0.0 or share_between <= 0.0:
        return 0.0
    return count * share_between / (count * share_between + 1.0 - share_between)


def intraclass(groups: Iterable[Sequence[float]]) -> tuple[float, int] | None:
    """Return the share of the variance that lies between groups, 0–1, and the degrees of freedom within.

    None where no group has two values, or there is only one group: nothing can be told. Method of moments:
    within = Σ(y − ȳᵢ)² / (N − I), between = (Σnᵢ(ȳᵢ − ȳ)² / (I − 1) − within) / n₀ with
    n₀ = (N − Σnᵢ² / N) / (I − 1).
    """
    kept = [group for group in groups if group]
    total = sum(len(group) for group in kept)
    freedom = total - len(kept)
    if len(kept) < 2 or freedom < 1:
        return None
    means = [statistics.fmean(group) for group in kept]
    grand = math.fsum(math.fsum(group) for group in kept) / total
    within = (
        math.fsum((y - mean) ** 2 for group, mean in zip(kept, means, strict=True) for y in group) / freedom
    )
    spread = math.fsum(len(group) * (mean - grand) ** 2 for group, mean in zip(kept, means, strict=True))
    usual = (total - math.fsum(len(group) ** 2 for group in kept) / total) / (len(kept) - 1)
    between = max(0.0, (spread / (len(kept) - 1) - within) / usual)
    if within + between <= _SAME:
        return None  # all equal: both answers are right
    return between / (within + between), freedom


def t_quantile(share: float, freedom: float) -> float:
    """Return the quantile of Student's t law; within 0.1 % for 0.1 ≤ `share` ≤ 0.9 and `freedom` ≥ 3."""
    z = NormalDist().inv_cdf(share)
    return (
        z
        + (z**3 + z) / (4.0 * freedom)
        + (5.0 * z**5 + 16.0 * z**3 + 3.0 * z) / (96.0 * freedom**2)
        + (3.0 * z**7 + 19.0 * z**5 + 17.0 * z**3 - 15.0 * z) / (384.0 * freedom**3)
    )
