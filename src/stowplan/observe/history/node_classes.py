"""How much slower or faster kinds of machines are, in general and for one class of tasks.

The logarithm of a duration is taken as that of the task plus that of the machine, and both are found by
median polish over all tasks that ran on several kinds of machines: a ratio that pools over classes, which no
single odd run can move. A single ratio per machine is not enough: on real machines the tasks' ratios differ
by more than the machines do (see `simulate.laws.machines`). So a class that was seen on a kind of machine has
a ratio of its own there, as far as its runs outweigh the common one (Bühlmann's credibility). A kind of
machine on which no task ran that also ran elsewhere cannot be compared, and counts as unknown.

Source: J. W. Tukey, Exploratory Data Analysis (1977), chapter 11 (median polish); `spread` for credibility.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from stowplan.core.domain import ClassKey
from stowplan.observe.history.spread import MAD_TO_SIGMA, credibility, intraclass

__all__ = ["Cell", "NodeClassRatios"]

_MOST_ROUNDS: Final = 20
_SETTLED: Final = 1e-6
_SHARE_UNKNOWN: Final = 0.5
_ENOUGH_FREEDOM: Final = 5


@dataclass(frozen=True, slots=True)
class Cell:
    """The median logarithm of the durations of one task (a class, or one item of it) on one node class."""

    key: ClassKey
    item: str
    node_class: str
    log_s: float


@dataclass(frozen=True, slots=True)
class NodeClassRatios:
    """Differences of log durations between node classes, against the one that was compared most.

    `common` holds them by node class, `own` by class and node class where the class was compared there, with
    the weight that the class's own runs have in it (0–1). `scatter` is the standard deviation of what single
    tasks differ by from the common ones.
    """

    common: Mapping[str, float]
    own: Mapping[tuple[ClassKey, str], tuple[float, float]]
    scatter: float = 0.0

    @classmethod
    def of(cls, cells: Iterable[Cell]) -> NodeClassRatios:
        """Fit by median polish; cells with node class "" (unknown) are left out."""
        rows: dict[tuple[ClassKey, str], dict[str, float]] = {}
        for cell in cells:
            if cell.node_class:
                rows.setdefault((cell.key, cell.item), {})[cell.node_class] = cell.log_s
        several = {row: cells_of for row, cells_of in sorted(rows.items()) if len(cells_of) > 1}
        if not several:
            names = {name for row in rows.values() for name in row}
            return cls(dict.fromkeys(names, 0.0) if len(names) == 1 else {}, {})
        seen = Counter(name for row in several.values() for name in row)
        common, residuals = _median_polish(several, sorted(seen))
        reference = min(seen, key=lambda name: (-seen[name], name))
        common = {name: effect - common[reference] for name, effect in common.items()}
        grouped: dict[tuple[ClassKey, str], list[float]] = {}
        for ((key, _item), name), residual in residuals.items():
            grouped.setdefault((key, name), []).append(residual)
        found = intraclass(list(grouped.values()))
        share = found[0] if found is not None and found[1] >= _ENOUGH_FREEDOM else _SHARE_UNKNOWN
        middles = {at: statistics.median(values) for at, values in grouped.items()}
        weights = {at: credibility(len(values), share) for at, values in grouped.items()}
        own = {at: (common[at[1]] + weights[at] * middle, weights[at]) for at, middle in middles.items()}
        scatter = MAD_TO_SIGMA * statistics.median(abs(left) for left in residuals.values())
        return cls(common, own, scatter)

    def knows(self, node_class: str) -> bool:
        """Whether runs were seen on this kind of machine."""
        return node_class in self.common

    def offset(self, key: ClassKey, node_class: str) -> float:
        """Return what to add to a log duration on the reference machine; 0 for an unknown node class."""
        found = self.own.get((key, node_class))
        return self.common.get(node_class, 0.0) if found is None else found[0]

    def doubt(self, key: ClassKey, node_class: str) -> float:
        """Return the standard deviation of `offset`: the class may differ from the others on this machine.

        0 where there is only one kind of machine.
        """
        _, weight = self.own.get((key, node_class), (0.0, 0.0))
        return self.scatter * math.sqrt(1.0 - weight)

    def factor(self, node_class: str, other: str) -> float:
        """Return how many times as long tasks usually take on `node_class` as on `other`; 1 where unknown."""
        if not (self.knows(node_class) and self.knows(other)):
            return 1.0
        return math.exp(self.common[node_class] - self.common[other])


def _median_polish(
    rows: Mapping[tuple[ClassKey, str], Mapping[str, float]], names: list[str]
) -> tuple[dict[str, float], dict[tuple[tuple[ClassKey, str], str], float]]:
    """Return the effect of each node class, and what is left of each cell."""
    effects = dict.fromkeys(names, 0.0)
    left = {(row, name): value for row, cells in rows.items() for name, value in cells.items()}
    by_name: dict[str, list[tuple[tuple[ClassKey, str], str]]] = {}
    for at in left:
        by_name.setdefault(at[1], []).append(at)
    for _ in range(_MOST_ROUNDS):
        for row, cells in rows.items():
            middle = statistics.median(left[row, name] for name in cells)
            for name in cells:
                left[row, name] -= middle
        moved = 0.0
        for name, places in by_name.items():
            middle = statistics.median(left[at] for at in places)
            effects[name] += middle
            for at in places:
                left[at] -= middle
            moved = max(moved, abs(middle))
        if moved < _SETTLED:
            break
    return effects, left
