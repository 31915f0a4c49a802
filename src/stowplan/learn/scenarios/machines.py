"""Random machine types, and how much faster or slower each program runs on each.

Measured on five nf-core workflows and seven machines (Lotaru), a task's time factor is not one number per
machine: the quartiles of one machine lie 15 to 25 % off its median, and programs that suffer on one old
machine suffer on the other. So a type has a speed, a program has a sensitivity to it, and what is left is
drawn for each pair: factor = speed ** −sensitivity × exp(noise). Nothing here is a measured factor of a real
machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain import Disk, Gpu, Hardware
from stowplan.learn.scenarios.ranges import Ranges

__all__ = ["MachineType", "draw_factors", "draw_types"]

_GIB = float(1 << 30)
_MIB = float(1 << 20)
_CORES = (4, 8, 8, 8, 16, 16, 32)
_MEMORY_PER_CORE_GIB = (2.0, 4.0, 4.0, 8.0)
_PAIR_NOISE = (
    0.12  # spread of log factors within one machine: Lotaru's quartiles lie 15 to 25 % off the median
)
_FACTOR_BOUNDS = (0.35, 3.5)


@dataclass(frozen=True, slots=True)
class MachineType:
    """A kind of machine. `log_speed` is against the reference machine; `memory_bytes` is what it has."""

    name: str
    log_speed: float
    memory_bytes: float
    hardware: Hardware


def draw_types(rng: np.random.Generator, ranges: Ranges, *, has_gpus: bool) -> tuple[MachineType, ...]:
    """Draw the machine types of one cluster; with `has_gpus` the last one has GPUs on two root complexes."""
    count = int(rng.integers(ranges.machine_types[0], ranges.machine_types[1] + 1))
    if has_gpus:
        count = max(count, 2)
    spread = float(rng.uniform(*ranges.heterogeneity))
    log_speeds = rng.normal(0.0, spread, count)
    shared_cores = int(rng.choice(_CORES)) if rng.random() < 0.5 else 0  # half the clusters: all of one size
    types: list[MachineType] = []
    for number, log_speed in enumerate(log_speeds.tolist()):
        cores = shared_cores or int(rng.choice(_CORES))
        is_gpu_type = has_gpus and number == count - 1
        name = f"type-{number}"
        memory_bytes = cores * float(rng.choice(_MEMORY_PER_CORE_GIB)) * _GIB
        types.append(
            MachineType(name, log_speed, memory_bytes, _draw_hardware(rng, name, cores, has_gpus=is_gpu_type))
        )
    return tuple(types)


def _draw_hardware(rng: np.random.Generator, name: str, cores: int, *, has_gpus: bool) -> Hardware:
    disk_bytes_per_s = _log_uniform(rng, 60.0, 600.0) * _MIB
    has_burst = rng.random() < 0.3
    burst = disk_bytes_per_s * float(rng.uniform(1.5, 4.0)) if has_burst else 0.0
    disk = Disk(
        base_bytes_per_s=disk_bytes_per_s,
        base_iops=_log_uniform(rng, 500.0, 12000.0),
        burst_bytes_per_s=burst,
        credits_bytes=burst * float(rng.uniform(60.0, 600.0)),
    )
    nic_bytes_per_s = _log_uniform(rng, 100.0, 3000.0) * _MIB
    gpus: tuple[Gpu, ...] = ()
    if has_gpus:
        per_root = int(rng.integers(1, 5))
        gpus = tuple(Gpu("gpu", f"root-{root}") for root in (0, 1) for _ in range(per_root))
    return Hardware(
        cores=float(cores),
        dram_bytes_per_s=cores * _log_uniform(rng, 1.8, 7.0) * _GIB,
        nic_up_bytes_per_s=nic_bytes_per_s,
        nic_down_bytes_per_s=nic_bytes_per_s,
        pcie_bytes_per_s=_log_uniform(rng, 8.0, 32.0) * _GIB if gpus else 0.0,
        disks=(disk,),
        gpus=gpus,
        machine_type=name,
    )


def draw_factors(
    rng: np.random.Generator, types: tuple[MachineType, ...], programs: int
) -> NDArray[np.float64]:
    """Return the time factor of each program on each type, (programs, types); 1: as on the reference."""
    log_speed = np.array([kind.log_speed for kind in types])
    sensitivity = rng.uniform(0.4, 1.4, (programs, 1))
    spread = _PAIR_NOISE if log_speed.any() else 0.0  # equal machines: every program runs alike on all
    noise = rng.normal(0.0, spread, (programs, len(types)))
    return np.clip(np.exp(noise - sensitivity * log_speed), *_FACTOR_BOUNDS)


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return math.exp(float(rng.uniform(math.log(low), math.log(high))))
