"""How far apart nodes are in fact: classes of distance from round trips, whole matrix from sparse pairs.

1. The measured pairs fall into at most four modes (`distance_modes`), nearest first.
2. The modes get names (same rack, same zone, other zone, far): ascending, and so that as many pairs as
   possible bear the class that their labels claim. Labels only choose names; a pair's mode is measured.
3. Pairs without a measurement are completed. Distances are near an ultrametric (who shares a rack shares a
   zone), so at each class, nearest first, nodes linked by measured pairs of that class or nearer form groups.
   Two nodes of one group are that near. Two nodes of different groups between which some pair was measured
   are farther, for that pair was. Where nothing was measured between their groups, the class that pairs with
   the same labels mostly have decides; so it does within a group whose own measured pairs mostly disagree.
4. What is left is unknown.

Every cell says whether it was measured, linked, taken from labels, or is unknown.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.semantics.distance_modes import ModeRule, gaps_of
from stowplan.core.semantics.rtt import RttEstimates
from stowplan.errors import InvalidInput

__all__ = ["UNKNOWN_DISTANCE", "DistanceClass", "Distances", "NamedPlaces", "Origin", "estimate_distances"]

Floats = NDArray[np.float64]
Classes = NDArray[np.int8]
Indexes = NDArray[np.int64]


class DistanceClass(IntEnum):
    """How far apart two nodes are, nearest first; the same meaning in every cluster."""

    SAME_NODE = 0
    SAME_RACK = 1
    SAME_ZONE = 2
    OTHER_ZONE = 3
    FAR = 4


class Origin(IntEnum):
    """Where the class of a pair comes from."""

    UNKNOWN = 0
    MEASURED = 1
    LINKED = 2
    """From measured pairs of the two nodes' neighbours."""
    LABELLED = 3
    """From what pairs with the same labels mostly are."""


UNKNOWN_DISTANCE: Final = -1
_BETWEEN_NODES: Final = (
    DistanceClass.SAME_RACK,
    DistanceClass.SAME_ZONE,
    DistanceClass.OTHER_ZONE,
    DistanceClass.FAR,
)
_AGREEMENT: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedPlaces:
    """Where the labels say that nodes are: int64 (nodes,), equal numbers for equal labels, −1 without one."""

    zones: Indexes
    racks: Indexes

    def claimed(self, first: Indexes, second: Indexes) -> Classes:
        """Class that the labels of each pair claim, int8 (pairs,); unknown where they do not tell.

        Same rack label: same rack. Same zone label: same zone. Two different zone labels: other zone.
        """
        racks, zones = (self.racks[first], self.racks[second]), (self.zones[first], self.zones[second])
        claimed = np.full(first.shape, UNKNOWN_DISTANCE, np.int8)
        claimed[(zones[0] >= 0) & (zones[1] >= 0) & (zones[0] != zones[1])] = DistanceClass.OTHER_ZONE
        same_zone = (zones[0] >= 0) & (zones[0] == zones[1])
        claimed[same_zone] = DistanceClass.SAME_ZONE
        is_apart = claimed == DistanceClass.OTHER_ZONE  # rack numbers may repeat from zone to zone
        claimed[(racks[0] >= 0) & (racks[0] == racks[1]) & ~is_apart] = DistanceClass.SAME_RACK
        return claimed


@dataclass(frozen=True, slots=True, kw_only=True)
class Distances:
    """Distances of all pairs of n nodes.

    Attributes:
        classes: int8 (n, n), symmetric; `DistanceClass`, or `UNKNOWN_DISTANCE`. The diagonal is the same
        node.
        origins: int8 (n, n); `Origin`.
        rtt_s: float64 (n, n); least measured round trip; of pairs that were not measured the median of their
            class; NaN when unknown, and on the diagonal.
        centres_s: float64 (5,); median round trip of each class, NaN of classes without a measured pair.
    """

    classes: Classes
    origins: Classes
    rtt_s: Floats
    centres_s: Floats


def _names_of_modes(modes: Indexes, claimed: Classes, count: int) -> list[DistanceClass]:
    """Choose ascending classes for the modes: with the most pairs in the class they claim, then nearest."""
    votes = np.zeros((count, len(DistanceClass)), np.int64)
    told = claimed >= 0
    np.add.at(votes, (modes[told], claimed[told]), 1)
    choices = list(combinations(_BETWEEN_NODES, count))
    return list(
        max(choices, key=lambda names: sum(int(votes[mode, name]) for mode, name in enumerate(names)))
    )


def _groups(node_count: int, first: Indexes, second: Indexes) -> Indexes:
    """Number of the group of each node, (nodes,), when the pairs link them: the least node in it."""
    group = np.arange(node_count)
    while True:
        least = np.minimum(group[first], group[second])
        before = group.copy()
        np.minimum.at(group, before[first], least)
        np.minimum.at(group, before[second], least)
        group = group[group]
        if np.array_equal(group, before):
            return group


