"""The catalogue of physical quantities: names, units, meanings, formulas, bounds and sources, as data.

Every number that may reach the network is one of these (R6). The catalogue decides that a number is
impossible or too old, and how it is brought to a standard score; `docs/SEMANTICS.md` is made from it. The
modules that compute the numbers argue for the formulas.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from stowplan.core.semantics.quantities import FaultKind, Quantity, Source, Unit
from stowplan.errors import UnknownName

__all__ = ["CATALOGUE", "quantity"]

_OFTEN_S: Final = 15.0  # three readings 5 s apart were missed
_SELDOM_S: Final = 300.0
_BANDWIDTH: Final = (
    Source.UNCORE_CAS,
    Source.AMD_UMC,
    Source.SIMULATED,
    Source.RESCTRL_MBM,
    Source.STALLED_CYCLES,
)
_PRESSURE: Final = (*_BANDWIDTH, Source.MEMORY_PRESSURE)
_STALLS: Final = (Source.STALLED_CYCLES, Source.SIMULATED)
_DISK: Final = (Source.DISKSTATS, Source.SIMULATED)
_AWAIT: Final = (*_DISK, Source.IN_FLIGHT)
_PING: Final = (Source.PING, Source.SIMULATED)
_CORES: Final = (Source.PROC_STAT, Source.SIMULATED)
_CORES_WAIT: Final = (Source.CPU_PRESSURE, Source.SIMULATED)
_NETWORK: Final = (Source.NETDEV, Source.SIMULATED)
_CGROUP: Final = (Source.CGROUP, Source.SIMULATED)
_PCI: Final = (Source.PCI_SYSFS, Source.SIMULATED)
_FAULTS: Final = (Source.KERNEL_EVENTS, Source.SIMULATED)


class _Family:
    """Quantities that have unit, physical bounds, score bounds, sources and age in common."""

    def __init__(
        self,
        unit: Unit,
        bounds: tuple[float, float],
        scores: tuple[float, float],
        sources: tuple[Source, ...],
        stale_after_s: float = _OFTEN_S,
    ) -> None:
        self.unit = unit
        self.bounds = bounds
        self.scores = scores
        self.sources = sources
        self.stale_after_s = stale_after_s

    def __call__(self, name: str, meaning: str, formula: str, *, slack: float = 0.0) -> Quantity:
        """Return one of them."""
        return Quantity(
            name=name,
            unit=self.unit,
            meaning=meaning,
            formula=formula,
            low=self.bounds[0],
            high=self.bounds[1],
            sources=self.sources,
            stale_after_s=self.stale_after_s,
            score_low=self.scores[0],
            score_high=self.scores[1],
            is_log=self.scores[0] > 0.0,
            slack=slack,
        )


def _shares(sources: tuple[Source, ...], stale_after_s: float = _OFTEN_S) -> _Family:
    return _Family(Unit.ONE, (0.0, 1.0), (0.0, 1.0), sources, stale_after_s)


_BANDWIDTH_SHARE: Final = _shares(_BANDWIDTH)
_PRESSURE_SHARE: Final = _shares(_PRESSURE)
_DISK_SHARE: Final = _shares(_DISK)
_CGROUP_SHARE: Final = _shares(_CGROUP)
_AWAIT_TIME: Final = _Family(Unit.SECONDS, (0.0, 3600.0), (1e-5, 60.0), _AWAIT)
_ROUND_TRIP: Final = _Family(Unit.SECONDS, (1e-7, 60.0), (1e-6, 10.0), _PING, _SELDOM_S)
_MEMORY: Final = _Family(Unit.BYTES, (0.0, 2.0**53), (2.0**20, 2.0**44), _CGROUP)
_FAULT_RATE: Final = _Family(Unit.PER_S, (0.0, 1e7), (1e-3, 1e4), _FAULTS)

_ALL: Final = (
    _BANDWIDTH_SHARE(
        "memory_bandwidth_utilisation",
        "share of the theoretical bandwidth of a socket's memory that is used",
        "64 B × CAS / (8 B × MT/s × channels × interval); AMD UMC: data slots / 2 / clocks",
        slack=0.05,
    ),
    _PRESSURE_SHARE(
        "memory_bandwidth_pressure",
        "MBPI: where the utilisation lies between the knee (0) and the highest achievable bandwidth (1)",
        "(utilisation − knee) / (achievable − knee), within 0 … 1; memory-pressure: share of time stalled",
    ),
    _PRESSURE_SHARE(
        "cpu_weight",
        "factor on a node's score for CPU-heavy tasks",
        "1 up to MBPI 0.8, falling evenly to the floor at 1",
    ),
    _shares(_STALLS)(
        "stalled_cycles_share",
        "share of core cycles stalled on memory",
        "stalled cycles / cycles",
        slack=0.01,
    ),
    _AWAIT_TIME(
        "storage_await_s",
        "mean time from a block request's issue to its end, waiting included",
        "(read time + write time) / (reads + writes) of the interval",
    ),
    _AWAIT_TIME("storage_read_await_s", "the same of reads", "read time / reads"),
    _AWAIT_TIME("storage_write_await_s", "the same of writes", "write time / writes"),
    _shares(_CORES)(
        "cpu_utilisation",
        "share of the node's cores that work",
        "busy time of all cores / (cores × interval)",
        slack=0.05,
    ),
    _shares(_CORES_WAIT)(
        "cpu_wait_share",
        "share of time in which some task waited for a core",
        "Δ some / interval",
        slack=0.05,
    ),
    _shares(_NETWORK)(
        "nic_utilisation",
        "share of a network device's speed that is used, in its busier direction",
        "max(Δ received, Δ sent) / (speed × interval)",
        slack=0.05,
    ),
    _Family(Unit.ONE, (0.0, 1e6), (0.01, 4096.0), _DISK)(
        "storage_queue_depth",
        "mean number of requests waiting or served",
        "weighted I/O time / interval (= await × IOPS, Little's law)",
    ),
    _Family(Unit.PER_S, (0.0, 1e8), (1.0, 1e7), _DISK)(
        "storage_iops",
        "block requests completed per second",
        "(reads + writes) / interval",
    ),
    _Family(Unit.BYTES_PER_S, (0.0, 1e12), (1e3, 1e11), _DISK)(
        "storage_bytes_per_s",
        "bytes read and written per second",
        "512 B × (sectors read + written) / interval",
    ),
    _DISK_SHARE(
        "storage_utilisation",
        "share of time with at least one request in flight",
        "I/O time / interval; too low on Linux 5.0 and later with concurrent requests",
        slack=0.05,
    ),
    _Family(Unit.ONE, (0.0, 4.0), (0.0, 4.0), _AWAIT, 30.0)(
        "storage_level",
        "latency level of the platform: 0 normal, 1 busy, 2 congested, 3 badly congested, 4 stalled",
        "await against the platform's bounds: three readings in a row up, six down",
    ),
    _shares(_AWAIT, 30.0)("storage_weight", "factor on a node's score by its storage level", "by table"),
    _ROUND_TRIP("rtt_s", "round trip between two nodes on an idle network", "least sample of the window"),
    _ROUND_TRIP("rtt_median_s", "round trip as it usually is", "median of the window's samples"),
    _ROUND_TRIP("rtt_tail_s", "round trip in bad moments", "99th percentile, from 20 samples on"),
    _Family(Unit.ONE, (0.0, 4.0), (0.0, 4.0), _PING, 3600.0)(
        "distance_class",
        "0 same node, 1 same rack, 2 same zone, 3 other zone, 4 far",
        "modes of log RTT, parted by valleys of its density",
    ),
    _MEMORY("memory_current_bytes", "all memory charged to a node's pods or a container", "memory.current"),
    _MEMORY(
        "memory_working_set_bytes",
        "memory that cannot be taken back at once, as the kubelet counts it",
        "memory.current − inactive_file",
    ),
    _MEMORY("memory_anon_bytes", "memory that no reclaim gives back without swap", "memory.stat: anon"),
    _MEMORY("memory_cache_bytes", "page cache, tmpfs and shared memory included", "memory.stat: file"),
    _CGROUP_SHARE("memory_cache_share", "share of the memory that is page cache", "file / memory.current"),
    _CGROUP_SHARE(
        "memory_working_set_share",
        "share of the limit (or the node's memory) that the working set takes",
        "working set / limit",
        slack=0.05,
    ),
    _CGROUP_SHARE(
        "memory_is_cache_heavy",
        "1 when the page cache makes much of the memory, else 0",
        "memory.current > 1.8 × working set",
    ),
    _shares(_PCI, _SELDOM_S)(
        "pcie_link_share",
        "bandwidth of a PCIe link relative to what device and slot could agree on",
        "speed now × width now / (speed × width at most)",
    ),
    _Family(Unit.BYTES_PER_S, (0.0, 1e12), (1e8, 1e12), _PCI, _SELDOM_S)(
        "pcie_link_bytes_per_s",
        "bandwidth of a PCIe link, one direction",
        "GT/s × width × encoding / 8",
    ),
    *(
        _FAULT_RATE(kind.quantity_name, f"{kind.value.replace('_', ' ')} per second", "events / interval")
        for kind in FaultKind
    ),
)

CATALOGUE: Final[Mapping[str, Quantity]] = MappingProxyType({one.name: one for one in _ALL})
"""Every quantity by its name."""


def quantity(name: str) -> Quantity:
    """Return the quantity called `name`.

    Raises:
        UnknownName: there is none.
    """
    found = CATALOGUE.get(name)
    if found is None:
        raise UnknownName("quantity", name, CATALOGUE)
    return found
