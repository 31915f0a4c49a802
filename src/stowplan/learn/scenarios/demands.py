"""What a program may need of a machine, drawn over all that programs of any field need.

No law ties the numbers of one resource to those of another, so each is drawn alone, in its logarithm, from
what is negligible to what one machine can just do: a task cannot have been recorded at more. Bounds are
proposals, from physics and not from any set of recordings:

* cores: a tenth of one (waits for something else) to the whole node; busy from 5 % of the request to twice
  it, where no limit holds;
* memory: some MiB (a shell script) to half of a node (an assembler, a database), requested with a margin of
  5 % to four times;
* memory bandwidth: 20 MB/s a core (lives in cache) to 8 GB/s (streams); up to half of the time exposed
  latency;
* disk: 0.1 MB/s (a log) to 80 % of the fastest disk, two in five near that (they stream), by requests of
  4 KiB (a database) to 1 MiB, before, after or beside the computing;
* network: the same of the fastest interface, for files of an object store or beside the computing;
* duration: 2 s to an hour.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from stowplan.core.domain import Phase, PodShape, Task, WorkProfile
from stowplan.learn.scenarios.chance import log_uniform
from stowplan.learn.scenarios.machines import MachineType
from stowplan.simulate.work_rules import pod_shape

__all__ = ["KEPT", "Demands", "draw_demands", "task_of"]

KEPT: Final = (0.93, 0.8)
"""Least shares of a machine's cores and memory that are left to pods."""
_MIB: Final = float(1 << 20)
_SHARE_OF_FASTEST: Final = 0.8
_IO_CORES: Final = 0.05
_LENGTHS_S: Final = (2.0, 3600.0)
_SHORTEST_S: Final = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """What each task of a program needs; rates are of the phase in which they occur.

    `read_share` and `write_share` are shares of the duration, 0 where all goes on at once.
    """

    mean_s: float
    request_milli: int
    busy_cores: float
    anon_bytes: float
    request_bytes: int
    dram_bytes_per_core_s: float
    latency_share: float
    read_bytes_per_s: float
    write_bytes_per_s: float
    disk_queue_bytes: float
    disk_request_bytes: float
    down_bytes_per_s: float
    up_bytes_per_s: float
    read_share: float
    write_share: float

    def shape(self, task: Task) -> PodShape:
        """Return the pod of a task, with the GPUs that it had."""
        return pod_shape(self.request_milli, self.request_bytes, task.shape.gpu)

    def work(self, task: Task, length_s: float) -> WorkProfile:
        """Return work of `length_s`, with the PCIe traffic that the task had."""
        compute_share = 1.0 - self.read_share - self.write_share
        is_beside = compute_share == 1.0
        compute = Phase(
            length_s * compute_share,
            cpu_cores=self.busy_cores,
            dram_bytes_per_s=self.dram_bytes_per_core_s * self.busy_cores,
            disk_read_bytes_per_s=self.read_bytes_per_s if is_beside else 0.0,
            disk_write_bytes_per_s=self.write_bytes_per_s if is_beside else 0.0,
            disk_queue_bytes=self.disk_queue_bytes,
            disk_request_bytes=self.disk_request_bytes,
            nic_down_bytes_per_s=self.down_bytes_per_s if is_beside else 0.0,
            nic_up_bytes_per_s=self.up_bytes_per_s if is_beside else 0.0,
            pcie_bytes_per_s=max(phase.pcie_bytes_per_s for phase in task.work.phases),
            latency_share=self.latency_share,
        )
        phases = [compute]
        io_cores = min(_IO_CORES, self.busy_cores)
        if self.read_share:
            phases.insert(
                0,
                Phase(
                    length_s * self.read_share,
                    cpu_cores=io_cores,
                    disk_read_bytes_per_s=self.read_bytes_per_s,
                    disk_queue_bytes=self.disk_queue_bytes,
                    disk_request_bytes=self.disk_request_bytes,
                    nic_down_bytes_per_s=self.down_bytes_per_s,
                ),
            )
        if self.write_share:
            phases.append(
                Phase(
                    length_s * self.write_share,
                    cpu_cores=io_cores,
                    disk_write_bytes_per_s=self.write_bytes_per_s,
                    disk_queue_bytes=self.disk_queue_bytes,
                    disk_request_bytes=self.disk_request_bytes,
                    nic_up_bytes_per_s=self.up_bytes_per_s,
                )
            )
        return WorkProfile(
            tuple(phases),
            anon_bytes=self.anon_bytes,
            cache_bytes=sum(
                phase.work_s * (phase.disk_read_bytes_per_s + phase.disk_write_bytes_per_s)
                for phase in phases
            ),
        )


