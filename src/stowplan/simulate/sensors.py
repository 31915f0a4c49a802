"""What agents on the simulated nodes would measure, every few seconds of simulated time.

An agent reads counters of its machine as a whole: it sees tenants that the scheduler does not know of, and
what drift does to the disk's answers, but neither whose they are nor why. So the kernel's counters are turned
into raw readings, and these into values by `core.semantics`, as a real agent's are; noise, delay and loss can
be put on top. No policy sees anything else of the simulator's truth.

Counters are taken at every multiple of the interval, which costs next to nothing and touches nothing; values
are made of them when a cycle asks. So a run in which nobody looks is the same run.

What the physics does not hold is filled in as plainly as possible: all page cache is inactive; reads and
writes of a disk wait alike, and how long is taken at the reading's instant while requests and bytes are exact
means; round trips are those of an idle network; memory's theoretical bandwidth is the node's over the law's
achievable share.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain import MEMORY, RACK_LABEL, ZONE_LABEL, Node
from stowplan.core.physics.vocabulary import Resource
from stowplan.core.semantics import (
    DEFAULT_PLATFORM,
    BandwidthLaw,
    BlockDeviceCounters,
    CpuPressureTotals,
    CpuTimes,
    DeviceKind,
    IntervalRule,
    LevelRule,
    LevelState,
    MemoryReading,
    MemoryRule,
    MonitoredBytes,
    NetworkDeviceCounters,
    NodeReadings,
    PcieDevice,
    Source,
    Taken,
    Value,
    bandwidth_pressure,
    bandwidth_utilisation,
    cpu_utilisation,
    cpu_wait_share,
    device_statistics,
    level_value,
    levels_of,
    link_state,
    measured,
    memory_values,
    next_level,
    nic_utilisation,
    quantity,
)
from stowplan.core.semantics.storage import SECTOR_BYTES
from stowplan.simulate.clusters.model import Cluster
from stowplan.simulate.options import SensorOptions
from stowplan.simulate.site import Site

__all__ = ["Sensors"]

_SIMULATED: Final = Source.SIMULATED
_MOST_WAITING: Final = 12  # readings that nobody asked for yet; more than a level can need
_PING_EVERY_S: Final = 60.0
_WRAP_MS: Final = 2.0**32  # times in diskstats
_UNLIMITED: Final = 1e30  # of a disk whose rates nobody told
_LANES: Final = 16.0
_GT_S: Final = 16.0


@dataclass(frozen=True, slots=True)
class _Sample:
    """Counters of all nodes since the start, N nodes, at one time.

    Attributes:
        used: (N, resources).
        served: (N,) requests of the disk, and `in_flight`: (N,) those that wait or are served now.
        memory_bytes: (N, 2) anonymous memory and page cache, now.
        disk: (N, 3) milliseconds that requests waited, that they were in flight, and that the disk was busy.
        stalled_us: (N,) microseconds in which a task waited for a core.
        is_heard: (N,) whether the reading comes through.
    """

    time_s: float
    used: NDArray[np.float64]
    served: NDArray[np.float64]
    in_flight: NDArray[np.float64]
    memory_bytes: NDArray[np.float64]
    disk: NDArray[np.float64]
    stalled_us: NDArray[np.float64]
    is_heard: NDArray[np.bool_]


class Sensors:
    """The agents of all nodes, and the board that the scheduler reads."""

    def __init__(
        self, site: Site, cluster: Cluster, options: SensorOptions, seed: np.random.SeedSequence
    ) -> None:
        """Begin to measure at the kernel's present."""
        self._site = site
        self._nodes = cluster.nodes
        self._options = options
        self._rng = np.random.default_rng(seed)
        self._law = BandwidthLaw()
        self._interval_rule, self._memory_rule, self._level_rule = IntervalRule(), MemoryRule(), LevelRule()
        self._levels = levels_of(DEFAULT_PLATFORM)
        self._level_of = [LevelState(source=_SIMULATED)] * len(cluster)
        self._round_trip_s = _round_trips_s(cluster)
        self._pinged_s = [-math.inf] * len(cluster)
        self._board = NodeReadings(site.state.capacity)
        self._node_of_row = site.node_of_row.copy()
        self._waiting: deque[_Sample] = deque(
            maxlen=_MOST_WAITING + math.ceil(options.delay_s / options.interval_s)
        )
        self._last: list[_Sample | None] = [None] * len(cluster)
        self._latest: _Sample | None = None
        self._readings = 0
        self.next_s = site.kernel.now_s
        self.take()

    # ---- measuring ----

    def take(self) -> None:
        """Read all counters now; the next reading is due at the next multiple of the interval."""
        kernel, before = self._site.kernel, self._latest
        now_s = kernel.now_s
        used, devices = kernel.utilisation(), kernel.devices()
        count = len(self._nodes)
        disk_bytes_per_s, disk_per_s = np.minimum(devices[:, :2], _UNLIMITED).T
        served = np.floor(used[:, Resource.DISK_OPS])
        disk, stalled_us = np.zeros((count, 3)), np.zeros(count)
        if before is not None:
            passed_s = now_s - before.time_s
            requests, moved = served - before.served, used[:, Resource.DISK] - before.used[:, Resource.DISK]
            # A disk that served requests and is idle at the reading answered at once, as far as is known.
            alone_s = np.maximum(moved / np.maximum(requests * disk_bytes_per_s, 1e-30), 1.0 / disk_per_s)
            is_idle = np.isnan(devices[:, 2])
            waited_s = requests * np.where(is_idle, alone_s, devices[:, 2])
            queued_s = np.where(is_idle, waited_s, devices[:, 3] * passed_s)
            busy_s = np.minimum(np.maximum(moved / disk_bytes_per_s, requests / disk_per_s), passed_s)
            disk = (before.disk + 1000.0 * np.stack([waited_s, queued_s, busy_s], axis=1)) % _WRAP_MS
            stalled_us = before.stalled_us + 1e6 * passed_s * devices[:, 4]
        heard = np.array([not (each.is_out or each.is_gone) for each in self._site.conditions])
        if self._options.loss > 0.0:
            heard &= self._rng.random(count) >= self._options.loss
        self._latest = _Sample(
            now_s, used, served, devices[:, 3], kernel.memory_bytes(), disk, stalled_us, heard
        )
        self._waiting.append(self._latest)
        self._readings += 1
        self.next_s = self._readings * self._options.interval_s

    def board(self, now_s: float) -> NodeReadings:
        """Return what the scheduler has by `now_s`; the same board every time, brought up to date."""
        board, node_of_row = self._board, self._site.node_of_row
        board.grow(self._site.state.capacity)
        board.advance(now_s)
        if not np.array_equal(node_of_row, self._node_of_row):
            known = np.full(len(node_of_row), -1, dtype=np.int64)
            known[: len(self._node_of_row)] = self._node_of_row
            for row in np.flatnonzero(known != node_of_row).tolist():
                board.clear(row)
            self._node_of_row = node_of_row.copy()
        while self._waiting and self._waiting[0].time_s + self._options.delay_s <= now_s:
            sample = self._waiting.popleft()
            is_newest = not self._waiting or self._waiting[0].time_s + self._options.delay_s > now_s
            for row, node in enumerate(node_of_row.tolist()):
                if node >= 0 and sample.is_heard[node]:
                    self._read(row, node, sample, all_of_it=is_newest)
        return board

    def _read(self, row: int, node: int, sample: _Sample, *, all_of_it: bool) -> None:
        """Put a node's values of one sample on the board; of an older one only the level moves."""
        before, self._last[node] = self._last[node], sample
        if before is None:
            return
        pair = _Pair(self._nodes[node].name, node, before, sample)
        values: dict[str, Value] = {}
        if self._nodes[node].hardware.disks:
            disk = device_statistics(*pair.disk(), rule=self._interval_rule)
            wait = values["storage_await_s"] = self._noisy(disk.await_s)
            level = next_level(self._level_of[node], wait, self._levels, self._level_rule)
            self._level_of[node] = level
            values["storage_level"] = level_value(level, self._levels, self._board.now_s)
            others = (disk.queue_depth, disk.utilisation, disk.bytes_per_s)
            values |= {value.quantity: self._noisy(value) for value in others}
        if not all_of_it:
            return
        values |= {value.quantity: self._noisy(value) for value in self._of_machine(pair, self._nodes[node])}
        if sample.time_s - self._pinged_s[node] >= _PING_EVERY_S:
            self._pinged_s[node] = sample.time_s
            values |= {value.quantity: self._noisy(value) for value in self._seldom(node, sample.time_s)}
        self._board.put(row, values)

    def _of_machine(self, pair: _Pair, node: Node) -> Iterator[Value]:
        rule, law = self._interval_rule, self._law
        memory = pair.bandwidth(node, law.achievable)
        yield bandwidth_utilisation(*memory, law=law, rule=rule)
        yield bandwidth_pressure(*memory, law=law, rule=rule)
        held = memory_values(pair.memory(node), self._memory_rule)
        yield held.working_set_share
        yield held.cache_share
        yield cpu_utilisation(*pair.cores(node), rule=rule)
        yield cpu_wait_share(*pair.waiting(), rule=rule)
        yield nic_utilisation(*pair.network(node), rule=rule)

    def _seldom(self, node: int, time_s: float) -> Iterator[Value]:
        """What hardly changes: round trips, links of devices."""
        round_trip_s = float(self._round_trip_s[node])
        if round_trip_s > 0.0:
            yield measured("rtt_tail_s", round_trip_s, source=_SIMULATED, measured_s=time_s)
        left = self._site.root_complex_share(node)
        if left is not None:
            link = PcieDevice(
                subject=self._nodes[node].name,
                taken=Taken(time_s=time_s),
                source=_SIMULATED,
                address="gpu",
                kind=DeviceKind.GPU,
                speed_gt_s=_GT_S,
                width=max(_LANES * left, 1.0) if left > 0.0 else 0.0,
                most_speed_gt_s=_GT_S,
                most_width=_LANES,
                is_busy=True,
            )
            yield link_state(link).share

    def _noisy(self, value: Value) -> Value:
        number = value.known
        if self._options.noise == 0.0 or number is None or value.measured_s is None:
            return value
        told = number * math.exp(self._options.noise * float(self._rng.standard_normal()))
        most = quantity(value.quantity).high
        return measured(value.quantity, min(told, most), source=value.source, measured_s=value.measured_s)


