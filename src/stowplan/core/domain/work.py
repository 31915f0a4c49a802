"""The physical work of a task: what it needs of a machine, phase by phase.

Rates are those of the task running alone on the reference machine; physics (`core.physics`) says how fast it
really goes beside others. One unit of work is one second alone on the reference machine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from stowplan.core.domain.training import Training
from stowplan.errors import InvalidInput

__all__ = ["Phase", "WorkProfile"]


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of work with constant demands.

    `latency_share` is the share of the alone time that is exposed DRAM latency (m in the latency law, 0–1).
    `disk_queue_bytes` is what the task keeps outstanding at the disk (queue depth × request size): disk
    bandwidth is shared by it.
    """

    work_s: float
    cpu_cores: float = 1.0
    dram_bytes_per_s: float = 0.0
    disk_read_bytes_per_s: float = 0.0
    disk_write_bytes_per_s: float = 0.0
    disk_queue_bytes: float = 131072.0
    disk_request_bytes: float = 131072.0
    nic_up_bytes_per_s: float = 0.0
    nic_down_bytes_per_s: float = 0.0
    pcie_bytes_per_s: float = 0.0
    latency_share: float = 0.0

    def __post_init__(self) -> None:
        """Refuse demands that no machine could have.

        Raises:
            InvalidInput: a value is negative, NaN or infinite, or `latency_share` exceeds 1.
        """
        for item in fields(self):
            amount: float = getattr(self, item.name)
            if not (math.isfinite(amount) and amount >= 0.0):
                raise InvalidInput(f"phase: {item.name} is {amount}; it must be a finite number ≥ 0")
        if self.latency_share > 1.0:
            raise InvalidInput(f"phase: latency_share is {self.latency_share}; it is a share, at most 1")


@dataclass(frozen=True, slots=True)
class WorkProfile:
    """The whole work of one task.

    `machine_factors` maps machine types to time factors against the reference machine (2.0: twice as slow
    there); types that are not named run at 1. `anon_bytes` is memory that cannot be reclaimed, `cache_bytes`
    page cache that can. Limits of None do not limit. With `training` the phases are those of one worker with
    nothing between it and the others of its gang; how fast the gang really goes follows from where it is.
    """

    phases: tuple[Phase, ...]
    anon_bytes: float = 0.0
    cache_bytes: float = 0.0
    memory_limit_bytes: float | None = None
    cpu_limit_cores: float | None = None
    machine_factors: tuple[tuple[str, float], ...] = ()
    training: Training | None = None

    @property
    def alone_s(self) -> float:
        """Seconds the task takes alone on the reference machine."""
        return math.fsum(phase.work_s for phase in self.phases)

    def alone_on_s(self, machine_type: str) -> float:
        """Seconds the task takes alone on a machine of `machine_type`."""
        return self.alone_s * dict(self.machine_factors).get(machine_type, 1.0)
