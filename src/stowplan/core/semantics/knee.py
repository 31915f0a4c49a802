"""The knee of memory bandwidth: where latency begins to grow, fitted on measurements.

Law with data: λ(ρ) = 1 + c·ρ/(s−ρ), ρ = traffic / highest achieved bandwidth, s = 1.10 (Mess, MICRO 2024:
c = 0.194 on Skylake with six DDR4-2666, which achieves 0.79 of its theoretical bandwidth; c = 0.137 on
Graviton3 with eight DDR5-4800, which achieves 0.915; at most 9 and 4 % error, in sample, two machines). It is
the law by which `core.physics.dram` slows tasks; here it is read the other way round.

The knee is the utilisation at which latency is `knee_latency` times that of idle memory. That it is 1.1 is a
proposal: it puts the knee at 0.42 of the achievable bandwidth, and MBPI 0.8 at a latency ×1.67.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan.errors import InvalidInput

__all__ = ["BandwidthLaw", "KneeFit", "fit_knee"]

Floats = NDArray[np.float64]

_GRID: Final = 400
_REFINEMENTS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class BandwidthLaw:
    """Latency of memory by the share of its theoretical bandwidth that is used."""

    coefficient: float = 0.165
    """c; between the two machines measured."""
    saturation: float = 1.1
    """s."""
    achievable: float = 0.85
    """Highest achieved share of the theoretical bandwidth; between the two machines measured."""
    knee_latency: float = 1.1
    """Latency relative to idle memory at which pressure begins."""

    def __post_init__(self) -> None:
        """Refuse constants under which the law has no meaning.

        Raises:
            InvalidInput: a constant is out of range, or latency never reaches the knee.
        """
        checks = (
            ("coefficient", self.coefficient > 0.0),
            ("saturation", self.saturation > 1.0),
            ("achievable", 0.0 < self.achievable <= 1.0),
            ("knee_latency", self.knee_latency > 1.0),
        )
        for name, holds in checks:
            number: float = getattr(self, name)
            if not (holds and math.isfinite(number)):
                raise InvalidInput(f"BandwidthLaw.{name} is {number}; see its range in the class description")
        if self.knee_latency >= self.latency(self.achievable):
            raise InvalidInput(
                f"BandwidthLaw.knee_latency is {self.knee_latency}, but latency reaches only "
                f"{self.latency(self.achievable):.3g} at the achievable bandwidth; choose a lower one"
            )

    def latency(self, utilisation: float) -> float:
        """λ ≥ 1 at a utilisation in 0 … 1 of the theoretical bandwidth."""
        load = min(max(utilisation / self.achievable, 0.0), 1.0)
        return 1.0 + self.coefficient * load / (self.saturation - load)

    def utilisation(self, latency: float) -> float:
        """Return the utilisation at which latency is λ: 0 below 1, the achievable one where λ is beyond."""
        rise = max(latency - 1.0, 0.0)
        load = 1.0 if math.isinf(rise) else self.saturation * rise / (self.coefficient + rise)
        return self.achievable * min(load, 1.0)

    @property
    def knee(self) -> float:
        """Utilisation at which pressure begins."""
        return self.utilisation(self.knee_latency)

    def pressure(self, utilisation: float) -> float:
        """MBPI in 0 … 1: 0 up to the knee, 1 from the achievable bandwidth on."""
        knee = self.knee
        return min(max((utilisation - knee) / (self.achievable - knee), 0.0), 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class KneeFit:
    """What a fit found, and how well it describes its own samples."""

    law: BandwidthLaw
    samples: int
    largest_error: float
    """Relative, of latency, in sample."""
    typical_error: float
    """Root of the mean square of the relative errors."""


def _coefficients(
    capacities: Floats, share: Floats, ratio: Floats, saturation: float
) -> tuple[Floats, Floats]:
    """Return c and the mean square of the relative error, (capacities,) each, by least squares."""
    load = np.minimum(share / capacities[:, None], 1.0)
    shape: Floats = load / (saturation - load) / ratio
    aim: Floats = 1.0 - 1.0 / ratio
    best: Floats = (shape * aim).sum(axis=1) / (shape * shape).sum(axis=1)
    errors: Floats = np.square(best[:, None] * shape - aim).mean(axis=1)
    return best, errors


def _best(share: Floats, ratio: Floats, saturation: float, achievable: float | None) -> tuple[float, float]:
    """Return the capacity and the coefficient with the least error, on a grid that narrows down."""
    low, high = (float(share.max()), 1.0) if achievable is None else (achievable, achievable)
    capacity = coefficient = math.nan
    for _ in range(_REFINEMENTS):
        capacities = np.linspace(low, high, _GRID)
        found, errors = _coefficients(capacities, share, ratio, saturation)
        best = int(np.argmin(errors))
        capacity, coefficient = float(capacities[best]), float(found[best])
        low, high = float(capacities[max(best - 1, 0)]), float(capacities[min(best + 1, _GRID - 1)])
    return capacity, coefficient


def fit_knee(
    utilisation: Floats,
    latency_ratio: Floats,
    *,
    achievable: float | None = None,
    like: BandwidthLaw | None = None,
) -> KneeFit:
    """Fit c, and the achievable bandwidth unless it is given, by least squares of the relative error.

    Args:
        utilisation: (n,) shares of the theoretical bandwidth, 0 … 1.
        latency_ratio: (n,) latency there relative to idle memory.
        achievable: highest achieved share of the theoretical bandwidth, when a benchmark measured it; else it
            is sought from the largest utilisation seen up to 1.
        like: the law that gives saturation and knee latency; the default one unless given.

    Pairs with a number that is not finite, or not above 0, are left out.

    Raises:
        InvalidInput: fewer than three usable pairs or utilisations, or latency does not grow with
            utilisation.
    """
    if utilisation.shape != latency_ratio.shape or utilisation.ndim != 1:
        raise InvalidInput(
            f"utilisation has shape {utilisation.shape}, latency {latency_ratio.shape}; both must be (n,)"
        )
    base = like if like is not None else BandwidthLaw()
    usable = (
        np.isfinite(utilisation) & np.isfinite(latency_ratio) & (utilisation > 0.0) & (latency_ratio > 0.0)
    )
    usable &= utilisation <= 1.0
    share, ratio = utilisation[usable], latency_ratio[usable]
    if np.unique(share).size < 3:
        raise InvalidInput(
            f"{share.size} usable samples at {np.unique(share).size} utilisations; 3 are needed"
        )
    capacity, coefficient = _best(share, ratio, base.saturation, achievable)
    if not coefficient > 0.0:
        raise InvalidInput(
            f"latency does not grow with utilisation in these {share.size} samples (c = {coefficient:.3g}); "
            "measure up to the highest bandwidth"
        )
    law = BandwidthLaw(
        coefficient=coefficient,
        saturation=base.saturation,
        achievable=capacity,
        knee_latency=base.knee_latency,
    )
    wrong = np.abs(np.array([law.latency(float(each)) for each in share]) / ratio - 1.0)
    return KneeFit(
        law=law,
        samples=share.size,
        largest_error=float(wrong.max()),
        typical_error=float(np.sqrt(np.mean(wrong * wrong))),
    )
