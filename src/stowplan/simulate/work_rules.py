"""From what a trace holds (seconds, busy cores, bytes, peak memory) to physical work and to a pod's requests.

The rule for work: phases read → compute → write whose lengths sum to the recorded run time, so that the task
alone on the machine where it was recorded takes exactly what was recorded there.

* Input and output take the time in which the task kept no core busy (run time × (1 − mean cores), for a mean
  below one core), but at least their bytes at `FASTEST_DISK_BYTES_PER_S` and at most `LARGEST_IO_SHARE` of
  the run time. Bytes that do not fit in that time at that rate came from the page cache and ask nothing of
  the disk.
* What was waited without bytes to explain it (a download, a sleep) is a phase that asks for little.
* CPU seconds are kept: run time × mean cores = sum over phases of length × cores.

What no trace here holds is imputed, the same for all, and said in the workload's notes: DRAM traffic and the
share of exposed memory latency per busy core. They are proposals without data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from stowplan.core.domain import CPU, MEMORY, GpuRequest, Phase, PodShape, Resources, WorkProfile
from stowplan.errors import InvalidInput

__all__ = [
    "DRAM_NOTE",
    "FASTEST_DISK_BYTES_PER_S",
    "SHORTEST_S",
    "Usage",
    "imputed_memory_bytes",
    "pod_shape",
    "requested_cpu_milli",
    "requested_memory_bytes",
    "work_profile",
]

FASTEST_DISK_BYTES_PER_S: Final = 500e6
"""What one task can draw from a local SSD of the recording machines; more came from the page cache."""
LARGEST_IO_SHARE: Final = 0.9
SHORTEST_S: Final = 0.001
"""Traces round short runs down to zero; they count as a millisecond, the traces' resolution."""

_IO_CORES: Final = 0.05
_DRAM_BYTES_PER_CORE_S: Final = 1.0e9
_LATENCY_SHARE: Final = 0.1
_QUEUE_BYTES: Final = (
    1048576.0  # two readahead windows of 128 KiB per direction times four: a streaming reader
)
_REQUEST_BYTES: Final = 131072.0

_MIB: Final = 1024 * 1024
_MEMORY_STEP: Final = 64 * _MIB
_MEMORY_HEADROOM: Final = 1.2

DRAM_NOTE: Final = (
    "imputed: DRAM traffic of 1 GB/s and an exposed latency share of 0.1 per busy core (no trace holds them)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a task used, as a trace tells it; bytes read and written are totals, memory the peak."""

    runtime_s: float
    mean_cores: float
    read_bytes: float = 0.0
    written_bytes: float = 0.0
    memory_bytes: float = 0.0

    def __post_init__(self) -> None:
        """Refuse what no task can have used.

        Raises:
            InvalidInput: a number is negative, NaN or infinite.
        """
        for name in ("runtime_s", "mean_cores", "read_bytes", "written_bytes", "memory_bytes"):
            number: float = getattr(self, name)
            if not (math.isfinite(number) and number >= 0.0):
                raise InvalidInput(f"{name} is {number}; it must be a finite number ≥ 0")


def work_profile(
    usage: Usage,
    *,
    memory_limit_bytes: float | None = None,
    cpu_limit_cores: float | None = None,
    machine_factors: tuple[tuple[str, float], ...] = (),
) -> WorkProfile:
    """Return the work that takes `usage.runtime_s` alone; rules in the module description."""
    runtime_s = max(usage.runtime_s, SHORTEST_S)
    cpu_s = runtime_s * usage.mean_cores
    file_bytes = usage.read_bytes + usage.written_bytes
    idle_s = runtime_s * max(0.0, 1.0 - usage.mean_cores)
    fastest_s = file_bytes / FASTEST_DISK_BYTES_PER_S
    longest_s = runtime_s * LARGEST_IO_SHARE
    # Without a byte the idle time is waiting for something that is not a disk, and stays in the one phase.
    io_s = min(max(idle_s, fastest_s), longest_s) if file_bytes >= 1.0 else 0.0
    rate = min(file_bytes / io_s, FASTEST_DISK_BYTES_PER_S) if io_s > 0.0 else 0.0
    compute_s = runtime_s - io_s
    io_cores = min(_IO_CORES, usage.mean_cores)
    compute_cores = max(0.0, (cpu_s - io_s * io_cores) / compute_s)
    phases = [
        Phase(
            work_s=compute_s,
            cpu_cores=compute_cores,
            dram_bytes_per_s=_DRAM_BYTES_PER_CORE_S * compute_cores,
            latency_share=_LATENCY_SHARE * min(1.0, compute_cores),
        )
    ]
    if usage.read_bytes > 0.0 and io_s > 0.0:
        read_s = io_s * usage.read_bytes / file_bytes
        phases.insert(0, _io_phase(read_s, io_cores, disk_read_bytes_per_s=rate))
    if usage.written_bytes > 0.0 and io_s > 0.0:
        write_s = io_s * usage.written_bytes / file_bytes
        phases.append(_io_phase(write_s, io_cores, disk_write_bytes_per_s=rate))
    return WorkProfile(
        phases=tuple(phases),
        anon_bytes=usage.memory_bytes,
        cache_bytes=file_bytes,
        memory_limit_bytes=memory_limit_bytes,
        cpu_limit_cores=cpu_limit_cores,
        machine_factors=machine_factors,
    )


def _io_phase(
    work_s: float,
    cpu_cores: float,
    *,
    disk_read_bytes_per_s: float = 0.0,
    disk_write_bytes_per_s: float = 0.0,
) -> Phase:
    return Phase(
        work_s=work_s,
        cpu_cores=cpu_cores,
        disk_read_bytes_per_s=disk_read_bytes_per_s,
        disk_write_bytes_per_s=disk_write_bytes_per_s,
        disk_queue_bytes=_QUEUE_BYTES,
        disk_request_bytes=_REQUEST_BYTES,
    )


def imputed_memory_bytes(input_bytes: float) -> float:
    """Return the peak memory assumed for a task whose trace holds none.

    256 MiB and a quarter of its input, at most 4 GiB. In the WfInstances families that do hold memory, 90 %
    of the tasks stay below this.
    """
    return min(256.0 * _MIB + input_bytes / 4, 4096.0 * _MIB)


def requested_cpu_milli(mean_cores: float) -> int:
    """Return the CPU request for a task whose trace holds none: whole cores, at least one.

    Workflow engines ask for whole cores (Nextflow's `cpus`, default 1). A mean up to 5 % above a whole number
    is measurement noise.
    """
    return 1000 * max(1, math.ceil(mean_cores - 0.05))


def requested_memory_bytes(peak_bytes: float) -> int:
    """Return the memory request for a task whose trace holds none: the peak and 20 %, in steps of 64 MiB."""
    steps = max(2, math.ceil(peak_bytes * _MEMORY_HEADROOM / _MEMORY_STEP))
    return steps * _MEMORY_STEP


@lru_cache(maxsize=65536)
def pod_shape(
    cpu_milli: int, memory_bytes: int, gpu: GpuRequest | None = None, namespace: str = "default"
) -> PodShape:
    """Return the shape of a plain pod with these requests; equal requests give the same object."""
    return PodShape(
        namespace=namespace,
        requests=Resources({CPU: cpu_milli, MEMORY: memory_bytes}),
        score_cpu_milli=cpu_milli,
        score_memory_bytes=memory_bytes,
        gpu=gpu,
    )
