"""Standard scores: frozen statistics of training make z-scores of numbers, the same wherever they serve.

    z = (scaled number − mean) / deviation, within −5 … 5

What serves must see the numbers that training saw, so the statistics are frozen with the model: schema
version, feature names with bounds and scales, mean, deviation, and the deciles that the drift report compares
with. A missing number scores 0 and has a mask of 0 beside it, so that "average" and "unknown" never look
alike.

A deviation below one bin of the histogram is taken as one bin: a feature that was constant at training has a
score as soon as it is not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from stowplan.core.semantics.features import Feature, Scale, require_distinct
from stowplan.core.semantics.moments import HISTOGRAM_BINS, Moments, scaled_bounds
from stowplan.errors import InvalidFile, InvalidInput

__all__ = [
    "SCHEMA",
    "SCORE_LIMIT",
    "FeatureStatistics",
    "FrozenStatistics",
    "Scorer",
    "freeze",
    "standard_scores",
    "statistics_from_bytes",
    "statistics_to_bytes",
]

Floats = NDArray[np.float64]

SCHEMA: Final = "stowplan.statistics/1"
SCORE_LIMIT: Final = 5.0
"""Scores are clipped to ± this; a proposal."""
_QUANTILE_BINS: Final = 10


class FeatureStatistics(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What training saw of one feature.

    `edges` are the inner edges of the quantile bins, as indexes of the histogram: bin i of them holds
    histogram bins edges[i−1] … edges[i]−1. `shares` are the shares of the numbers in each; one more than
    edges.
    """

    feature: Feature
    count: int
    missing: int
    mean: float
    deviation: float
    edges: tuple[int, ...]
    shares: tuple[float, ...]

    @property
    def missing_share(self) -> float:
        """Share of the rows without a number; 0 without rows."""
        rows = self.count + self.missing
        return self.missing / rows if rows else 0.0

    def __post_init__(self) -> None:
        """Refuse statistics that cannot have been frozen.

        Raises:
            InvalidInput: a number is out of range; the message names it.
        """
        steps = (0, *self.edges, HISTOGRAM_BINS)
        checks = (
            ("count", self.count >= 0),
            ("missing", self.missing >= 0),
            ("mean", math.isfinite(self.mean)),
            ("deviation", math.isfinite(self.deviation) and self.deviation > 0.0),
            ("edges", all(low < high for low, high in pairwise(steps))),
            ("shares", len(self.shares) == len(self.edges) + 1),
            ("shares", all(0.0 <= share <= 1.0 for share in self.shares)),
        )
        for name, holds in checks:
            if not holds:
                raise InvalidInput(f"statistics of {self.feature.name!r}: {name} is {getattr(self, name)}")


class FrozenStatistics(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Statistics of all features of a model, in the order of its inputs."""

    features: tuple[FeatureStatistics, ...]
    schema: str = SCHEMA

    def __post_init__(self) -> None:
        """Refuse two features of one name.

        Raises:
            InvalidInput: a name occurs twice.
        """
        require_distinct([one.feature for one in self.features])

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features."""
        return tuple(one.feature.name for one in self.features)

    def require_names(self, names: Sequence[str]) -> None:
        """Refuse to score columns that are not the ones of training.

        Raises:
            InvalidInput: names or order differ; the message says where first.
        """
        for place, (trained, given) in enumerate(zip(self.names, names, strict=False)):
            if trained != given:
                raise InvalidInput(
                    f"column {place} is {given!r}, the model was trained with {trained!r} there"
                )
        if len(names) != len(self.names):
            raise InvalidInput(
                f"{len(names)} columns are given, the model was trained with {len(self.names)}"
            )


def _quantile_edges(histogram: NDArray[np.int64]) -> tuple[int, ...]:
    """Return inner edges that part the numbers into at most ten bins of about equal share."""
    total = int(histogram.sum())
    if not total:
        return ()
    reached = np.cumsum(histogram)
    aims = total * np.arange(1, _QUANTILE_BINS) / _QUANTILE_BINS
    edges = np.unique(np.searchsorted(reached, aims) + 1)
    return tuple(int(edge) for edge in edges if edge < HISTOGRAM_BINS)


def freeze(moments: Moments) -> FrozenStatistics:
    """Return the statistics of what was seen, for serving.

    A feature that was never seen is kept, with mean and deviation of no meaning: its count of 0 masks it.
    """
    low, high = scaled_bounds(moments.features)
    deviations = np.maximum(np.sqrt(moments.variance), (high - low) / HISTOGRAM_BINS)
    found: list[FeatureStatistics] = []
    for column, feature in enumerate(moments.features):
        edges = _quantile_edges(moments.histogram[column])
        parts = np.add.reduceat(moments.histogram[column], (0, *edges))
        count = int(moments.count[column])
        found.append(
            FeatureStatistics(
                feature=feature,
                count=count,
                missing=int(moments.missing[column]),
                mean=float(moments.mean[column]),
                deviation=float(deviations[column]),
                edges=edges,
                shares=tuple(float(part) / max(count, 1) for part in parts),
            )
        )
    return FrozenStatistics(tuple(found))


class Scorer:
    """Standard scores by one set of statistics, for many calls."""

    __slots__ = ("_deviation", "_mean", "_scale", "_was_seen")

    def __init__(self, frozen: FrozenStatistics) -> None:
        """Score by `frozen`."""
        self._scale = Scale([one.feature for one in frozen.features])
        self._mean = np.array([one.mean for one in frozen.features])
        self._deviation = np.array([one.deviation for one in frozen.features])
        self._was_seen = np.array([one.count > 0 for one in frozen.features], np.bool_)

    def __call__(self, rows: Floats) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Return scores float32 (n, features) within ±`SCORE_LIMIT`, and bool (n, features) which are known.

        Args:
            rows: (n, features) numbers in the units of the catalogue; NaN where a value is not present.

        A number that is missing or infinite, or of a feature that training never saw, scores 0 and is not
        known.

        Raises:
            InvalidInput: there are not as many columns as features.
        """
        numbers = self._scale(rows)
        known = ~np.isnan(numbers) & self._was_seen
        scores = (np.where(known, numbers, self._mean) - self._mean) / self._deviation
        return np.minimum(np.maximum(scores, -SCORE_LIMIT), SCORE_LIMIT).astype(np.float32), known


def standard_scores(rows: Floats, frozen: FrozenStatistics) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Return the scores of one set of rows, see `Scorer`.

    Raises:
        InvalidInput: there are not as many columns as features.
    """
    return Scorer(frozen)(rows)


def statistics_to_bytes(frozen: FrozenStatistics) -> bytes:
    """Return the statistics as JSON; the same statistics give the same bytes."""
    return msgspec.json.encode(frozen)


def statistics_from_bytes(content: bytes) -> FrozenStatistics:
    """Return statistics that were kept as JSON.

    Raises:
        InvalidFile: they are truncated, altered, or of another schema.
    """
    try:
        frozen = msgspec.json.decode(content, type=FrozenStatistics)
    except (msgspec.MsgspecError, InvalidInput) as error:
        raise InvalidFile(
            f"frozen statistics cannot be read: {error}; take those of the model's release"
        ) from None
    if frozen.schema != SCHEMA:
        raise InvalidFile(f"frozen statistics are of schema {frozen.schema!r}; this version reads {SCHEMA!r}")
    return frozen
