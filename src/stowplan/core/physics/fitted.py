"""Constants fitted on measurements, with where they come from and the command that fits them again."""

from __future__ import annotations

from typing import Final

import numpy as np

__all__ = ["GPU_SHARING_KNOTS", "GPU_SHARING_SPEEDS"]

GPU_SHARING_KNOTS: Final = np.array([0.2, 0.5, 0.7, 0.875, 1.2])
GPU_SHARING_SPEEDS: Final = np.array([0.994, 0.977, 0.963, 0.905, 0.795])
"""Speed of a pair on one GPU by combined utilisation: means of Lucid's 1,388 measured pairs by class of
utilisation."""
