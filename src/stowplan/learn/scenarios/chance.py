"""Draws over orders of magnitude."""

from __future__ import annotations

import math

import numpy as np

__all__ = ["log_uniform"]


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    """Draw a number whose logarithm is uniform between those of `low` and `high`, both above 0."""
    return math.exp(float(rng.uniform(math.log(low), math.log(high))))
