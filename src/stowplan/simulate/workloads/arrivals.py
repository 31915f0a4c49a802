"""When workflows arrive: all at once, Poisson, a burst on a Poisson base, or as recorded.

The burst is the load that cloud clusters fear: for a window the rate is a multiple of the base rate, 17 by
default. A Poisson process of changing rate is drawn exactly by the time change theorem: unit-rate arrivals
mapped through the inverse of the cumulative rate (Çinlar 1975, Introduction to Stochastic Processes, ch. 4),
so no arrival is thrown away and each costs one draw.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stowplan.errors import InvalidInput

__all__ = ["AllAtOnce", "Arrivals", "Burst", "Poisson", "Replay", "parse_arrivals"]

_FORMS = "'at-once', 'replay', 'poisson:SECONDS' or 'burst:SECONDS:START:LENGTH[:FACTOR]'"


@dataclass(frozen=True, slots=True)
class AllAtOnce:
    """Everything is there at time zero."""

    def times_s(self, recorded_s: Sequence[float], rng: np.random.Generator) -> NDArray[np.float64]:
        """Return zeros, shape (len(recorded_s),)."""
        del rng
        return np.zeros(len(recorded_s))


@dataclass(frozen=True, slots=True)
class Replay:
    """As recorded, `speed` times as fast, and moved so that the first is at zero."""

    speed: float = 1.0

    def __post_init__(self) -> None:
        """Refuse a speed that is not above zero."""
        _require_positive("replay speed", self.speed)

    def times_s(self, recorded_s: Sequence[float], rng: np.random.Generator) -> NDArray[np.float64]:
        """Return the recorded times, shape (len(recorded_s),)."""
        del rng
        times = np.asarray(recorded_s, dtype=np.float64)
        return (times - times.min(initial=math.inf)) / self.speed if times.size else times


@dataclass(frozen=True, slots=True)
class Poisson:
    """Independent exponential gaps of mean `mean_gap_s`; the first workflow arrives after one gap."""

    mean_gap_s: float

    def __post_init__(self) -> None:
        """Refuse a gap that is not above zero."""
        _require_positive("mean gap", self.mean_gap_s)

    def times_s(self, recorded_s: Sequence[float], rng: np.random.Generator) -> NDArray[np.float64]:
        """Return ascending times, shape (len(recorded_s),)."""
        return np.cumsum(rng.exponential(self.mean_gap_s, len(recorded_s)))


@dataclass(frozen=True, slots=True)
class Burst:
    """Poisson arrivals, `factor` times as frequent for `length_s` from `start_s` on."""

    mean_gap_s: float
    start_s: float
    length_s: float
    factor: float = 17.0

    def __post_init__(self) -> None:
        """Refuse what is no burst."""
        _require_positive("mean gap", self.mean_gap_s)
        _require_positive("burst length", self.length_s)
        _require_positive("burst factor", self.factor)
        if not (math.isfinite(self.start_s) and self.start_s >= 0.0):
            raise InvalidInput(f"arrivals: burst start is {self.start_s}; give a finite time ≥ 0")

    def times_s(self, recorded_s: Sequence[float], rng: np.random.Generator) -> NDArray[np.float64]:
        """Return ascending times, shape (len(recorded_s),)."""
        # Cumulative expected arrivals: slope 1/gap, `factor` times that inside the window; invert it
        # piecewise.
        expected = np.cumsum(rng.exponential(1.0, len(recorded_s)))
        at_start = self.start_s / self.mean_gap_s
        at_end = at_start + self.length_s * self.factor / self.mean_gap_s
        return (
            np.interp(
                expected,
                [0.0, at_start, at_end, at_end + 1.0],
                [
                    0.0,
                    self.start_s,
                    self.start_s + self.length_s,
                    self.start_s + self.length_s + self.mean_gap_s,
                ],
            )
            + np.maximum(expected - (at_end + 1.0), 0.0) * self.mean_gap_s
        )


Arrivals = AllAtOnce | Replay | Poisson | Burst


def parse_arrivals(text: str) -> Arrivals:
    """Return the arrivals that a command line option names.

    Forms (times in seconds): `at-once`, `replay`, `replay:SPEED`, `poisson:MEAN_GAP`,
    `burst:MEAN_GAP:START:LENGTH` and `burst:MEAN_GAP:START:LENGTH:FACTOR`.

    Raises:
        InvalidInput: another form, or a number that is unusable.
    """
    kind, *fields = text.split(":")
    try:
        numbers = [float(field) for field in fields]
    except ValueError:
        raise InvalidInput(f"arrivals {text!r} has a field that is not a number; write {_FORMS}") from None
    match kind, len(numbers):
        case "at-once", 0:
            return AllAtOnce()
        case "replay", 0 | 1:
            return Replay(*numbers)
        case "poisson", 1:
            return Poisson(*numbers)
        case "burst", 3 | 4:
            return Burst(*numbers)
        case _:
            raise InvalidInput(f"arrivals {text!r} are not understood; write {_FORMS}")


def _require_positive(what: str, number: float) -> None:
    if not (math.isfinite(number) and number > 0.0):
        raise InvalidInput(f"arrivals: {what} is {number}; give a finite number above 0")
