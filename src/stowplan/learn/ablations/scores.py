"""How well blocked tasks were foretold, with intervals over seeds and workflows.

Groups of one workflow are alike, so what is drawn again in the bootstrap are whole workflows, and with them
whole training seeds (B. Efron, R. Tibshirani, "An Introduction to the Bootstrap", 1993, chapters 6 and 13).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["accuracy", "auroc", "drawn_again", "errors"]

Floats = NDArray[np.float64]


def auroc(
    scores: NDArray[np.floating], is_positive: NDArray[np.bool_], weights: Floats | None = None
) -> float:
    """Return the chance that a positive scores above a negative, ties counting half; NaN without both.

    Args:
        scores: (S,) higher: more likely positive.
        is_positive: (S,).
        weights: (S,) how often each counts; None: once.
    """
    weights = np.ones(len(scores)) if weights is None else weights
    _, place = np.unique(scores, return_inverse=True)
    positive = np.bincount(place, weights * is_positive)
    negative = np.bincount(place, weights * ~is_positive)
    pairs = positive.sum() * negative.sum()
    if pairs == 0.0:
        return float("nan")
    below = np.cumsum(negative) - negative
    return float((positive * (below + 0.5 * negative)).sum() / pairs)


def errors(logits: NDArray[np.floating], is_positive: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return where a logit says the wrong thing; positive at above 0."""
    return (logits > 0.0) != is_positive


def accuracy(
    logits: NDArray[np.floating], is_positive: NDArray[np.bool_], weights: Floats | None = None
) -> float:
    """Return the share that is right, counting each as often as `weights` says."""
    return float(1.0 - np.average(errors(logits, is_positive), weights=weights))


def drawn_again(
    measure: Callable[[int, Floats], float],
    *,
    seeds: int,
    workflow: NDArray[np.int64],
    draws: int,
    rng: np.random.Generator,
) -> tuple[float, float, float]:
    """Return the mean of a measure over the seeds, and its 95 % interval.

    Args:
        measure: of a seed's number and of how often each row counts, (S,).
        seeds: how many there are.
        workflow: (S,) of each row.
        draws: of seeds and workflows, with replacement.
        rng: draws them.
    """
    names, place = np.unique(workflow, return_inverse=True)
    once = np.ones(len(workflow))
    centre = float(np.mean([measure(seed, once) for seed in range(seeds)]))
    found: list[float] = []
    for _ in range(draws):
        times = np.bincount(rng.integers(len(names), size=len(names)), minlength=len(names))
        weights = times[place].astype(np.float64)
        drawn = np.bincount(rng.integers(seeds, size=seeds), minlength=seeds)
        values = [(measure(seed, weights), count) for seed, count in enumerate(drawn.tolist()) if count]
        found.append(
            float(np.average([value for value, _ in values], weights=[count for _, count in values]))
        )
    low, high = np.nanquantile(found, (0.025, 0.975)).tolist()
    return centre, low, high
