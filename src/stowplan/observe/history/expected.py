"""The answer to "how long will it take": a middle, a spread, what it rests on, and where it comes from."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import NormalDist
from typing import Final

from stowplan.errors import InvalidInput
from stowplan.observe.history.spread import LOW, t_quantile

__all__ = ["ExpectedDuration", "Source"]

_NORMAL: Final = NormalDist()


class Source(StrEnum):
    """Whose runs an expected duration was taken from, the nearest kin first."""

    ITEM = "item"
    """Runs of the same class, those of the same item weighing more."""
    CLASS = "class"
    """Runs of the same class."""
    TEMPLATE = "template"
    """Classes with the same template in another workflow or place."""
    SHAPE = "shape"
    """Classes with the same image, command and requests."""
    WORKFLOW = "workflow"
    """Other classes of the same workflow template."""
    ALL = "all"
    """All classes there are."""
    NOTHING = "nothing"
    """No run at all: a guess that is as wide as workflows are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedDuration:
    """A duration foretold: its logarithm follows Student's law around `log_middle`.

    Attributes:
        log_middle: natural logarithm of the median in seconds.
        log_spread: scale of the law, ≥ 0.
        freedom: its degrees of freedom, ≥ 3 (inf: normal).
        source: whose runs it was taken from.
        runs: observations that it rests on; of kin, their classes.
        effective_runs: the same, old ones counting less.
        knows_node_class: whether it holds for the node class that was asked for; else for a usual one.
        longer_than_s: it was raised because runs of the class are known to take longer than this.
    """

    log_middle: float
    log_spread: float
    freedom: float
    source: Source
    runs: int
    effective_runs: float
    knows_node_class: bool = False
    longer_than_s: float = 0.0

    @property
    def expected_s(self) -> float:
        """The median: as many runs take longer as shorter."""
        return math.exp(self.log_middle)

    @property
    def low_s(self) -> float:
        """One run in ten is shorter."""
        return self.quantile_s(LOW)

    @property
    def high_s(self) -> float:
        """One run in ten is longer."""
        return self.quantile_s(1.0 - LOW)

    @property
    def spread_factor(self) -> float:
        """The upper end over the median: 1.2 says within about 20 % of it, eight times in ten."""
        return self.high_s / self.expected_s

    def quantile_s(self, share: float) -> float:
        """Return the seconds within which `share` of the runs end.

        Raises:
            InvalidInput: `share` is outside 0.1–0.9; the tails are not known that well.
        """
        if not LOW <= share <= 1.0 - LOW:
            raise InvalidInput(f"share is {share}; it must be within {LOW} and {1.0 - LOW}")
        return math.exp(self.log_middle + self.log_spread * t_quantile(share, self.freedom))

    def after(self, elapsed_s: float) -> float:
        """Return the expected whole duration in seconds of a run that has gone on for `elapsed_s`.

        The median of what lies above `elapsed_s`, from the normal law with the same 80 % interval.
        """
        if elapsed_s <= 0.0:
            return self.expected_s
        sigma = self._normal_sigma()
        if sigma <= 0.0:
            return max(self.expected_s, elapsed_s)
        lasting = _NORMAL.cdf((self.log_middle - math.log(elapsed_s)) / sigma)
        if lasting <= 0.0:  # beyond what floating point can tell
            return elapsed_s
        # Never below what has passed: far out, the two agree but for rounding.
        return max(elapsed_s, math.exp(self.log_middle - sigma * _NORMAL.inv_cdf(0.5 * lasting)))

    def given_longer_than(self, elapsed_s: float) -> ExpectedDuration:
        """Return what is expected where runs are known to take longer than `elapsed_s`."""
        if elapsed_s <= 0.0:
            return self
        return replace(self, log_middle=math.log(self.after(elapsed_s)), longer_than_s=elapsed_s)

    def in_words(self) -> str:
        """Return one line for people."""
        if self.source is Source.NOTHING:
            return f"{self.expected_s:.3g} s by default: no run has been seen yet"
        of = "run" if self.source in (Source.ITEM, Source.CLASS) else "class"
        plural = "" if self.runs == 1 else "es" if of == "class" else "s"
        return (
            f"{self.expected_s:.3g} s ({self.low_s:.3g}–{self.high_s:.3g} s in 8 of 10), from {self.runs} "
            f"{of}{plural} by {self.source.value}"
        )

    def _normal_sigma(self) -> float:
        return self.log_spread * t_quantile(1.0 - LOW, self.freedom) / _NORMAL.inv_cdf(1.0 - LOW)
