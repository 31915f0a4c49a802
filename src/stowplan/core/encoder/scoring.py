"""From raw rows to rows for networks: standard scores by frozen statistics, and beside them what is known."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.encoder.schema import FeatureGroup, Schema, Table
from stowplan.core.semantics import FeatureStatistics, FrozenStatistics
from stowplan.core.semantics.moments import HISTOGRAM_BINS, scaled_bounds
from stowplan.core.semantics.scores import Scorer

__all__ = ["RowScorer", "nominal_statistics"]

_BLOCK: Final = 256  # rows scored at once: what comes in between stays in the processor's cache


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
        encoded = np.empty((len(rows), self.encoded_width), dtype=np.float32)
        for start in range(0, len(rows), _BLOCK):
            block, into = rows[start : start + _BLOCK], encoded[start : start + _BLOCK]
            if self._off.size:
                block = block.copy()
                block[:, self._off] = np.nan
            scores, known = self._score(block)
            into[:, : self._width] = scores
            into[:, self._width :] = known[:, self._masked]
        return encoded
