"""Block devices: await, queue depth, IOPS, throughput and utilisation from two lines of diskstats.

    await = (Δ read time + Δ write time) / (Δ reads + Δ writes)        queue depth = Δ weighted time /
    interval

as `iostat` has them (Linux, Documentation/admin-guide/iostats.rst). Little's law, queue depth = await × IOPS,
holds on measurements: 456 µs against 447, 239 ms against 239, 11.86 ms against 11.84. The times are 32 bit
wide and wrap, the weighted time of a busy disk within a day.

An interval in which no request was completed has no await. But where requests were in flight at both ends,
they have waited at least as long as the interval: that lower bound is given, from its own source, because it
is what a hung disk looks like.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from stowplan.core.semantics.quantities import Source
from stowplan.core.semantics.rates import CounterLimits, IntervalRule, increase_of, interval_s, summed
from stowplan.core.semantics.readings import BlockDeviceCounters, same_subject
from stowplan.core.semantics.value import Unknown, Value, measured

__all__ = ["SECTOR_BYTES", "DeviceStatistics", "device_statistics"]

SECTOR_BYTES: Final = 512.0
"""Of a sector in diskstats, whatever the device's own."""

_MOST_IN_FLIGHT: Final = 65536.0
_MOST_IOPS: Final = 1e8
_MOST_SECTORS: Final = 1e12 / SECTOR_BYTES
_WAITING: Final = 1000.0 * _MOST_IN_FLIGHT  # milliseconds of waiting that pass in a second
_MILLISECONDS_BITS: Final = 32
_LIMITS: Final = {
    limits.name: limits
    for limits in (
        CounterLimits(name="reads", most_per_s=_MOST_IOPS),
        CounterLimits(name="writes", most_per_s=_MOST_IOPS),
        CounterLimits(name="sectors_read", most_per_s=_MOST_SECTORS),
        CounterLimits(name="sectors_written", most_per_s=_MOST_SECTORS),
        CounterLimits(name="read_ms", most_per_s=_WAITING, width_bits=_MILLISECONDS_BITS),
        CounterLimits(name="write_ms", most_per_s=_WAITING, width_bits=_MILLISECONDS_BITS),
        CounterLimits(name="weighted_ms", most_per_s=_WAITING, width_bits=_MILLISECONDS_BITS),
        CounterLimits(name="io_ms", most_per_s=1050.0, width_bits=_MILLISECONDS_BITS),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceStatistics:
    """What one block device did between two readings; the catalogue says what each value is."""

    await_s: Value
    read_await_s: Value
    write_await_s: Value
    queue_depth: Value
    iops: Value
    bytes_per_s: Value
    utilisation: Value

    @property
    def values(self) -> tuple[Value, ...]:
        """All of them."""
        return (
            self.await_s,
            self.read_await_s,
            self.write_await_s,
            self.queue_depth,
            self.iops,
            self.bytes_per_s,
            self.utilisation,
        )


class _Pair:
    """Two readings of one device, and what can be said of the time between them."""

    def __init__(self, before: BlockDeviceCounters, after: BlockDeviceCounters, rule: IntervalRule) -> None:
        self.before = before
        self.after = after
        self.passed = interval_s(before.taken, after.taken, rule)

    def rise(self, name: str) -> float | Unknown:
        return increase_of(self.before, self.after, self.passed, _LIMITS[name])

    def per_second(self, amount: float | Unknown) -> float | Unknown:
        if isinstance(self.passed, Unknown) or isinstance(amount, Unknown):
            return amount
        return amount / self.passed

    def value(
        self, name: str, number: float | Unknown, source: Source | None = None, reason: str = ""
    ) -> Value:
        return measured(
            name,
            number,
            source=source if source is not None else self.after.source,
            measured_s=self.after.taken.time_s,
            reason=reason,
        )

    def mean_wait(self, name: str, waited_ms: float | Unknown, requests: float | Unknown) -> Value:
        """Return the mean wait of the `requests` completed, as the quantity `name`."""
        if isinstance(requests, Unknown) or isinstance(waited_ms, Unknown):
            return self.value(name, requests if isinstance(requests, Unknown) else waited_ms)
        if requests <= 0.0:
            return self.value(name, Unknown("no request was completed"))
        return self.value(name, waited_ms / 1000.0 / requests)

    def hung(self, requests: float | Unknown) -> float | None:
        """Return how long requests in flight have waited at least, when none was completed; else None."""
        flying = (self.before.in_flight, self.after.in_flight)
        stands = all(count is not None and 0.0 < count <= _MOST_IN_FLIGHT for count in flying)
        if requests != 0.0 or not stands or isinstance(self.passed, Unknown):
            return None
        return self.passed


def device_statistics(
    before: BlockDeviceCounters, after: BlockDeviceCounters, *, rule: IntervalRule
) -> DeviceStatistics:
    """Return what a block device did between two readings of it; each value has its own quality.

    Raises:
        InvalidInput: the readings are of different devices or sources.
    """
    same_subject(before, after)
    pair = _Pair(before, after, rule)
    reads, writes = pair.rise("reads"), pair.rise("writes")
    read_ms, write_ms = pair.rise("read_ms"), pair.rise("write_ms")
    requests = summed(reads, writes)
    waited_s = pair.hung(requests)
    if waited_s is None:
        mean = pair.mean_wait("storage_await_s", summed(read_ms, write_ms), requests)
    else:
        at_least = f"at least: {after.in_flight:g} requests wait, none was completed"
        mean = pair.value("storage_await_s", waited_s, Source.IN_FLIGHT, at_least)
    sectors = summed(pair.rise("sectors_read"), pair.rise("sectors_written"))
    moved = sectors if isinstance(sectors, Unknown) else sectors * SECTOR_BYTES
    weighted, busy = pair.per_second(pair.rise("weighted_ms")), pair.per_second(pair.rise("io_ms"))
    return DeviceStatistics(
        await_s=mean,
        read_await_s=pair.mean_wait("storage_read_await_s", read_ms, reads),
        write_await_s=pair.mean_wait("storage_write_await_s", write_ms, writes),
        queue_depth=pair.value(
            "storage_queue_depth", weighted if isinstance(weighted, Unknown) else weighted / 1000.0
        ),
        iops=pair.value("storage_iops", pair.per_second(requests)),
        bytes_per_s=pair.value("storage_bytes_per_s", pair.per_second(moved)),
        utilisation=pair.value("storage_utilisation", busy if isinstance(busy, Unknown) else busy / 1000.0),
    )
