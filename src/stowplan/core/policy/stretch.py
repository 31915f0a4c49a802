"""By how much a task is stretched by what runs beside it, estimated from sums: many tasks and nodes at once.

The most overloaded resource stretches the task, and waiting for memory does, by the load on memory; a limit
on cores stretches it wherever it runs. No fixed point is looked for (`prediction` does that), so the cost is
a few operations per resource on arrays of tasks × nodes. The rule `predicted` ranks all nodes by it before it
solves the most promising ones, and the learned policy starts from it.

The law of memory latency and its source: `core.physics`. The estimate is a proposal.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stowplan.core.physics.laws import PhysicsLaws
from stowplan.core.physics.vocabulary import Resource

__all__ = ["Asked", "Held", "estimated_stretch"]

Numbers = NDArray[np.float32 | np.float64]

_AT_ONCE: Final = 1 << 16  # numbers that are looked at together: few calls, and little memory
_NONE: Final = -1e30  # asked of a resource that a task does not use: less than any load


class Asked(NamedTuple):
    """What G tasks ask for, see `TaskDemand`: (G, RESOURCE_COUNT) per second of work, (G,), (G,)."""

    per_s: Numbers
    exposed: Numbers
    quota: Numbers


class Held(NamedTuple):
    """What runs on N nodes asks for, and what they have: (N, RESOURCE_COUNT) each, units per second."""

    load: Numbers
    capacity: Numbers


def estimated_stretch(asked: Asked, held: Held, laws: PhysicsLaws) -> Numbers:
    """Return how many times as long as by itself each task would take on each node, at least 1, (G, N).

    The result is of the type of `held.load`, and each number the same whatever else is asked beside it.

    Args:
        asked: of the tasks, of the same type as `held`.
        held: by the nodes, without these tasks; capacities above 0.
        laws: the constants.
    """
    tasks, nodes = len(asked.per_s), len(held.load)
    stretch = np.ones((tasks, nodes), dtype=held.load.dtype)
    step = max(1, _AT_ONCE // max(nodes, 1))
    for first in range(0, tasks, step):
        some = slice(first, first + step)
        _stretch(stretch[some], Asked(*(part[some] for part in asked)), held, laws)
    return stretch


def _stretch(stretch: Numbers, asked: Asked, held: Held, laws: PhysicsLaws) -> None:
    """Stretch, in place, some tasks."""
    used = np.empty_like(stretch)
    for resource in np.flatnonzero((asked.per_s > 0.0).any(axis=0)).tolist():
        wanted = asked.per_s[:, resource]
        _use(used, np.where(wanted > 0.0, wanted, _NONE).astype(wanted.dtype), held, resource)
        np.maximum(stretch, used, out=stretch)
    if (asked.exposed > 0.0).any():
        _use(used, asked.per_s[:, Resource.DRAM], held, Resource.DRAM)
        np.minimum(used, 1.0, out=used)
        latency = laws.dram_latency_coefficient * used
        np.subtract(laws.dram_saturation, used, out=used)
        latency /= used
        latency *= asked.exposed[:, None]
        latency += 1.0
        stretch *= latency
    if (asked.quota != 1.0).any():
        stretch /= asked.quota[:, None]


def _use(used: Numbers, wanted: Numbers, held: Held, resource: int) -> None:
    """Fill in the share of a resource that is asked for once each task is on each node, (G, N)."""
    np.add(held.load[:, resource], wanted[:, None], out=used)
    used /= held.capacity[:, resource]
