"""Lower bounds on the makespan: no schedule is shorter.

* Area: what all tasks hold of a resource over time, over its capacity.
* Critical path: the longest chain of tasks.
* Energy: nothing can start before its head (the longest path before it), and after its end its tail is still
  to come. In a schedule of length T, a task with head r, duration d and tail q lies at least
  min(d, r + d − a, q + d − b) seconds within [a, T − b]. What all tasks hold there must fit there, so
  T ≥ a + b + energy / capacity. With a = b = 0 it is the area. It sees that a batch cannot use the whole node
  while its first tasks run and its last ones are left.

Source: J. Erschler, P. Lopez, C. Thuriot, "Raisonnement temporel sous contraintes de ressource et problèmes
d'ordonnancement", Revue d'Intelligence Artificielle 5(3), 1991; P. Baptiste, C. Le Pape, W. Nuijten,
"Satisfiability Tests and Time-Bound Adjustments for Cumulative Scheduling Problems", Annals of Operations
Research 92, 1999.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stowplan.core.physics.compile import compiled, inner
from stowplan.simulate.planning.graph import Graph, heads, reverse

__all__ = ["Bounds", "bounds_of"]

_MOST_POINTS = 64  # of a and of b: any choice of them gives a bound


@dataclass(frozen=True, slots=True)
class Bounds:
    """Three lower bounds, in seconds, each of the whole batch."""

    area_s: float
    critical_path_s: float
    energy_s: float

    @property
    def best_s(self) -> float:
        """The largest."""
        return max(self.area_s, self.critical_path_s, self.energy_s)


def bounds_of(graph: Graph) -> Bounds:
    """Return the bounds of a batch."""
    return Bounds(*_bounds(graph))


@compiled
def _bounds(graph: Graph) -> tuple[float, float, float]:
    head_s = heads(graph)
    tail_s = heads(reverse(graph))
    duration_s = graph.duration_s
    path_s = (head_s + duration_s + tail_s).max()
    area_s = 0.0
    energy_s = 0.0
    for resource in range(len(graph.capacity)):
        share = graph.demand[:, resource] / graph.capacity[resource]
        area_s = max(area_s, (share * duration_s).sum())
    for resource in range(len(graph.capacity)):
        share = graph.demand[:, resource] / graph.capacity[resource]
        for begin_s in _points(head_s):
            for rest_s in _points(tail_s):
                length_s = max(area_s, path_s) - begin_s - rest_s
                if length_s > 0.0:
                    held_s = _energy(duration_s, share, head_s - begin_s, tail_s - rest_s, length_s)
                    energy_s = max(energy_s, begin_s + rest_s + held_s)
    return area_s, path_s, energy_s


@inner
def _points(path_s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return distinct values of `path_s`, at most `_MOST_POINTS`, evenly by rank, the smallest among them."""
    distinct = np.unique(path_s)
    return distinct[:: 1 + (len(distinct) - 1) // _MOST_POINTS]


@inner
def _energy(
    duration_s: NDArray[np.float64],
    share: NDArray[np.float64],
    head_s: NDArray[np.float64],
    tail_s: NDArray[np.float64],
    length_s: float,
) -> float:
    """Return the capacity-seconds that must be held within a window of at least `length_s`.

    `head_s` and `tail_s` (n,) are counted from the ends of the window.
    """
    held_s = 0.0
    for task in range(len(duration_s)):
        inside_s = min(duration_s[task], duration_s[task] + min(head_s[task], tail_s[task]), length_s)
        if inside_s > 0.0:
            held_s += share[task] * inside_s
    return held_s
