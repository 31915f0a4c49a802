"""Readings that tests take apart."""

from dataclasses import replace
from typing import Any

from stowplan.core.semantics import (
    BandwidthLaw,
    BlockDeviceCounters,
    ChannelCounters,
    IntervalRule,
    MemoryReading,
    Source,
    Taken,
    Value,
)
from stowplan.core.semantics.value import measured

RULE = IntervalRule()
LAW = BandwidthLaw()
GIB = 2.0**30

START = Taken(time_s=1000.0, uptime_s=50_000.0)


def later(taken: Taken, passed_s: float) -> Taken:
    """The moment `passed_s` after `taken`, by both clocks."""
    uptime_s = None if taken.uptime_s is None else taken.uptime_s + passed_s
    return Taken(time_s=taken.time_s + passed_s, uptime_s=uptime_s)


def channels(reads: float, writes: float, taken: Taken = START) -> ChannelCounters:
    """Six channels of DDR4-2666, as of a Skylake socket: 127.968 GB/s at most."""
    return ChannelCounters(
        subject="node-1/socket-0",
        taken=taken,
        cas_reads=reads,
        cas_writes=writes,
        channels=6,
        transfers_mt_s=2666.0,
    )


DISK = BlockDeviceCounters(
    subject="node-1/vda",
    taken=START,
    reads=10_000,
    sectors_read=160_000,
    read_ms=50_000,
    writes=5_000,
    sectors_written=80_000,
    write_ms=40_000,
    in_flight=4,
    io_ms=60_000,
    weighted_ms=90_000,
)


def disk_after(passed_s: float = 5.0, **rises: float) -> BlockDeviceCounters:
    """`DISK` after `passed_s` in which the counters rose by `rises`."""
    counts = {name: getattr(DISK, name) + rise for name, rise in rises.items()}
    return replace(DISK, taken=later(START, passed_s), **counts)


def memory(**amounts_gib: float | None) -> MemoryReading:
    """A container of 10 GiB: 4 anonymous, 5.5 cache of which 3 inactive, 0.5 kernel; limit 16 GiB."""
    given = {"current": 10.0, "anon": 4.0, "file": 5.5, "inactive_file": 3.0, "kernel": 0.5, "sock": 0.0}
    amounts = {**given, "limit": 16.0, **amounts_gib}
    in_bytes: dict[str, Any] = {
        f"{name}_bytes": None if gib is None else gib * GIB for name, gib in amounts.items()
    }
    return MemoryReading(subject="node-1/pod-7", taken=START, **in_bytes)


def awaited(await_s: float, time_s: float) -> Value:
    """An await that was measured at `time_s`."""
    return measured("storage_await_s", await_s, source=Source.DISKSTATS, measured_s=time_s)