class _Pair:
    """Two samples of one node as the raw readings of its counters."""

    def __init__(self, name: str, node: int, before: _Sample, after: _Sample) -> None:
        self._name = name
        self._node = node
        self._samples = (before, after)

    def disk(self) -> Iterator[BlockDeviceCounters]:
        for sample in self._samples:
            waited_ms, queued_ms, busy_ms = sample.disk[self._node].tolist()
            yield BlockDeviceCounters(
                subject=self._name,
                taken=Taken(time_s=sample.time_s),
                source=_SIMULATED,
                reads=float(sample.served[self._node]),
                sectors_read=float(sample.used[self._node, Resource.DISK]) / SECTOR_BYTES,
                read_ms=waited_ms,
                writes=0.0,
                sectors_written=0.0,
                write_ms=0.0,
                in_flight=math.ceil(sample.in_flight[self._node]),
                io_ms=busy_ms,
                weighted_ms=queued_ms,
            )

    def bandwidth(self, node: Node, achievable: float) -> tuple[MonitoredBytes, MonitoredBytes]:
        peak = node.hardware.dram_bytes_per_s / achievable or None
        before, after = (
            MonitoredBytes(
                subject=self._name,
                taken=Taken(time_s=sample.time_s),
                source=_SIMULATED,
                total_bytes=float(sample.used[self._node, Resource.DRAM]),
                peak_bytes_per_s=peak,
            )
            for sample in self._samples
        )
        return before, after

    def memory(self, node: Node) -> MemoryReading:
        sample = self._samples[1]
        anon_bytes, cache_bytes = sample.memory_bytes[self._node].tolist()
        return MemoryReading(
            subject=self._name,
            taken=Taken(time_s=sample.time_s),
            source=_SIMULATED,
            current_bytes=anon_bytes + cache_bytes,
            anon_bytes=anon_bytes,
            file_bytes=cache_bytes,
            inactive_file_bytes=cache_bytes,
            kernel_bytes=0.0,
            sock_bytes=0.0,
            limit_bytes=float(node.allocatable.get(MEMORY, 0)) or None,
        )

    def cores(self, node: Node) -> Iterator[CpuTimes]:
        for sample in self._samples:
            yield CpuTimes(
                subject=self._name,
                taken=Taken(time_s=sample.time_s),
                source=_SIMULATED,
                busy_s=float(sample.used[self._node, Resource.CPU]),
                cores=node.hardware.cores or None,
            )

    def waiting(self) -> Iterator[CpuPressureTotals]:
        for sample in self._samples:
            yield CpuPressureTotals(
                subject=self._name,
                taken=Taken(time_s=sample.time_s),
                source=_SIMULATED,
                some_us=float(sample.stalled_us[self._node]),
            )

    def network(self, node: Node) -> Iterator[NetworkDeviceCounters]:
        speeds = (node.hardware.nic_up_bytes_per_s, node.hardware.nic_down_bytes_per_s)
        for sample in self._samples:
            yield NetworkDeviceCounters(
                subject=self._name,
                taken=Taken(time_s=sample.time_s),
                source=_SIMULATED,
                received_bytes=float(sample.used[self._node, Resource.NIC_DOWN]),
                sent_bytes=float(sample.used[self._node, Resource.NIC_UP]),
                speed_bytes_per_s=min(speeds) or None,
            )


def _round_trips_s(cluster: Cluster) -> NDArray[np.float64]:
    """Return each node's median round trip to the others on an idle network; 0: not known."""
    places: dict[tuple[str | None, str | None], list[int]] = {}
    for index, node in enumerate(cluster.nodes):
        places.setdefault((node.label(ZONE_LABEL), node.label(RACK_LABEL)), []).append(index)
    found = np.zeros(len(cluster))
    for members in places.values():
        one = cluster.nodes[members[0]]
        latencies_s: list[float] = []
        for others in places.values():
            other = cluster.nodes[others[-1]]
            if others is members and len(members) == 1:
                continue
            distance = Cluster.distance(one, other)
            count = len(others) - (others is members)
            latencies_s += [cluster.fabric.link(distance).latency_s] * count
        if latencies_s:
            found[members] = 2.0 * float(np.median(latencies_s))
    return found
