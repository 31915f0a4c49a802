"""Memory bandwidth: true utilisation and pressure index (MBPI) from whichever counters a machine has.

A column access (CAS) moves 64 B; a channel is 8 B wide. So with data rate R (MT/s) over an interval

    utilisation = 64 B × CAS / (8 B × R × 10⁶ × channels × seconds)

The often copied (RD + WR) / (2 × CLOCKTICKS) is wrong by the factor 8, or 4 where the memory clock runs at a
quarter of the data rate: such a value never leaves the lowest eighth. By clocks, with k transfers a clock, it
is utilisation = 8 × CAS / (k × clocks). (Intel Xeon E5-2600 uncore guide 327043, memory controller events;
kernel scale of `cas_count_*`: 64 B.) AMD's controllers give it directly: data slots / 2 / clocks (Linux perf,
Zen 4 metrics).

Stand-ins where nothing counts bytes, each marked by its source:

* stalled cycles: with m the stalled share of the same work on an idle machine and s that of now, latency grew
  by λ = s·(1−m) / (m·(1−s)), and the law of `knee` gives the utilisation that does this. Proposal.
* pressure stall time of memory: the share of time in which some task waited for memory to be reclaimed or
  read back. It is no bandwidth; it is taken for the pressure as a last resort. Proposal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from stowplan.core.semantics.knee import BandwidthLaw
from stowplan.core.semantics.rates import (
    CounterLimits,
    IntervalRule,
    increase_of,
    interval_s,
    summed,
)
from stowplan.core.semantics.readings import (
    ChannelCounters,
    DataSlotCounters,
    MonitoredBytes,
    PressureTotals,
    Reading,
    StallCounters,
    same_subject,
)
from stowplan.core.semantics.value import Unknown, Value, bounded, measured
from stowplan.errors import InvalidInput

__all__ = ["CpuWeightRule", "bandwidth_pressure", "bandwidth_utilisation", "cpu_weight", "node_pressure"]

UTILISATION: Final = "memory_bandwidth_utilisation"
PRESSURE: Final = "memory_bandwidth_pressure"

_CAS_BYTES: Final = 64.0
_CHANNEL_BYTES: Final = 8.0
_CAS_LIMITS: Final = (
    CounterLimits(name="cas_reads", most_per_s=1e12),
    CounterLimits(name="cas_writes", most_per_s=1e12),
)
_CLOCK_LIMITS: Final = CounterLimits(name="clock_ticks", most_per_s=1e12)
_SLOT_LIMITS: Final = CounterLimits(name="data_slots", most_per_s=2e12)
_BYTE_LIMITS: Final = CounterLimits(name="total_bytes", most_per_s=1e14)
_CYCLE_LIMITS: Final = CounterLimits(name="cycles", most_per_s=1e13)
_STALLED_LIMITS: Final = CounterLimits(name="stalled_cycles", most_per_s=1e13)
_SOME_LIMITS: Final = CounterLimits(name="some_us", most_per_s=1.05e6)


def _ratio(part: float | Unknown, whole: float | Unknown, what: str) -> float | Unknown:
    if isinstance(part, Unknown):
        return part
    if isinstance(whole, Unknown):
        return whole
    return part / whole if whole > 0.0 and math.isfinite(whole) else Unknown(f"{what} is {whole:g}")


def _by_channels(before: ChannelCounters, after: ChannelCounters, passed: float | Unknown) -> float | Unknown:
    accesses = summed(*(increase_of(before, after, passed, limits) for limits in _CAS_LIMITS))
    if isinstance(accesses, Unknown) or isinstance(passed, Unknown):
        return accesses
    rate, channels = after.transfers_mt_s, after.channels
    if rate is not None and channels is not None:
        peak = _CHANNEL_BYTES * rate * 1e6 * channels * passed
        return _ratio(_CAS_BYTES * accesses, peak, f"theoretical bandwidth at {rate:g} MT/s × {channels}")
    if after.transfers_per_clock is None:
        return Unknown(after.why_missing("transfers_mt_s" if rate is None else "channels"))
    ticks = increase_of(before, after, passed, _CLOCK_LIMITS)
    if isinstance(ticks, Unknown):
        return ticks
    transfers = after.transfers_per_clock * ticks
    return _ratio(_CAS_BYTES / _CHANNEL_BYTES * accesses, transfers, "number of possible transfers")


def _by_stalls(
    before: StallCounters, after: StallCounters, passed: float | Unknown, law: BandwidthLaw
) -> float | Unknown:
    stalled = increase_of(before, after, passed, _STALLED_LIMITS)
    ratio = _ratio(stalled, increase_of(before, after, passed, _CYCLE_LIMITS), "number of cycles")
    share = ratio if isinstance(ratio, Unknown) else bounded("stalled_cycles_share", ratio)
    if isinstance(share, Unknown):
        return share
    idle = after.idle_share
    if idle is None:
        return Unknown(after.why_missing("idle_share"))
    if not 0.0 < idle < 1.0:
        return Unknown(f"idle_share is {idle:g}", "0 < idle_share < 1")
    latency = math.inf if share >= 1.0 else share * (1.0 - idle) / (idle * (1.0 - share))
    return law.utilisation(latency)


def bandwidth_utilisation(before: Reading, after: Reading, *, law: BandwidthLaw, rule: IntervalRule) -> Value:
    """Return the memory bandwidth utilisation of a socket (or L3 domain) between two readings, 0 … 1.

    Args:
        before: channel counters, AMD's data slots, monitored bytes, stall counters or pressure totals.
        after: the same, later.
        law: reads utilisation out of stalled cycles.
        rule: which intervals have a rate.

    Raises:
        InvalidInput: the readings are of different subjects, sources or kinds, or not of memory bandwidth.
    """
    same_subject(before, after)
    passed = interval_s(before.taken, after.taken, rule)
    match before, after:
        case ChannelCounters(), ChannelCounters():
            share = _by_channels(before, after, passed)
        case DataSlotCounters(), DataSlotCounters():
            slots = increase_of(before, after, passed, _SLOT_LIMITS)
            share = _ratio(slots, increase_of(before, after, passed, _CLOCK_LIMITS), "number of clocks")
            share = share if isinstance(share, Unknown) else share / 2.0
        case MonitoredBytes(), MonitoredBytes():
            moved = increase_of(before, after, passed, _BYTE_LIMITS)
            peak = after.peak_bytes_per_s
            if peak is None:
                share = Unknown(after.why_missing("peak_bytes_per_s"))
            else:
                whole = passed if isinstance(passed, Unknown) else peak * passed
                share = _ratio(moved, whole, "peak of bytes")
        case StallCounters(), StallCounters():
            share = _by_stalls(before, after, passed, law)
        case PressureTotals(), PressureTotals():
            share = Unknown("pressure stall time says nothing of bandwidth")
        case _:
            raise InvalidInput(f"{type(before).__name__} is no reading of memory bandwidth")
    return measured(UTILISATION, share, source=after.source, measured_s=after.taken.time_s)


def bandwidth_pressure(before: Reading, after: Reading, *, law: BandwidthLaw, rule: IntervalRule) -> Value:
    """Return the memory bandwidth pressure index (MBPI) between two readings, 0 … 1; see the module.

    Arguments and errors are those of `bandwidth_utilisation`.
    """
    same_subject(before, after)
    if isinstance(before, PressureTotals) and isinstance(after, PressureTotals):
        passed = interval_s(before.taken, after.taken, rule)
        stalled_us = increase_of(before, after, passed, _SOME_LIMITS)
        whole_us = passed if isinstance(passed, Unknown) else passed * 1e6
        share = _ratio(stalled_us, whole_us, "interval")
        pressure = share if isinstance(share, Unknown) else min(share, 1.0)
        return measured(PRESSURE, pressure, source=after.source, measured_s=after.taken.time_s)
    return bandwidth_utilisation(before, after, law=law, rule=rule).derive(PRESSURE, law.pressure)


def node_pressure(sockets: Sequence[Value]) -> Value:
    """Return the pressure of a node from that of its sockets: the highest, for a mean hides a full socket.

    A socket whose pressure is not present stands for the node: the highest of the others might be too low.

    Raises:
        InvalidInput: there are no sockets, or a value is not a memory bandwidth pressure.
    """
    if not sockets or any(value.quantity != PRESSURE for value in sockets):
        raise InvalidInput(f"{[value.quantity for value in sockets]}: give the {PRESSURE} of each socket")
    for value in sockets:
        if value.known is None:
            return value
    return max(sockets, key=lambda value: value.known or 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuWeightRule:
    """How the pressure lowers a node's weight for CPU-heavy tasks (R7).

    The threshold is the article's; the floor is a proposal: about the speed that a task whose time is half
    memory latency keeps when latency is ×2.6, that of full memory by the law.
    """

    threshold: float = 0.8
    floor: float = 0.55

    def __post_init__(self) -> None:
        """Refuse a rule without meaning.

        Raises:
            InvalidInput: the threshold is not in 0 … 1 (1 excluded), or the floor not in 0 … 1.
        """
        if not (0.0 <= self.threshold < 1.0 and 0.0 <= self.floor <= 1.0):
            raise InvalidInput(f"{self}: 0 ≤ threshold < 1 and 0 ≤ floor ≤ 1 are needed")

    def weight(self, pressure: float) -> float:
        """Return 1 up to the threshold, then evenly less down to the floor at pressure 1."""
        beyond = max(pressure - self.threshold, 0.0) / (1.0 - self.threshold)
        return 1.0 - (1.0 - self.floor) * min(beyond, 1.0)


def cpu_weight(pressure: Value, rule: CpuWeightRule) -> Value:
    """Return the factor on a node's score for CPU-heavy tasks, of the quality of the pressure.

    Raises:
        InvalidInput: the value is not a memory bandwidth pressure.
    """
    if pressure.quantity != PRESSURE:
        raise InvalidInput(f"a CPU weight follows from {PRESSURE}, not from {pressure.quantity}")
    return pressure.derive("cpu_weight", rule.weight)
