"""Weighted water-filling: how one resource is divided among those who want it.

Every user gets what it wants, up to a common level times its weight (weighted max-min fairness, Bertsekas and
Gallager, *Data Networks*, §6.5). CPU time by `cpu.weight` works this way (law with data: shares 1:1, 1:2 and
1:8 measured as 1.000, 1.996 and 7.928), and so do links under fair queueing and, weighted by outstanding
bytes, disks.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stowplan.core.physics.compile import compiled

__all__ = ["water_level", "waterfill"]


@compiled
def water_level(wanted: NDArray[np.float64], weight: NDArray[np.float64], capacity: float) -> float:
    """Find the level θ at which Σ min(wanted, θ·weight) = capacity; inf when all that is wanted fits.

    Args:
        wanted: (n,) what each user would take, ≥ 0, in units of the resource.
        weight: (n,) > 0.
        capacity: ≥ 0, same unit.

    Starts from the level at which nobody is satisfied and raises it as users turn out to want less than their
    share; the level only grows, so it ends after at most n passes (two or three in practice), without
    sorting.
    """
    count = wanted.shape[0]
    total = 0.0
    for i in range(count):
        total += wanted[i]
    if total <= capacity:
        return np.inf
    level = 0.0
    satisfied = -1
    while True:
        rest = capacity
        open_weight = 0.0
        below = 0
        for i in range(count):
            if wanted[i] <= level * weight[i]:
                rest -= wanted[i]
                below += 1
            else:
                open_weight += weight[i]
        if below == satisfied or open_weight <= 0.0:
            return level
        satisfied = below
        level = max(level, rest / open_weight)


@compiled
def waterfill(
    wanted: NDArray[np.float64], weight: NDArray[np.float64], capacity: float
) -> NDArray[np.float64]:
    """Divide `capacity` by weighted water-filling: (n,) allocations, each ≤ wanted, in its units."""
    level = water_level(wanted, weight, capacity)
    return np.minimum(wanted, level * weight)
