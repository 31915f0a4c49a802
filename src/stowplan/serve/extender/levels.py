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

__all__ = ["HIGHEST", "NEUTRAL", "levels_of"]

HIGHEST: Final = 10
NEUTRAL: Final = 5
"""For nodes of which nothing is known."""

_MOST: Final = 1e300  # infinities have no difference
_SAME: Final = 1e-12  # scores that differ by less than this, relative, are equal: they differ by rounding


def levels_of(
    scores: NDArray[np.float64], rows: NDArray[np.intp], *, draws_lots: bool
) -> NDArray[np.int64] | None:
    """Return the level of each node, shape (n,); None when the scores tell no node from another.

    Args:
        scores: (n,) higher is better, −inf: cannot or should not be taken.
        rows: (n,) settle ties, the lowest first, unless the policy draws lots.
        draws_lots: whether nodes of equal score are as good as each other.
    """
    is_usable = scores > -np.inf
    usable = np.flatnonzero(is_usable)
    if usable.size == 0:
        return None
    order = usable[np.lexsort((rows[usable], -scores[usable]))]
    best_first = np.clip(scores[order], -_MOST, _MOST)
    is_worse = -np.diff(best_first) > _SAME * np.maximum(np.abs(best_first[1:]), np.abs(best_first[:-1]))
    if draws_lots:
        if usable.size == scores.size and not is_worse.any():
            return None
        places = np.concatenate([[0], np.cumsum(is_worse)])
    else:
        if scores.size == 1:
            return None
        places = _places_by_row(order, is_worse, rows)
    levels = np.zeros(scores.size, dtype=np.int64)
    levels[order] = np.maximum(HIGHEST - places, 0)
    return levels


def _places_by_row(
    order: NDArray[np.intp], is_worse: NDArray[np.bool_], rows: NDArray[np.intp]
) -> NDArray[np.int64]:
    """Return the place of each of `order`, where those of equal score stand by row; shape (usable,)."""
    groups = np.concatenate([[0], np.cumsum(is_worse)])
    places = np.empty(order.size, dtype=np.int64)
    places[np.lexsort((rows[order], groups))] = np.arange(order.size)
    return places