class _Completion:
    """Fills the pairs of a matrix that were not measured."""

    def __init__(self, found: RttEstimates, measured: Classes, places: NamedPlaces | None) -> None:
        self.found = found
        self.measured = measured
        self.places = places
        shape = (found.node_count, found.node_count)
        self.classes = np.full(shape, UNKNOWN_DISTANCE, np.int8)
        self.origins = np.zeros(shape, np.int8)
        self.classes[found.first, found.second] = measured
        self.origins[found.first, found.second] = Origin.MEASURED
        rows = np.arange(found.node_count)
        self.classes[rows, rows] = DistanceClass.SAME_NODE
        self.origins[rows, rows] = Origin.MEASURED

    def run(self) -> None:
        """Complete the upper triangle class by class, then mirror it."""
        labelled = self.by_labels()
        is_open = np.triu(self.classes == UNKNOWN_DISTANCE, 1)
        for level in _BETWEEN_NODES:
            group, is_sound = self.grouped(level)
            is_one = group[:, None] == group[None, :]
            together = is_open & is_one & is_sound[:, None]
            self.fill(together, np.int8(level), Origin.LINKED)
            is_open &= ~together
            by_name = is_open & (labelled == level) & (is_one | ~self.evidence(group))
            self.fill(by_name, np.int8(level), Origin.LABELLED)
            is_open &= ~by_name
        # Below the diagonal nothing was filled in, and unknown is the least.
        self.classes = np.maximum(self.classes, self.classes.T)
        self.origins = np.maximum(self.origins, self.origins.T)

    def fill(self, where: NDArray[np.bool_], level: np.int8, origin: Origin) -> None:
        self.classes[where] = level
        self.origins[where] = origin

    def grouped(self, level: DistanceClass) -> tuple[Indexes, NDArray[np.bool_]]:
        """Groups at `level`, (nodes,), and whether the measured pairs within each mostly agree, (nodes,)."""
        near = self.measured <= level
        first, second = self.found.first, self.found.second
        group = _groups(self.found.node_count, first[near], second[near])
        inside = group[first] == group[second]
        pairs = np.bincount(group[first[inside]], minlength=group.size)
        agreeing = np.bincount(group[first[inside & near]], minlength=group.size)
        return group, (agreeing >= _AGREEMENT * pairs)[group]

    def evidence(self, group: Indexes) -> NDArray[np.bool_]:
        """Whether any pair between the groups of two nodes was measured, (n, n)."""
        between = np.zeros((group.size, group.size), np.bool_)
        ends = group[self.found.first], group[self.found.second]
        between[ends] = True
        between[ends[::-1]] = True
        return between[np.ix_(group, group)]

    def by_labels(self) -> Classes:
        """Class of each pair by its labels, (n, n): what measured pairs that claim the same mostly are."""
        count = self.found.node_count
        if self.places is None:
            return np.full((count, count), UNKNOWN_DISTANCE, np.int8)
        rows = np.arange(count)
        claimed = self.places.claimed(*np.broadcast_arrays(rows[:, None], rows[None, :]))
        of_pairs = claimed[self.found.first, self.found.second]
        usual = np.arange(-1, len(DistanceClass), dtype=np.int8)  # a claim that nothing was measured of holds
        for claim in _BETWEEN_NODES:
            tally = np.bincount(self.measured[of_pairs == claim], minlength=len(DistanceClass))
            if tally.any():
                usual[claim + 1] = np.argmax(tally)
        return usual[claimed.astype(np.int64) + 1]


def estimate_distances(
    found: RttEstimates, *, places: NamedPlaces | None = None, rule: ModeRule
) -> Distances:
    """Return the distances of all pairs from the estimates of some.

    Args:
        found: estimates of the measured pairs.
        places: what the labels say, when there are any.
        rule: what counts as a gap; at most four modes.

    Raises:
        InvalidInput: the labels are not of as many nodes, or the rule allows more than four modes.
    """
    if places is not None and not places.zones.shape == places.racks.shape == (found.node_count,):
        raise InvalidInput(
            f"labels of {places.zones.shape} zones and {places.racks.shape} racks; "
            f"there are {found.node_count} nodes"
        )
    if rule.most_modes > len(_BETWEEN_NODES):
        raise InvalidInput(f"{rule.most_modes} modes are allowed; there are {len(_BETWEEN_NODES)} classes")
    gaps_s = gaps_of(found.least_s, rule)
    modes = np.searchsorted(gaps_s, found.least_s).astype(np.int64)
    claimed = np.full(modes.shape, UNKNOWN_DISTANCE, np.int8)
    if places is not None:
        claimed = places.claimed(found.first, found.second)
    names = np.array(_names_of_modes(modes, claimed, gaps_s.size + 1), np.int8)
    measured = names[modes]
    completion = _Completion(found, measured, places)
    completion.run()
    centres_s = np.full(len(DistanceClass), math.nan)
    for level in np.unique(measured):
        centres_s[level] = np.median(found.least_s[measured == level])
    classes = completion.classes
    rtt_s = np.where(classes >= 0, centres_s[np.maximum(classes, 0)], math.nan)
    rtt_s[found.first, found.second] = found.least_s
    rtt_s[found.second, found.first] = found.least_s
    return Distances(classes=classes, origins=completion.origins, rtt_s=rtt_s, centres_s=centres_s)
