"""From two readings of a counter to its increase: wrap, restart, clocks that were set, gaps.

What cannot be told is *not known*, never zero and never a spike:

* an interval of zero or less, too short, or too long for a mean over it to mean anything;
* reader's and machine's clock disagree: one of them was set in between;
* the machine started in between: its uptime is less than the time that passed;
* a counter went back. If it is narrow enough to have wrapped, and the increase over the wrap is physically
  possible, it wrapped; else it started anew, and what it counted before is lost.

A counter that is negative, not finite, wider than it can be or faster than physics allows is *impossible*.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from stowplan.core.semantics.readings import Reading, Taken
from stowplan.core.semantics.value import Unknown
from stowplan.errors import InvalidInput

__all__ = ["CounterLimits", "IntervalRule", "increase", "increase_of", "interval_s", "summed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalRule:
    """Which intervals have a rate: readings are due every 5 s, and no gap may be longer than 30 s (R22)."""

    shortest_s: float = 0.5
    longest_s: float = 30.0
    clocks_may_differ_s: float = 0.5
    """Jitter between the reader's and the machine's clock over one interval."""

    def __post_init__(self) -> None:
        """Refuse a rule that no interval can meet.

        Raises:
            InvalidInput: the bounds are not 0 < shortest < longest < ∞, or the tolerance is negative.
        """
        if not 0.0 < self.shortest_s < self.longest_s < math.inf or not self.clocks_may_differ_s >= 0.0:
            raise InvalidInput(f"{self} admits no interval; 0 < shortest_s < longest_s, tolerance ≥ 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterLimits:
    """What a counter can do: its name, the fastest it can rise per second, and where it wraps."""

    name: str
    most_per_s: float
    width_bits: int = 64

    def __post_init__(self) -> None:
        """Refuse limits without meaning.

        Raises:
            InvalidInput: the rate or the width is not above 0.
        """
        if not (0.0 < self.most_per_s < math.inf and self.width_bits > 0):
            raise InvalidInput(f"{self}: most_per_s and width_bits must be above 0 and finite")


def interval_s(before: Taken, after: Taken, rule: IntervalRule) -> float | Unknown:
    """Return the seconds between two readings, by the machine's own clock where both have it."""
    passed_s = after.time_s - before.time_s
    if not math.isfinite(passed_s):
        return Unknown(f"time went from {before.time_s} to {after.time_s}")
    if before.uptime_s is not None and after.uptime_s is not None:
        own_s = after.uptime_s - before.uptime_s
        if not own_s >= 0.0:
            return Unknown(f"uptime went from {before.uptime_s:g} to {after.uptime_s:g} s: started anew")
        if abs(own_s - passed_s) > rule.clocks_may_differ_s:
            return Unknown(
                f"{passed_s:g} s passed by one clock and {own_s:g} s by the other: a clock was set"
            )
        passed_s = own_s
    elif after.uptime_s is not None and passed_s > after.uptime_s + rule.clocks_may_differ_s:
        return Unknown(f"started {after.uptime_s:g} s ago, after the first reading")
    if not rule.shortest_s <= passed_s <= rule.longest_s:
        return Unknown(
            f"{passed_s:g} s between two readings; a rate needs {rule.shortest_s:g} to {rule.longest_s:g} s"
        )
    return passed_s


def increase(
    before: float, after: float, interval: float | Unknown, limits: CounterLimits
) -> float | Unknown:
    """Return by how much a counter rose in `interval` seconds, ≥ 0 and at most `most_per_s` × interval."""
    if isinstance(interval, Unknown):
        return interval
    size = 1 << limits.width_bits
    for count in (before, after):
        if not 0.0 <= count < size:
            return Unknown(f"{limits.name} is {count:g}", f"0 ≤ {limits.name} < 2^{limits.width_bits}")
    most = limits.most_per_s * interval
    rise = after - before
    if rise < 0:
        rise += size
        if rise > most:
            return Unknown(f"{limits.name} went back from {before:g} to {after:g}: it started anew")
    if rise > most:
        return Unknown(
            f"{limits.name} rose by {rise:g} in {interval:g} s",
            f"{limits.name} ≤ {limits.most_per_s:g} per second",
        )
    return float(rise)


def increase_of(
    before: Reading, after: Reading, interval: float | Unknown, limits: CounterLimits
) -> float | Unknown:
    """Return the increase of the field `limits.name` of two readings; unknown where it was not read."""
    counts: list[float] = []
    for reading in (before, after):
        count: float | None = getattr(reading, limits.name)
        if count is None:
            return Unknown(reading.why_missing(limits.name))
        counts.append(count)
    return increase(counts[0], counts[1], interval, limits)


def summed(*parts: float | Unknown) -> float | Unknown:
    """Return the sum, or the first part that is unknown: half a sum is no sum."""
    total = 0.0
    for part in parts:
        if isinstance(part, Unknown):
            return part
        total += part
    return total
