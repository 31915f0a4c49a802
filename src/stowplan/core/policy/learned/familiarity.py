"""Whether a cycle looks like what a model was trained on; if not, it does not decide, and a rule does.

A standard score is clipped at ±5 deviations of training. A column in which more than half of what is known
lies there is beyond all that training saw. Some columns may be so (a cluster with larger machines), and the
network still has the others to go by; when too large a share is, its answer is a guess. Both limits are
proposals. Slow drift, within the range of training, is for `core.semantics.drift`, which wants hours of rows.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.encoder import Encoded, Schema
from stowplan.core.semantics import SCORE_LIMIT
from stowplan.errors import Unfamiliar

__all__ = ["MOST_UNFAMILIAR", "beyond_training", "require_familiar"]

MOST_UNFAMILIAR: Final = 0.1
"""Share of the columns with known numbers that may be beyond training."""
_MOST_ROWS: Final = 0.5
_NAMED: Final = 4


def beyond_training(schema: Schema, encoded: Encoded) -> tuple[list[str], int]:
    """Return the names (`table.column`) of the columns beyond training, and how many columns are known."""
    names: list[str] = []
    known_count = 0
    for table, scores, raw in (
        (schema.task, encoded.task_features, encoded.raw_task),
        (schema.node, encoded.node_features, encoded.raw_node),
        (schema.cluster, encoded.cluster_features[None, :], encoded.raw_cluster[None, :]),
    ):
        extreme = _extreme_share(scores[:, : len(table.columns)], raw)
        known_count += int(np.count_nonzero(~np.isnan(extreme)))
        names += [f"{table.name}.{table.columns[at].name}" for at in np.flatnonzero(extreme > _MOST_ROWS)]
    return names, known_count


def require_familiar(schema: Schema, encoded: Encoded) -> None:
    """Refuse a cycle that is unlike training.

    Raises:
        Unfamiliar: too many columns are beyond training; the message names some.
    """
    tables = (encoded.task_features, encoded.node_features, encoded.cluster_features)
    if all(not part.size or max(part.max(), -part.min()) < SCORE_LIMIT for part in tables):
        return  # nearly always, and found in a tenth of the time
    names, known = beyond_training(schema, encoded)
    if len(names) > MOST_UNFAMILIAR * known:
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        raise Unfamiliar(
            f"{len(names)} of {known} known columns are at least {SCORE_LIMIT:g} deviations from what the "
            f"model was trained on ({', '.join(names[:_NAMED])}{more}); train it on clusters like this one"
        )


def _extreme_share(scores: NDArray[np.float32], raw: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return of each column the share of its known numbers that lie at the limit; NaN where none is known."""
    known = (~np.isnan(raw)).sum(axis=0)
    extreme = (np.abs(scores) >= SCORE_LIMIT).sum(axis=0)
    return np.where(known > 0, extreme / np.maximum(known, 1), np.nan)
