"""Random machine types, and how much faster or slower each program runs on each.

Measured on five nf-core workflows and seven machines (Lotaru), a task's time factor is not one number per
machine: the quartiles of one machine lie 15 to 25 % off its median, and programs that suffer on one old
machine suffer on the other. So a type has a speed, a program has a sensitivity to it, and what is left is
drawn for each pair. A type has two speeds, of its cores and of its memory, which go together more or less; a
program hangs on a mix of both, so that the order of machines is not the same for all programs, but alike:
factor = (core speed ** (1 − mix) × memory speed ** mix) ** −sensitivity × exp(noise). Nothing here is a
measured factor of a real machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain import Disk, Gpu, Hardware
from stowplan.learn.scenarios.chance import log_uniform
from stowplan.learn.scenarios.ranges import Ranges

__all__ = ["MachineType", "draw_factors", "draw_types"]

_GIB = float(1 << 30)
_MIB = float(1 << 20)
_CORES = (2, 4, 4, 8, 8, 8, 16, 16, 32, 64)
_MEMORY_PER_CORE_GIB = (1.0, 2.0, 4.0, 4.0, 8.0, 16.0)
_PAIR_NOISE = (
    0.12  # spread of log factors within one machine: Lotaru's quartiles lie 15 to 25 % off the median
)
_FACTOR_BOUNDS = (0.25, 4.0)
_DISKS_DIFFER = 2.5  # machines of one cluster from what is usual there, at most; a proposal


@dataclass(frozen=True, slots=True)
class MachineType:
    """A kind of machine; speeds are against the reference machine, `memory_bytes` is what it has."""

    name: str
    log_speed: float
    log_memory_speed: float
    memory_bytes: float
    hardware: Hardware


def draw_types(rng: np.random.Generator, ranges: Ranges, *, has_gpus: bool) -> tuple[MachineType, ...]:
    """Draw the machine types of one cluster; with `has_gpus` the last one has GPUs on two root complexes."""
    count = int(rng.integers(ranges.machine_types[0], ranges.machine_types[1] + 1))
    if has_gpus:
        count = max(count, 2)
    spread = float(rng.uniform(*ranges.heterogeneity))
    log_speeds = rng.normal(0.0, spread, count)
    together = float(rng.uniform(0.5, 0.95))  # correlation of the two speeds
    memory_speeds = together * log_speeds + math.sqrt(1.0 - together**2) * rng.normal(0.0, spread, count)
    usual = _draw_rates(rng)
    shared_cores = int(rng.choice(_CORES)) if rng.random() < 0.5 else 0  # half the clusters: all of one size
    types: list[MachineType] = []
    for number, (log_speed, log_memory_speed) in enumerate(
        zip(log_speeds.tolist(), memory_speeds.tolist(), strict=True)
    ):
        cores = shared_cores or int(rng.choice(_CORES))
        is_gpu_type = has_gpus and number == count - 1
        name = f"type-{number}"
        memory_bytes = cores * float(rng.choice(_MEMORY_PER_CORE_GIB)) * _GIB
        types.append(
            MachineType(
                name,
                log_speed,
                log_memory_speed,
                memory_bytes,
                _draw_hardware(rng, name, cores, usual, has_gpus=is_gpu_type),
            )
        )
    return tuple(types)


@dataclass(frozen=True, slots=True)
class _Rates:
    """Bytes per second that are usual in a cluster: of a disk, of a network interface, of memory per core."""

    disk: float
    nic: float
    dram_per_core: float


def _draw_rates(rng: np.random.Generator) -> _Rates:
    return _Rates(
        log_uniform(rng, 30.0, 1500.0) * _MIB,
        log_uniform(rng, 50.0, 3000.0) * _MIB,
        log_uniform(rng, 1.6, 8.0) * _GIB,
    )


def _draw_hardware(
    rng: np.random.Generator, name: str, cores: int, usual: _Rates, *, has_gpus: bool
) -> Hardware:
    disk_bytes_per_s = usual.disk * log_uniform(rng, 1.0 / _DISKS_DIFFER, _DISKS_DIFFER)
    has_burst = rng.random() < 0.3
    burst = disk_bytes_per_s * float(rng.uniform(1.5, 4.0)) if has_burst else 0.0
    disk = Disk(
        base_bytes_per_s=disk_bytes_per_s,
        base_iops=disk_bytes_per_s / log_uniform(rng, 8.0 * 1024, 128.0 * 1024),
        burst_bytes_per_s=burst,
        credits_bytes=burst * float(rng.uniform(60.0, 600.0)),
    )
    nic_bytes_per_s = usual.nic * log_uniform(rng, 0.5, 2.0)
    gpus: tuple[Gpu, ...] = ()
    if has_gpus:
        per_root = int(rng.integers(1, 5))
        gpus = tuple(Gpu("gpu", f"root-{root}") for root in (0, 1) for _ in range(per_root))
    return Hardware(
        cores=float(cores),
        dram_bytes_per_s=cores * usual.dram_per_core * log_uniform(rng, 0.7, 1.4),
        nic_up_bytes_per_s=nic_bytes_per_s,
        nic_down_bytes_per_s=nic_bytes_per_s,
        pcie_bytes_per_s=log_uniform(rng, 8.0, 32.0) * _GIB if gpus else 0.0,
        disks=(disk,),
        gpus=gpus,
        machine_type=name,
    )


def draw_factors(
    rng: np.random.Generator, types: tuple[MachineType, ...], programs: int
) -> NDArray[np.float64]:
    """Return the time factor of each program on each type, (programs, types); 1: as on the reference."""
    log_speed = np.array([kind.log_speed for kind in types])
    log_memory_speed = np.array([kind.log_memory_speed for kind in types])
    mix = rng.uniform(0.0, 1.0, (programs, 1))
    sensitivity = rng.uniform(0.4, 1.4, (programs, 1))
    spread = _PAIR_NOISE if log_speed.any() else 0.0  # equal machines: every program runs alike on all
    noise = rng.normal(0.0, spread, (programs, len(types)))
    return np.clip(
        np.exp(noise - sensitivity * ((1.0 - mix) * log_speed + mix * log_memory_speed)), *_FACTOR_BOUNDS
    )
