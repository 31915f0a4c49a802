"""Where the gaps in a distribution of round trips are: the modes of log RTT, without a fixed microsecond.

Round trips of one distance lie together on a logarithmic scale, and those of another distance apart from
them. The density of log RTT is estimated with a Gaussian kernel of fixed width; a valley that is at most half
as high as the lower of the peaks beside it is a gap. Multiplying all round trips by one number moves no pair
to another mode, so the same code works in any network.

The kernel's width (0.15, so that two clean distances are told apart from a ratio of about 1.5) and the depth
of a valley (0.5) are proposals. Method: mode finding by kernel density estimation (Silverman, *Density
Estimation for Statistics and Data Analysis*, 1986, section 5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan.errors import InvalidInput

__all__ = ["ModeRule", "gaps_of"]

Floats = NDArray[np.float64]

_STEPS_PER_WIDTH: Final = 8
_KERNEL_WIDTHS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeRule:
    """What counts as a gap."""

    width: float = 0.15
    """Standard deviation of the kernel, in natural logarithms."""
    valley: float = 0.5
    """A valley is a gap when it is at most this share of the lower peak beside it."""
    most_modes: int = 4

    def __post_init__(self) -> None:
        """Refuse a rule without meaning.

        Raises:
            InvalidInput: the width is not above 0, the valley not in 0 … 1, or no mode is allowed.
        """
        if not (0.0 < self.width < math.inf and 0.0 < self.valley < 1.0 and self.most_modes >= 1):
            raise InvalidInput(f"{self}: width > 0, 0 < valley < 1 and most_modes ≥ 1 are needed")


def _density(logs: Floats, width: float) -> tuple[Floats, Floats]:
    """Return grid (g,) and density (g,), up to a constant factor, of (n,) sorted logarithms."""
    step = width / _STEPS_PER_WIDTH
    reach = _KERNEL_WIDTHS * width
    low = float(logs[0]) - reach
    size = math.ceil((float(logs[-1]) + reach - low) / step) + 1
    grid: Floats = (low + step * np.arange(size)).astype(np.float64)
    counts = np.bincount(np.rint((logs - low) / step).astype(np.int64), minlength=size).astype(np.float64)
    offsets = step * np.arange(-_KERNEL_WIDTHS * _STEPS_PER_WIDTH, _KERNEL_WIDTHS * _STEPS_PER_WIDTH + 1)
    kernel = np.exp(-0.5 * (offsets / width) ** 2)
    density: Floats = np.convolve(counts, kernel, mode="same").astype(np.float64)
    return grid, density


def _deep_valleys(density: Floats, share: float) -> list[int]:
    """Return the grid indexes of valleys at most `share` of the lower peak beside them, ascending.

    Walks from peak to peak: a valley that is too shallow melts its two peaks into the higher one.
    """
    valleys: list[int] = []
    peak = density[0]
    lowest = 0
    for index in range(1, density.size):
        height = density[index]
        if height < density[lowest]:
            lowest = index
        elif height * share >= density[lowest] and peak * share >= density[lowest] and height > 0.0:
            # Rising out of a deep valley: the next peak has begun.
            valleys.append(_middle(density, lowest))
            peak = height
            lowest = index
        elif height > peak:
            peak = height
            lowest = index
    return valleys


def _middle(density: Floats, index: int) -> int:
    """Return the middle of the flat bottom that begins at `index`."""
    end = index
    while end + 1 < density.size and density[end + 1] == density[index]:
        end += 1
    return (index + end) // 2


def gaps_of(rtt_s: Floats, rule: ModeRule) -> Floats:
    """Return the round trips, seconds, that part the modes of (n,) `rtt_s`, ascending.

    Of more gaps than the rule allows, those around the modes with the fewest pairs are closed first, towards
    the nearer neighbour.

    Raises:
        InvalidInput: a round trip is not above 0 and finite.
    """
    if rtt_s.size == 0:
        return np.empty(0)
    if not (np.isfinite(rtt_s).all() and (rtt_s > 0.0).all()):
        raise InvalidInput("a round trip is not above 0 and finite; leave such pairs out")
    logs = np.sort(np.log(rtt_s))
    grid, density = _density(logs, rule.width)
    gaps = [float(grid[index]) for index in _deep_valleys(density, rule.valley)]
    while len(gaps) >= rule.most_modes:
        del gaps[_to_close(logs, gaps)]
    return np.exp(np.array(gaps))


def _to_close(logs: Floats, gaps: list[float]) -> int:
    """Return the index of the gap between the mode with the fewest pairs and its nearer neighbour."""
    mode_of = np.searchsorted(gaps, logs)
    smallest = int(np.argmin(np.bincount(mode_of, minlength=len(gaps) + 1)))
    centres = [float(np.median(logs[mode_of == mode])) for mode in range(len(gaps) + 1)]
    beside = [gap for gap in (smallest - 1, smallest) if 0 <= gap < len(gaps)]
    return min(beside, key=lambda gap: centres[gap + 1] - centres[gap])
