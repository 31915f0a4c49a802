"""How busy cores and network devices are, from two readings of their counters.

Utilisation alone does not tell whether anybody waits: a node may run all its cores with nobody queueing. The
pressure stall time of the CPU tells the other half, the share of time in which some task wanted to run and
had no core (Linux, Documentation/accounting/psi.rst). A link is full duplex, so its busier direction counts.
"""

from __future__ import annotations

from typing import Final

from stowplan.core.semantics.rates import CounterLimits, IntervalRule, increase_of, interval_s
from stowplan.core.semantics.readings import (
    CpuPressureTotals,
    CpuTimes,
    NetworkDeviceCounters,
    Reading,
    same_subject,
)
from stowplan.core.semantics.value import Unknown, Value, measured

__all__ = ["cpu_utilisation", "cpu_wait_share", "nic_utilisation"]

_BUSY_LIMITS: Final = CounterLimits(name="busy_s", most_per_s=1e5)
_SOME_LIMITS: Final = CounterLimits(name="some_us", most_per_s=1.05e6)
_RECEIVED_LIMITS: Final = CounterLimits(name="received_bytes", most_per_s=1e12)
_SENT_LIMITS: Final = CounterLimits(name="sent_bytes", most_per_s=1e12)


def _share(
    after: Reading, amount: float | Unknown, whole_per_s: str, passed: float | Unknown
) -> float | Unknown:
    """Return an increase relative to what the field `whole_per_s` allows in the interval."""
    if isinstance(amount, Unknown):
        return amount
    if isinstance(passed, Unknown):
        return passed
    per_s: float | None = getattr(after, whole_per_s)
    if per_s is None:
        return Unknown(after.why_missing(whole_per_s))
    return amount / (per_s * passed) if per_s > 0.0 else Unknown(f"{whole_per_s} is {per_s:g}")


def cpu_utilisation(before: CpuTimes, after: CpuTimes, *, rule: IntervalRule) -> Value:
    """Return the share of a node's cores that worked between two readings.

    Raises:
        InvalidInput: the readings are of different nodes or sources.
    """
    same_subject(before, after)
    passed = interval_s(before.taken, after.taken, rule)
    share = _share(after, increase_of(before, after, passed, _BUSY_LIMITS), "cores", passed)
    return measured("cpu_utilisation", share, source=after.source, measured_s=after.taken.time_s)


def cpu_wait_share(before: CpuPressureTotals, after: CpuPressureTotals, *, rule: IntervalRule) -> Value:
    """Return the share of time between two readings in which some task waited for a core.

    Raises:
        InvalidInput: the readings are of different nodes or sources.
    """
    same_subject(before, after)
    passed = interval_s(before.taken, after.taken, rule)
    waited_us = increase_of(before, after, passed, _SOME_LIMITS)
    share = passed if isinstance(passed, Unknown) else waited_us
    if not isinstance(share, Unknown) and not isinstance(passed, Unknown):
        share /= 1e6 * passed
    return measured("cpu_wait_share", share, source=after.source, measured_s=after.taken.time_s)


def nic_utilisation(
    before: NetworkDeviceCounters, after: NetworkDeviceCounters, *, rule: IntervalRule
) -> Value:
    """Return the share of a network device's speed used between two readings, in its busier direction.

    Where one direction was not read the share is not known: the other might be the busier one.

    Raises:
        InvalidInput: the readings are of different devices or sources.
    """
    same_subject(before, after)
    passed = interval_s(before.taken, after.taken, rule)
    received = increase_of(before, after, passed, _RECEIVED_LIMITS)
    sent = increase_of(before, after, passed, _SENT_LIMITS)
    moved: float | Unknown
    if isinstance(received, Unknown) or isinstance(sent, Unknown):
        moved = received if isinstance(received, Unknown) else sent
    else:
        moved = max(received, sent)
    share = _share(after, moved, "speed_bytes_per_s", passed)
    return measured("nic_utilisation", share, source=after.source, measured_s=after.taken.time_s)
