"""From raw rows to rows for networks: standard scores by frozen statistics, and beside them what is known."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stowplan.core.encoder.schema import FeatureGroup, Schema, Table
from stowplan.core.semantics import FeatureStatistics, FrozenStatistics
from stowplan.core.semantics.moments import HISTOGRAM_BINS, scaled_bounds
from stowplan.core.semantics.scores import Scorer

__all__ = ["RowScorer", "nominal_statistics"]


def nominal_statistics(schema: Schema) -> FrozenStatistics:
    """Return statistics for an encoder that nobody trained: the middle of each range, a quarter of its width.

    They only bring numbers to a common size; a proposal.
    """
    low, high = scaled_bounds(schema.features)
    return FrozenStatistics(
        tuple(
            FeatureStatistics(
                feature=feature,
                count=1,
                missing=0,
                mean=float(middle),
                deviation=float(deviation),
                edges=(HISTOGRAM_BINS // 2,),
                shares=(0.5, 0.5),
            )
            for feature, middle, deviation in zip(
                schema.features, (low + high) / 2.0, (high - low) / 4.0, strict=True
            )
        )
    )


class RowScorer:
    """Scores the rows of one table.

    A column that was as good as the same in all of training reads as unknown: a network has learned nothing
    from it, and would be led anywhere by the first number that differs.
    """

    def __init__(self, table: Table, statistics: FrozenStatistics, off: frozenset[FeatureGroup]) -> None:
        """Score with the part of `statistics` that is about `table`, without the groups that are `off`."""
        of_feature = {one.feature.name: one for one in statistics.features}
        self._score = Scorer(FrozenStatistics(tuple(of_feature[feature.name] for feature in table.features)))
        is_off = [bool(off.intersection(column.groups)) for column in table.columns]
        is_same = [max(of_feature[feature.name].shares) >= 1.0 for feature in table.features]
        self._off = np.flatnonzero(np.logical_or(is_off, is_same))
        self._masked = np.array(table.masked, dtype=np.intp)
        self._width = len(table.columns)
        self.encoded_width = table.width

    def __call__(self, rows: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return float32 (n, table.width) of float64 (n, columns) raw numbers, NaN where not known."""
        if self._off.size:
            rows = rows.copy()
            rows[:, self._off] = np.nan
        scores, known = self._score(rows)
        encoded = np.empty((len(rows), self.encoded_width), dtype=np.float32)
        encoded[:, : self._width] = scores
        encoded[:, self._width :] = known[:, self._masked]
        return encoded
