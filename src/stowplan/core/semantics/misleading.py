"""Pairs of nodes that are near in name and far in fact (R9).

Labels promise: two nodes of one rack, or of one zone, are near. Measured against the nearest pairs that got
the same promise, a pair whose round trip is a multiple of theirs breaks it. In one zone of a public cloud two
racks may differ by a factor of eight; tasks that talk a lot should not be spread over such a pair.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stowplan.core.semantics.distance_modes import ModeRule, gaps_of
from stowplan.core.semantics.distances import DistanceClass, NamedPlaces
from stowplan.core.semantics.rtt import RttEstimates
from stowplan.errors import InvalidInput

__all__ = ["MisleadingPairs", "misleading_pairs"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MisleadingPairs:
    """Pairs that break the promise of their labels, worst first; ties in order of the pair.

    Attributes:
        first, second: int64 (pairs,); the nodes, first < second.
        claimed: int8 (pairs,); what the labels promise, `DistanceClass`.
        rtt_s: float64 (pairs,); least measured round trip.
        excess: float64 (pairs,); how many times that of the nearest pairs with the same promise.
    """

    first: NDArray[np.int64]
    second: NDArray[np.int64]
    claimed: NDArray[np.int8]
    rtt_s: NDArray[np.float64]
    excess: NDArray[np.float64]


def _promised_s(rtt_s: NDArray[np.float64], rule: ModeRule, least_share: float) -> float:
    """Return the median round trip of the nearest mode that holds at least a share of the pairs."""
    modes = np.searchsorted(gaps_of(rtt_s, rule), rtt_s)
    sizes = np.bincount(modes)
    nearest = int(np.flatnonzero(sizes >= least_share * rtt_s.size)[0])
    return float(np.median(rtt_s[modes == nearest]))


def misleading_pairs(
    found: RttEstimates,
    places: NamedPlaces,
    *,
    rule: ModeRule,
    excess: float = 3.0,
    least_share: float = 0.01,
) -> MisleadingPairs:
    """Return the measured pairs that share a zone or rack label and are far beyond what that promises.

    Args:
        found: estimates of the measured pairs.
        places: what the labels say.
        rule: what counts as a gap between distances.
        excess: from which multiple on a pair misleads. Three is a proposal: below, two switches more explain
        it.
        least_share: a mode with less of the pairs than this is an accident, not the promised distance.

    Raises:
        InvalidInput: the excess is not above 1, or the share not in 0 … 0.25.
    """
    if not (1.0 < excess < math.inf and 0.0 < least_share <= 0.25):
        raise InvalidInput(f"excess {excess} must be above 1, least_share {least_share} in 0 … 0.25")
    claimed = places.claimed(found.first, found.second)
    ratio = np.zeros(found.least_s.shape)
    for promise in (DistanceClass.SAME_RACK, DistanceClass.SAME_ZONE):
        promised = claimed == promise
        if promised.any():
            ratio[promised] = found.least_s[promised] / _promised_s(
                found.least_s[promised], rule, least_share
            )
    order = np.lexsort((found.second, found.first, -ratio))
    order = order[ratio[order] >= excess]
    return MisleadingPairs(
        first=found.first[order],
        second=found.second[order],
        claimed=claimed[order],
        rtt_s=found.least_s[order],
        excess=ratio[order],
    )
