"""Features: which quantities go into a row of numbers, and how a number is clipped and scaled for its score.

A feature is a quantity's name with its clip bounds and scale, so that statistics made at training carry all
that serving needs. Rows hold NaN where a value is not present: whoever scores them turns that into a mask.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from stowplan.core.semantics.catalogue import quantity
from stowplan.core.semantics.value import Value
from stowplan.errors import InvalidInput

__all__ = ["Feature", "Scale", "feature_of", "feature_rows", "require_distinct", "scaled"]

Floats = NDArray[np.float64]


class Feature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One column: numbers are clipped to `low` … `high`, then their logarithm is taken if `is_log`."""

    name: str
    low: float
    high: float
    is_log: bool = False

    def __post_init__(self) -> None:
        """Refuse bounds without meaning.

        Raises:
            InvalidInput: the bounds are not ascending and finite, or a logarithm of 0 would be taken.
        """
        ascending = math.isfinite(self.low) and self.low < self.high < math.inf
        if not ascending or (self.is_log and self.low <= 0.0):
            raise InvalidInput(
                f"feature {self.name!r} is clipped to {self.low} … {self.high}; the bounds must be finite "
                "and ascending, and above 0 for a logarithm"
            )


def feature_of(name: str) -> Feature:
    """Return the feature of the quantity `name`, with the catalogue's clip bounds and scale.

    Raises:
        UnknownName: there is no such quantity.
    """
    about = quantity(name)
    return Feature(about.name, about.score_low, about.score_high, about.is_log)


def require_distinct(features: Sequence[Feature]) -> None:
    """Refuse two features of one name.

    Raises:
        InvalidInput: a name occurs twice.
    """
    names = [feature.name for feature in features]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidInput(f"features {', '.join(twice)} occur twice; a column needs a name of its own")


def feature_rows(values: Sequence[Mapping[str, Value]], features: Sequence[Feature]) -> Floats:
    """Return the known numbers of each node as float64 (nodes, features); NaN where not present.

    Args:
        values: of each node (or device, or container) its values by the name of the quantity.
        features: columns.
    """
    rows = np.full((len(values), len(features)), math.nan)
    for row, by_name in enumerate(values):
        for column, feature in enumerate(features):
            value = by_name.get(feature.name)
            if value is not None and value.known is not None:
                rows[row, column] = value.known
    return rows


class Scale:
    """Clips and scales rows of one set of features, for many calls."""

    __slots__ = ("_high", "_logs", "_low")

    def __init__(self, features: Sequence[Feature]) -> None:
        """Scale columns of `features`."""
        self._low = np.array([feature.low for feature in features])
        self._high = np.array([feature.high for feature in features])
        self._logs = np.flatnonzero([feature.is_log for feature in features])

    def __call__(self, rows: Floats) -> Floats:
        """Return `rows` clipped and brought to each feature's scale, float64 (n, features).

        NaN stays NaN, and an infinite number becomes NaN: it was never measured.

        Raises:
            InvalidInput: there are not as many columns as features.
        """
        if rows.ndim != 2 or rows.shape[1] != self._low.size:
            raise InvalidInput(
                f"rows of shape {rows.shape} for {self._low.size} features; one column per feature is needed"
            )
        finite = np.where(np.isfinite(rows), rows, math.nan)
        clipped = np.minimum(np.maximum(finite, self._low), self._high)  # np.clip takes longer for few rows
        clipped[:, self._logs] = np.log(clipped[:, self._logs])
        return clipped


def scaled(rows: Floats, features: Sequence[Feature]) -> Floats:
    """Return one set of `rows` clipped and scaled, see `Scale`.

    Raises:
        InvalidInput: there are not as many columns as features.
    """
    return Scale(features)(rows)
