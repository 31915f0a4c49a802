"""Time factors of tasks on machines and amounts of resources, kept within what can be reckoned with."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["MOST_AMOUNT", "usable_amounts", "usable_factor"]

MOST_AMOUNT: Final = 1e30
"""More than there is of any resource: a capacity that no load fills."""
_MOST: Final = 1000.0


def usable_amounts(amounts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return amounts of resources within 0 and `MOST_AMOUNT`; 0 for what is not a number."""
    return np.clip(np.nan_to_num(amounts, nan=0.0), 0.0, MOST_AMOUNT)


def usable_factor(factor: float) -> float:
    """Return how many times as long a task takes, within 0.001 and 1000; 1 for what is not a number."""
    return 1.0 if math.isnan(factor) else min(max(factor, 1.0 / _MOST), _MOST)