def draw_demands(rng: np.random.Generator, types: tuple[MachineType, ...]) -> Demands:
    """Draw the demands of one program on a cluster of these machine types; its tasks fit one of them."""
    home = types[int(rng.integers(len(types)))]
    request_milli = _draw_cores(rng, home)
    anon_bytes, request_bytes = _draw_memory(rng, home)
    kind = rng.random()
    busy_share = (
        log_uniform(rng, 0.05, 1.0)
        if kind < 0.45  # waits for data, or asked for more than it uses
        else float(rng.uniform(0.7, 1.0))
        if kind < 0.9
        else float(rng.uniform(1.0, 2.0))
    )
    has_disk, has_network = rng.random() < 0.6, rng.random() < 0.4
    reads, writes = rng.random() < 0.8, rng.random() < 0.6
    is_beside = rng.random() < 0.3
    request = float(rng.choice((4096.0, 16384.0, 131072.0, 1048576.0), p=(0.1, 0.15, 0.5, 0.25)))
    disk = min(
        max(t.hardware.disks[0].base_bytes_per_s for t in types),
        max(t.hardware.disks[0].base_iops for t in types) * request,
    )
    network = max(t.hardware.nic_down_bytes_per_s for t in types)
    touches = has_disk or has_network
    share = float(rng.uniform(0.02, 0.95)) if touches and not is_beside else 0.0
    of_read = float(rng.uniform(0.2, 0.95)) if writes else 1.0
    return Demands(
        mean_s=log_uniform(rng, *_LENGTHS_S),
        request_milli=request_milli,
        busy_cores=busy_share * request_milli / 1000,
        anon_bytes=anon_bytes,
        request_bytes=request_bytes,
        dram_bytes_per_core_s=log_uniform(rng, 2e7, 8e9),
        latency_share=0.5 * float(rng.random() * rng.random()),
        read_bytes_per_s=_draw_rate(rng, disk) if has_disk and reads else 0.0,
        write_bytes_per_s=_draw_rate(rng, disk) if has_disk and writes else 0.0,
        disk_queue_bytes=max(log_uniform(rng, 65536.0, 16.0 * _MIB), request),
        disk_request_bytes=request,
        down_bytes_per_s=_draw_rate(rng, network) if has_network and reads else 0.0,
        up_bytes_per_s=_draw_rate(rng, network) if has_network and writes else 0.0,
        read_share=share * of_read if reads else 0.0,
        write_share=share * (1.0 - of_read) if writes else 0.0,
    )


def task_of(demands: Demands, task: Task, ratio: float) -> Task:
    """Return `task` as the demands say, `ratio` times as long as their mean; expected as it really is."""
    length_s = max(demands.mean_s * ratio, _SHORTEST_S)
    work = demands.work(task, length_s)
    return Task(
        task.name,
        demands.shape(task),
        work,
        work.alone_s,
        task.template,
        input_bytes=sum(p.work_s * max(p.disk_read_bytes_per_s, p.nic_down_bytes_per_s) for p in work.phases),
        output_bytes=sum(p.work_s * max(p.disk_write_bytes_per_s, p.nic_up_bytes_per_s) for p in work.phases),
        gang=task.gang,
    )


def _draw_cores(rng: np.random.Generator, home: MachineType) -> int:
    """Draw a CPU request in thousandths of a core: part of one, some, or up to a whole node."""
    whole = math.floor(1000 * KEPT[0] * home.hardware.cores)
    chance = rng.random()
    if chance < 0.3:
        return 50 * max(round(log_uniform(rng, 100.0, 1000.0) / 50), 2)
    if chance < 0.8:
        return min(1000 * int(rng.choice((1, 1, 2, 4))), whole)
    if chance < 0.95:
        return max(1000 * math.floor(log_uniform(rng, 1000.0, max(whole, 1001.0)) / 1000), 1000)
    return whole


def _draw_memory(rng: np.random.Generator, home: MachineType) -> tuple[float, int]:
    """Draw what a task holds and what it requests, in bytes; both fit a node."""
    most = KEPT[1] * home.memory_bytes
    anon_bytes = log_uniform(rng, 4.0 * _MIB, 0.5 * most)
    request_bytes = max(anon_bytes * log_uniform(rng, 1.05, 4.0), 16.0 * _MIB)
    return anon_bytes, math.floor(min(request_bytes, most))


def _draw_rate(rng: np.random.Generator, fastest_bytes_per_s: float) -> float:
    """Draw a rate: what the program happens to need, or, of one that streams, nearly all that there is."""
    most = max(_SHARE_OF_FASTEST * fastest_bytes_per_s, 2e5)
    return log_uniform(rng, 0.2 * most if rng.random() < 0.4 else 1e5, most)
