"""Faults by kind: how many per second between two readings of their counters.

They are what tells the causes of NotReady apart: storage (block and NVMe errors), kernel (hung tasks),
network (retransmits), memory (OOM kills, EDAC), the PCIe tree (AER). A kind that a machine does not count is
missing, not zero; so is one whose counter started anew, for a restart is when faults are lost.
"""

from __future__ import annotations

from collections.abc import Mapping

from stowplan.core.semantics.catalogue import quantity
from stowplan.core.semantics.quantities import FaultKind
from stowplan.core.semantics.rates import CounterLimits, IntervalRule, increase, interval_s
from stowplan.core.semantics.readings import FaultCounters, same_subject
from stowplan.core.semantics.value import Unknown, Value, measured

__all__ = ["fault_rates"]


def _rise(
    kind: FaultKind, before: FaultCounters, after: FaultCounters, passed: float | Unknown
) -> float | Unknown:
    counts: list[float] = []
    for reading in (before, after):
        if kind not in reading.counts:
            return Unknown(reading.why_missing(kind))
        counts.append(reading.counts[kind])
    limits = CounterLimits(name=kind.value, most_per_s=quantity(kind.quantity_name).high)
    return increase(counts[0], counts[1], passed, limits)


def fault_rates(
    before: FaultCounters, after: FaultCounters, *, rule: IntervalRule
) -> Mapping[FaultKind, Value]:
    """Return the faults of each kind per second between two readings of one node.

    Raises:
        InvalidInput: the readings are of different nodes or sources.
    """
    same_subject(before, after)
    passed = interval_s(before.taken, after.taken, rule)
    rates: dict[FaultKind, Value] = {}
    for kind in FaultKind:
        rise = _rise(kind, before, after, passed)
        rate = rise if isinstance(rise, Unknown) or isinstance(passed, Unknown) else rise / passed
        rates[kind] = measured(kind.quantity_name, rate, source=after.source, measured_s=after.taken.time_s)
    return rates
