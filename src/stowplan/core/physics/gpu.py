"""GPU sharing: how fast tasks run that share one GPU, by their combined utilisation.

Law with data: the mean normalised speed of 1,388 measured pairs (Lucid, ASPLOS 2023, `colocate_info.csv`)
falls slowly until the utilisations add up to about 80 % and steeply beyond. Applied to more than two tasks it
is a proposal. The knots are in `fitted`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stowplan.core.physics.compile import compiled

__all__ = ["shared_gpu_speed"]


@compiled
def shared_gpu_speed(
    combined_utilisation: float, knots: NDArray[np.float64], speeds: NDArray[np.float64]
) -> float:
    """Speed relative to having the GPU alone, 0 … 1, interpolated linearly between the knots.

    Args:
        combined_utilisation: sum over the tasks on the GPU, 1 = one GPU fully used.
        knots: (n,) ascending utilisations.
        speeds: (n,) speeds there. Beyond the last knot speed falls as last·knot/utilisation (work is
        conserved).
    """
    last: int = knots.shape[0] - 1
    if combined_utilisation >= knots[last]:
        return speeds[last] * knots[last] / combined_utilisation
    if combined_utilisation <= knots[0]:
        return speeds[0]
    above = 1
    while knots[above] < combined_utilisation:
        above += 1
    part = (combined_utilisation - knots[above - 1]) / (knots[above] - knots[above - 1])
    return speeds[above - 1] + part * (speeds[above] - speeds[above - 1])
