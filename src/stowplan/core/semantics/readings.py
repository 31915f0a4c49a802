"""Raw readings: what counters and files said at one moment, with source, time, and what could not be read.

Immutable records without meaning of their own; the other modules make values of them, mostly of two readings
of the same subject. A field that could not be read is None, and `missing` may say why ("no permission",
"absent"). Times are handed in: `time_s` is the reader's clock, `uptime_s` the machine's own monotonic clock,
which shows restarts and clocks that were set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from stowplan.core.semantics.quantities import FaultKind, Source
from stowplan.errors import InvalidInput

__all__ = [
    "BlockDeviceCounters",
    "ChannelCounters",
    "CpuPressureTotals",
    "CpuTimes",
    "DataSlotCounters",
    "DeviceKind",
    "FaultCounters",
    "MemoryReading",
    "MonitoredBytes",
    "NetworkDeviceCounters",
    "PcieDevice",
    "PressureTotals",
    "Reading",
    "StallCounters",
    "Taken",
    "same_subject",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """When a reading was taken, seconds."""

    time_s: float
    uptime_s: float | None = None
    """Since the machine (or, of a container's counters, the container) started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What all readings have."""

    subject: str
    """Whose counters these are: a node, one of its sockets or devices, or a container."""
    taken: Taken
    source: Source
    missing: Mapping[str, str] = field(default_factory=dict[str, str])
    """Why a field is None, by its name."""

    def why_missing(self, name: str) -> str:
        """Say why the field `name` was not read."""
        return f"{name} of {self.subject!r} was not read: {self.missing.get(name, 'no reason given')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelCounters(Reading):
    """Counters of all memory channels of one socket (Intel `uncore_imc_*`, AMD data fabric).

    `transfers_mt_s` is the configured data rate in millions of transfers a second (SMBIOS type 17); where it
    is not known, `clock_ticks` and `transfers_per_clock` (2 on most, 4 on Granite Rapids) stand in.
    """

    source: Source = Source.UNCORE_CAS
    cas_reads: float | None = None
    cas_writes: float | None = None
    clock_ticks: float | None = None
    """Memory clocks, summed over the channels."""
    channels: int | None = None
    transfers_mt_s: float | None = None
    transfers_per_clock: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSlotCounters(Reading):
    """AMD's unified memory controllers (`amd_umc_*`), summed over the channels of one socket."""

    source: Source = Source.AMD_UMC
    data_slots: float | None = None
    """`umc_data_slot_clks.all`; two a clock."""
    clock_ticks: float | None = None
    """`umc_mem_clk`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitoredBytes(Reading):
    """Bytes beyond one L3 domain (resctrl `mbm_total_bytes`; None where it says "Unavailable")."""

    source: Source = Source.RESCTRL_MBM
    total_bytes: float | None = None
    peak_bytes_per_s: float | None = None
    """Theoretical bandwidth of the memory behind it: 8 B × MT/s × channels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StallCounters(Reading):
    """Core cycles, and those in which nothing could go on for memory.

    `idle_share` is the stalled share of the same work on an idle machine.
    """

    source: Source = Source.STALLED_CYCLES
    cycles: float | None = None
    stalled_cycles: float | None = None
    idle_share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PressureTotals(Reading):
    """`/proc/pressure/memory`: the `total` fields, microseconds."""

    source: Source = Source.MEMORY_PRESSURE
    some_us: float | None = None
    full_us: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockDeviceCounters(Reading):
    """One line of `/proc/diskstats`. Sectors are of 512 bytes whatever the device; times wrap at 32 bits.

    Source of the fields: Linux, Documentation/admin-guide/iostats.rst.
    """

    source: Source = Source.DISKSTATS
    reads: float | None = None
    sectors_read: float | None = None
    read_ms: float | None = None
    writes: float | None = None
    sectors_written: float | None = None
    write_ms: float | None = None
    in_flight: float | None = None
    io_ms: float | None = None
    weighted_ms: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuTimes(Reading):
    """The `cpu` line of `/proc/stat`, in seconds: all but `idle` and `iowait`, guests counted once."""

    source: Source = Source.PROC_STAT
    busy_s: float | None = None
    cores: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuPressureTotals(Reading):
    """`/proc/pressure/cpu`: the `total` field of the line `some`, microseconds."""

    source: Source = Source.CPU_PRESSURE
    some_us: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkDeviceCounters(Reading):
    """One line of `/proc/net/dev`; `speed_bytes_per_s` is the link's, each direction."""

    source: Source = Source.NETDEV
    received_bytes: float | None = None
    sent_bytes: float | None = None
    speed_bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryReading(Reading):
    """Memory of a node's pods or of one container, bytes.

    `memory.current`, `memory.max` and the fields of `memory.stat` that add up to it. `kernel` is there from
    Linux 5.18; before, leave the sum of its parts (kernel_stack, pagetables, percpu, slab …) there.
    """

    source: Source = Source.CGROUP
    current_bytes: float | None = None
    anon_bytes: float | None = None
    file_bytes: float | None = None
    inactive_file_bytes: float | None = None
    kernel_bytes: float | None = None
    sock_bytes: float | None = None
    limit_bytes: float | None = None
    """Memory of the node, or the container's limit; None when there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultCounters(Reading):
    """How often each fault happened since start; kinds that nothing counts here are not in it."""

    source: Source = Source.KERNEL_EVENTS
    counts: Mapping[FaultKind, float] = field(default_factory=dict[FaultKind, float])


class DeviceKind(StrEnum):
    """Devices whose place on the PCIe tree matters."""

    GPU = "gpu"
    NIC = "nic"
    NVME = "nvme"


@dataclass(frozen=True, slots=True, kw_only=True)
class PcieDevice(Reading):
    """A device on the PCIe tree of one node, and the state of its link.

    `path` are the components of its place in `/sys/devices`: the root complex (`pci0000:20`) first, then
    bridges and switches, nearest to the device last; the device itself is not in it. Speeds are in GT/s per
    lane. `slot_*` is what the port above can do.
    """

    source: Source = Source.PCI_SYSFS
    address: str
    kind: DeviceKind
    path: tuple[str, ...] = ()
    numa_node: int | None = None
    speed_gt_s: float | None = None
    width: float | None = None
    most_speed_gt_s: float | None = None
    most_width: float | None = None
    slot_most_speed_gt_s: float | None = None
    slot_most_width: float | None = None
    is_busy: bool | None = None
    """Whether the device works; an idle one may slow its link to save power."""

    @property
    def root_complex(self) -> str:
        """Name of the root complex, empty when it is not known."""
        return self.path[0] if self.path else ""


def same_subject(before: Reading, after: Reading) -> None:
    """Refuse two readings that cannot be subtracted.

    Raises:
        InvalidInput: they are of different kinds, sources or subjects.
    """
    for what, left, right in (
        ("kind", type(before).__name__, type(after).__name__),
        ("source", before.source, after.source),
        ("subject", before.subject, after.subject),
    ):
        if left != right:
            raise InvalidInput(
                f"two readings of different {what} ({left!r}, {right!r}) have no rate; pair them by {what}"
            )
