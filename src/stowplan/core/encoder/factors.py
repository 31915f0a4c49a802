"""Time factors of tasks on machines, kept within what a machine can be."""

from __future__ import annotations

import math
from typing import Final

__all__ = ["usable_factor"]

_MOST: Final = 1000.0


def usable_factor(factor: float) -> float:
    """Return how many times as long a task takes, within 0.001 and 1000; 1 for what is not a number."""
    return 1.0 if math.isnan(factor) else min(max(factor, 1.0 / _MOST), _MOST)
