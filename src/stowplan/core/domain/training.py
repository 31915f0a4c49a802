"""What a training job does over and over: compute, and reduce its gradients over all workers.

The form is that of data-parallel training (Pollux, Qiao et al., OSDI 2021; Sia's measurements): every step
takes T = (Tc^γ + Ts^γ)^(1/γ), Tc to compute, Ts to reduce, γ how far the two overlap. Ts follows from where
the workers are; `core.physics.all_reduce` says how.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from stowplan.errors import InvalidInput

__all__ = ["Training"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """One training job, as each of its workers does it.

    `gradient_bytes` is what all GPUs of the job reduce in each step. `overlap` is γ: 1 adds the two times, ∞
    takes the longer.

    Raises:
        InvalidInput: a number is out of range; the message names it.
    """

    steps: float
    compute_s: float
    gradient_bytes: float
    overlap: float = 1.0

    def __post_init__(self) -> None:
        """Check the ranges."""
        for item in fields(self):
            number: float = getattr(self, item.name)
            lowest = 1.0 if item.name == "overlap" else 0.0
            if not (math.isfinite(number) and number >= lowest):
                raise InvalidInput(f"training: {item.name} is {number}; it must be finite and ≥ {lowest:g}")
        if self.steps == 0.0 or self.compute_s == 0.0:
            raise InvalidInput("training: steps and compute_s must be above 0")
