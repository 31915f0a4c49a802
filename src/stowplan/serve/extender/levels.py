"""A policy's scores as the eleven levels that an extender can give.

kube-scheduler adds `level × weight × 10` to its own score of a node, 0–100 per plugin times the plugin's
weight, and takes the highest sum. Only the best matters to it, so the levels are spent from the top: the
node that the policy would take has 10, the next 9, and so on; all beyond the tenth have 0. Nodes between
which the policy draws lots share a level, and kube-scheduler's own scores decide among them.

Source: `prioritizeNodes` in `pkg/scheduler/schedule_one.go`, `MaxExtenderPriority` (1.37).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["HIGHEST", "UNKNOWN", "levels_of"]

HIGHEST: Final = 10
UNKNOWN: Final = 5
"""For nodes of which nothing is known."""

_MOST: Final = 1e300  # infinities have no difference
_SAME: Final = 1e-12  # scores that differ by less than this, relative, are equal: they differ by rounding


def levels_of(
    scores: NDArray[np.float64], rows: NDArray[np.intp], *, draws_lots: bool
) -> tuple[NDArray[np.int64] | None, NDArray[np.intp]]:
    """Return the level of each node, and the nodes that can be taken, the best first.

    Args:
        scores: (n,) higher is better, −inf: cannot or should not be taken.
        rows: (n,) settle ties, the lowest first, unless the policy draws lots.
        draws_lots: whether nodes of equal score are as good as each other.

    Returns:
        Levels, shape (n,), None when the scores tell no node from another; and places, shape (usable,).
    """
    usable = np.flatnonzero(scores > -np.inf)
    order = usable[np.lexsort((rows[usable], -scores[usable]))]
    best_first = np.clip(scores[order], -_MOST, _MOST)
    behind = best_first[:-1] - best_first[1:]
    is_worse = behind > _SAME * np.maximum(np.abs(best_first[1:]), np.abs(best_first[:-1]))
    group = np.concatenate([[0], np.cumsum(is_worse)])[: order.size]
    if not draws_lots and (~is_worse & (behind > 0.0)).any():  # equal but for rounding: by row after all
        order = order[np.lexsort((rows[order], group))]
    is_alike = usable.size == scores.size and not is_worse.any()
    if order.size == 0 or scores.size == 1 or (draws_lots and is_alike):
        return None, order
    levels = np.zeros(scores.size, dtype=np.int64)
    place = group if draws_lots else np.arange(order.size)
    levels[order] = np.maximum(HIGHEST - place, 0)
    return levels, order
