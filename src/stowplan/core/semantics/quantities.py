"""What describes a physical quantity: its unit, sources, bounds, age and scale. `catalogue` lists them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from stowplan.errors import InvalidInput

__all__ = ["FaultKind", "Quantity", "Source", "Unit"]


class Unit(StrEnum):
    """Units of quantities; a share, an index, a class and a ratio have none."""

    ONE = "1"
    SECONDS = "s"
    BYTES = "B"
    BYTES_PER_S = "B/s"
    PER_S = "1/s"


class Source(StrEnum):
    """What a reading was taken from."""

    UNCORE_CAS = "uncore-cas"
    """Column accesses that the memory controllers of an Intel or AMD socket count."""
    AMD_UMC = "amd-umc"
    """Data slots that AMD's memory controllers count (Zen 4 and later)."""
    RESCTRL_MBM = "resctrl-mbm"
    """Bytes that the L3 cache's bandwidth monitoring counts (`mbm_total_bytes`)."""
    STALLED_CYCLES = "stalled-cycles"
    """Core cycles stalled on memory: a stand-in, nothing counts bytes."""
    MEMORY_PRESSURE = "memory-pressure"
    """Pressure stall time of memory: a weak stand-in, it sees reclaim and refaults."""
    DISKSTATS = "diskstats"
    """`/proc/diskstats` or `/sys/block/DEVICE/stat`."""
    IN_FLIGHT = "diskstats-in-flight"
    """The same, of a device on which requests wait and none was completed."""
    PROC_STAT = "proc-stat"
    """`/proc/stat`."""
    CPU_PRESSURE = "cpu-pressure"
    """`/proc/pressure/cpu`."""
    NETDEV = "netdev"
    """`/proc/net/dev` and `/sys/class/net/DEVICE/speed`."""
    PING = "ping"
    """Round trips of the ping mesh."""
    CGROUP = "cgroup"
    """`memory.current` and `memory.stat` of a version 2 control group."""
    PCI_SYSFS = "pci-sysfs"
    """`/sys/bus/pci/devices`."""
    KERNEL_EVENTS = "kernel-events"
    """Fault counters: memory.events, tracepoints, EDAC, AER, TCP."""
    SIMULATED = "simulated"
    """Made by the simulator."""

    @property
    def is_stand_in(self) -> bool:
        """Whether it stands in for a measurement that this machine does not offer."""
        return self in {Source.STALLED_CYCLES, Source.MEMORY_PRESSURE, Source.IN_FLIGHT}


class FaultKind(StrEnum):
    """Faults that are counted; the evidence for telling causes of NotReady apart."""

    OOM_KILL = "oom_kills"
    """Tasks killed for memory (`memory.events:oom_kill`)."""
    BLOCK_ERROR = "block_errors"
    """Block requests that failed for good (`block_rq_error`)."""
    NVME_ERROR = "nvme_errors"
    """NVMe completions with a status, retries included: seen before a request fails for good."""
    HUNG_TASK = "hung_tasks"
    """Tasks blocked for longer than the kernel's limit (`sched_process_hang`)."""
    TCP_RETRANSMIT = "tcp_retransmits"
    """TCP segments sent again."""
    PCIE_CORRECTABLE = "pcie_correctable_errors"
    """PCIe errors that the link corrected (AER)."""
    PCIE_UNCORRECTABLE = "pcie_uncorrectable_errors"
    """PCIe errors that it did not."""
    MEMORY_CORRECTED = "memory_corrected_errors"
    """Memory errors that ECC corrected (EDAC)."""
    MEMORY_UNCORRECTED = "memory_uncorrected_errors"
    """Memory errors that it did not."""

    @property
    def quantity_name(self) -> str:
        """Name of the quantity that is this fault's rate."""
        return f"{self.value}_per_s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """One physical quantity.

    `low` and `high` are physical bounds, both included: a number outside is impossible. What exceeds `high`
    by at most the share `slack` is taken as `high`, because counter and clock are not read at the same
    instant. `score_low` and `score_high` are where the number is clipped before it becomes a standard score,
    so that an outlier cannot move the statistics far; with `is_log` the score is that of its logarithm.
    """

    name: str
    unit: Unit
    meaning: str
    formula: str
    low: float
    high: float
    sources: tuple[Source, ...]
    """Best first."""
    stale_after_s: float
    score_low: float
    score_high: float
    is_log: bool = False
    slack: float = 0.0

    def __post_init__(self) -> None:
        """Refuse bounds that hold nothing.

        Raises:
            InvalidInput: bounds are not ascending, a logarithm of 0 would be taken, or there is no source.
        """
        checks = (
            ("high", self.low < self.high),
            ("score_high", math.isfinite(self.score_low) and self.score_low < self.score_high < math.inf),
            ("score_low", self.score_low > 0.0 or not self.is_log),
            ("stale_after_s", self.stale_after_s > 0.0),
            ("slack", 0.0 <= self.slack < 1.0),
        )
        for name, holds in checks:
            if not holds:
                raise InvalidInput(
                    f"quantity {self.name!r}: {name} is {getattr(self, name)}; see its range in the class"
                )
        if not self.sources:
            raise InvalidInput(f"quantity {self.name!r} has no source; name at least one")
