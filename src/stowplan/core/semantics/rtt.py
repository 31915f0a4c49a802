"""Round trips between nodes: noisy, sparse samples in, one robust estimate per pair out.

Noise on a round trip is added by queues and by the machines at its ends, never taken away. So the least of
the samples of a pair says how far apart two nodes are, the median how it usually feels, and the 99th
percentile how bad it gets. The path is the same both ways; what differs by direction is noise at one end, so
the distance of a pair is that of its better direction, and the asymmetry is kept as a sign of a troubled end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.semantics.catalogue import quantity
from stowplan.errors import InvalidInput

__all__ = ["LEAST_TAIL_SAMPLES", "RttEstimates", "RttSamples", "estimate_rtt"]

Floats = NDArray[np.float64]
Indexes = NDArray[np.int64]

LEAST_TAIL_SAMPLES: Final = 20
"""Below, a 99th percentile would be the largest sample by another name, so there is none."""
_TAIL: Final = 0.99


@dataclass(frozen=True, slots=True, kw_only=True)
class RttSamples:
    """Round trips as they were measured, in any order.

    Attributes:
        origins, targets: int64 (samples,); index of the node that pinged, and of the one that answered.
        rtt_s: float64 (samples,); seconds. A ping without an answer has no sample.
        times_s: float64 (samples,); when it was measured.
    """

    origins: Indexes
    targets: Indexes
    rtt_s: Floats
    times_s: Floats

    def __post_init__(self) -> None:
        """Refuse columns of different lengths.

        Raises:
            InvalidInput: the shapes differ, or are not (samples,).
        """
        shapes = {column.shape for column in (self.origins, self.targets, self.rtt_s, self.times_s)}
        if len(shapes) != 1 or self.rtt_s.ndim != 1:
            raise InvalidInput(f"RTT samples have columns of shapes {sorted(shapes)}; all must be (samples,)")


@dataclass(frozen=True, slots=True, kw_only=True)
class RttEstimates:
    """Estimates of the pairs of nodes that were measured; pairs (first < second) in ascending order.

    Attributes:
        node_count: number of nodes; pairs that are not listed were not measured.
        first, second: int64 (pairs,); the two nodes.
        least_s, median_s: float64 (pairs,); of all usable samples of both directions.
        tail_s: float64 (pairs,); 99th percentile, NaN below 20 samples.
        asymmetry: float64 (pairs,); least of the worse direction over that of the better, ≥ 1, NaN when only
            one direction was measured.
        sample_count: int64 (pairs,).
        refused_count: samples that were not finite, physically impossible, of a node with itself, too old, or
            from the future.
    """

    node_count: int
    first: Indexes
    second: Indexes
    least_s: Floats
    median_s: Floats
    tail_s: Floats
    asymmetry: Floats
    sample_count: Indexes
    refused_count: int


def _quantiles(sorted_s: Floats, starts: Indexes, counts: Indexes, share: float) -> Floats:
    """Return one quantile per group of `sorted_s`, interpolated linearly between samples."""
    place = starts + share * (counts - 1)
    below = np.floor(place).astype(np.int64)
    above = np.minimum(below + 1, starts + counts - 1)
    part = place - below
    found: Floats = sorted_s[below] * (1.0 - part) + sorted_s[above] * part
    return found


def _asymmetry(pairs: Indexes, is_forward: NDArray[np.bool_], rtt_s: Floats, count: int) -> Floats:
    """Worse over better least of the two directions, (count,)."""
    least = np.full((2, count), math.inf)
    np.minimum.at(least, (is_forward.astype(np.int64), pairs), rtt_s)
    both = np.isfinite(least).all(axis=0)
    ratio = np.full(count, math.nan)
    ratio[both] = least.max(axis=0)[both] / least.min(axis=0)[both]
    return ratio


def estimate_rtt(
    samples: RttSamples, node_count: int, *, now_s: float, window_s: float = 300.0
) -> RttEstimates:
    """Estimate the round trip of every pair that has a usable sample.

    Args:
        samples: what the ping mesh measured.
        node_count: nodes are 0 … node_count − 1.
        now_s: samples after it, or more than `window_s` before it, are refused.
        window_s: how far back samples count.

    Raises:
        InvalidInput: a node index is outside, or a time is not usable.
    """
    if node_count < 0 or not (math.isfinite(now_s) and window_s > 0.0):
        raise InvalidInput(
            f"RTT of {node_count} nodes at {now_s} s over {window_s} s; counts and times must be usable"
        )
    ends = np.concatenate((samples.origins, samples.targets))
    if ends.size and not (ends.min() >= 0 and ends.max() < node_count):
        raise InvalidInput(
            f"RTT samples name nodes {ends.min()} … {ends.max()}; there are {node_count}, counted from 0"
        )
    bounds = quantity("rtt_s")
    with np.errstate(invalid="ignore"):
        usable = (samples.rtt_s >= bounds.low) & (samples.rtt_s <= bounds.high)
        usable &= (samples.times_s <= now_s) & (samples.times_s >= now_s - window_s)
    usable &= samples.origins != samples.targets
    origins, targets = samples.origins[usable], samples.targets[usable]
    low, high = np.minimum(origins, targets), np.maximum(origins, targets)
    rtt_s = samples.rtt_s[usable]
    keys, pairs = np.unique(low * node_count + high, return_inverse=True)
    order = np.lexsort((rtt_s, pairs))
    sorted_s = rtt_s[order]
    counts = np.bincount(pairs, minlength=keys.size).astype(np.int64)
    starts = np.cumsum(counts) - counts
    tail_s = np.full(keys.size, math.nan)
    enough = counts >= LEAST_TAIL_SAMPLES
    tail_s[enough] = _quantiles(sorted_s, starts[enough], counts[enough], _TAIL)
    return RttEstimates(
        node_count=node_count,
        first=keys // max(node_count, 1),
        second=keys % max(node_count, 1),
        least_s=sorted_s[starts],
        median_s=_quantiles(sorted_s, starts, counts, 0.5),
        tail_s=tail_s,
        asymmetry=_asymmetry(pairs, origins < targets, rtt_s, keys.size),
        sample_count=counts,
        refused_count=int(samples.rtt_s.size - rtt_s.size),
    )
