"""Streaming statistics of features: count, mean, variance and a histogram, one pass, mergeable.

Mean and variance by Welford's update, merged by the formula of Chan, Golub and LeVeque (*Updating formulae
and a pairwise algorithm for computing sample variances*, 1979): parts seen by many workers give what one
would have seen. Outliers are bounded before they count: each number is clipped to its feature's bounds, so
that one wild reading moves the mean by at most (bound − mean) / n.

The histogram has 512 bins of equal width between the bounds, on the feature's scale. Counts add exactly, and
any quantile follows to a 512th of the range; the drift report compares distributions by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.semantics.features import Feature, require_distinct, scaled
from stowplan.errors import InvalidInput

__all__ = ["HISTOGRAM_BINS", "Moments", "no_moments", "scaled_bounds"]

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

HISTOGRAM_BINS: Final = 512


def scaled_bounds(features: Sequence[Feature]) -> tuple[Floats, Floats]:
    """Return low and high bound of each feature on its own scale, (features,) each."""
    bounds = np.array([[feature.low for feature in features], [feature.high for feature in features]])
    low, high = scaled(bounds.reshape(2, len(features)), features)
    return low, high


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """What was seen of each feature so far; a value, changed by making the next one.

    Attributes:
        features: the columns.
        count: int64 (features,); numbers seen.
        missing: int64 (features,); rows without a number.
        mean: float64 (features,); on the feature's scale, 0 before the first number.
        squares: float64 (features,); sum of squared deviations from the mean.
        histogram: int64 (features, 512); numbers by bin.
    """

    features: tuple[Feature, ...]
    count: Counts
    missing: Counts
    mean: Floats
    squares: Floats
    histogram: Counts

    @property
    def variance(self) -> Floats:
        """Population variance of each feature, (features,); 0 below two numbers."""
        return self.squares / np.maximum(self.count, 1)

    def added(self, rows: Floats) -> Moments:
        """Return the moments with (n, features) more `rows`; NaN and infinite numbers count as missing.

        Raises:
            InvalidInput: there are not as many columns as features.
        """
        numbers = scaled(rows, self.features)
        known = ~np.isnan(numbers)
        count = known.sum(axis=0, dtype=np.int64)
        filled = np.where(known, numbers, 0.0)
        mean = filled.sum(axis=0) / np.maximum(count, 1)
        deviations = np.where(known, filled - mean, 0.0)
        low, high = scaled_bounds(self.features)
        bins = ((filled - low) / (high - low) * HISTOGRAM_BINS).astype(np.int64)
        row, column = np.nonzero(known)
        histogram = np.zeros_like(self.histogram)
        np.add.at(histogram, (column, np.clip(bins[row, column], 0, HISTOGRAM_BINS - 1)), 1)
        part = replace(
            self,
            count=count,
            missing=rows.shape[0] - count,
            mean=mean,
            squares=(deviations * deviations).sum(axis=0),
            histogram=histogram,
        )
        return self.merged(part)

    def merged(self, other: Moments) -> Moments:
        """Return the moments of what both saw.

        Raises:
            InvalidInput: the features differ.
        """
        if self.features != other.features:
            raise InvalidInput(
                f"statistics of {[f.name for f in self.features]} and of {[f.name for f in other.features]} "
                "cannot be merged; both must have the same features, bounds and scales"
            )
        count = self.count + other.count
        apart = other.mean - self.mean
        whole = np.maximum(count, 1)
        return replace(
            self,
            count=count,
            missing=self.missing + other.missing,
            mean=self.mean + apart * other.count / whole,
            squares=self.squares + other.squares + apart * apart * (self.count * other.count / whole),
            histogram=self.histogram + other.histogram,
        )


def no_moments(features: Sequence[Feature]) -> Moments:
    """Return the moments of features before anything was seen.

    Raises:
        InvalidInput: a name occurs twice.
    """
    require_distinct(features)
    width = len(features)
    return Moments(
        features=tuple(features),
        count=np.zeros(width, np.int64),
        missing=np.zeros(width, np.int64),
        mean=np.zeros(width),
        squares=np.zeros(width),
        histogram=np.zeros((width, HISTOGRAM_BINS), np.int64),
    )
