"""What features are like over many cycles: the statistics by which they are scored, made once."""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.core.encoder import SCHEMA, Encoded
from stowplan.core.semantics import FrozenStatistics, Moments, freeze, no_moments

__all__ = ["Survey", "statistics_of"]


class Survey:
    """Moments of the raw columns of tasks, nodes and the cluster, in the order of `SCHEMA.tables`."""

    def __init__(self) -> None:
        self.moments: list[Moments] = [no_moments(table.features) for table in SCHEMA.tables]

    def add(self, encoded: Encoded) -> None:
        """Take in one cycle."""
        rows = (encoded.raw_task, encoded.raw_node, encoded.raw_cluster[None, :])
        self.moments = [known.added(more) for known, more in zip(self.moments, rows, strict=True)]


def statistics_of(surveys: Sequence[Survey]) -> FrozenStatistics:
    """Return the statistics of all that was surveyed, in the order given.

    Raises:
        InvalidInput: nothing was.
    """
    merged = Survey().moments
    for survey in surveys:
        merged = [known.merged(more) for known, more in zip(merged, survey.moments, strict=True)]
    return FrozenStatistics(tuple(one for moments in merged for one in freeze(moments).features))
