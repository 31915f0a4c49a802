"""What tasks need and what nodes have, resource by resource, as far as a policy is told.

Tasks are taken with the mean of their demands over their phases. Of pods that nobody knows, only the cores
that they request count.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain import CPU, ClusterState, Node, PodShape, Task, WorkProfile
from stowplan.core.physics.cpu_weight import cpu_weight_of_request
from stowplan.core.physics.vocabulary import RESOURCE_COUNT, Resource

__all__ = ["TaskDemand", "busy_share", "capacity_of", "demand_of_task", "requested_demand", "task_demand"]


@dataclass(frozen=True, slots=True)
class TaskDemand:
    """What a task needs of any machine, averaged over its phases.

    `per_s` and `weight` have shape (RESOURCE_COUNT,), units of `Resource` per second of work; `factors` are
    the time factors by machine type; `limit_cores` is inf without a limit.
    """

    per_s: NDArray[np.float64]
    weight: NDArray[np.float64]
    exposed: float
    limit_cores: float
    factors: tuple[tuple[str, float], ...]

    def factor_on(self, kind: str) -> float:
        """Return how many times as long the work takes on a machine type."""
        return dict(self.factors).get(kind, 1.0)

    @property
    def quota(self) -> float:
        """Share of its speed that the limit on cores leaves the task, at most 1."""
        cores = float(self.per_s[Resource.CPU])
        return min(1.0, self.limit_cores / cores) if cores > 0.0 else 1.0

    def rate_alone(self, kind: str) -> float:
        """Return the work per second of the task by itself on a machine type."""
        return self.quota / self.factor_on(kind)


def task_demand(work: WorkProfile, request_cores: float) -> TaskDemand:
    """Average a task's phases by their length.

    Args:
        work: the profile; without work it demands nothing.
        request_cores: CPU request, by which cores are shared.
    """
    lengths = np.array([phase.work_s for phase in work.phases], dtype=np.float64)
    total_s = float(lengths.sum())
    per_s, weight = np.zeros(RESOURCE_COUNT), np.ones(RESOURCE_COUNT)
    exposed = 0.0
    if total_s > 0.0:
        demands = np.zeros((len(work.phases), RESOURCE_COUNT))
        for row, phase in zip(demands, work.phases, strict=True):
            disk_bytes_per_s = phase.disk_read_bytes_per_s + phase.disk_write_bytes_per_s
            row[Resource.CPU] = phase.cpu_cores
            row[Resource.DRAM] = phase.dram_bytes_per_s
            row[Resource.DISK] = disk_bytes_per_s
            row[Resource.DISK_OPS] = disk_bytes_per_s / max(phase.disk_request_bytes, 1.0)
            row[Resource.NIC_UP] = phase.nic_up_bytes_per_s
            row[Resource.NIC_DOWN] = phase.nic_down_bytes_per_s
            row[Resource.PCIE] = phase.pcie_bytes_per_s
        per_s = lengths @ demands / total_s
        exposed = float(lengths @ np.array([phase.latency_share for phase in work.phases])) / total_s
        queue_bytes = float(lengths @ np.array([phase.disk_queue_bytes for phase in work.phases])) / total_s
        weight[[Resource.DISK, Resource.DISK_OPS]] = max(queue_bytes, 1e-9)
        weight[Resource.DRAM] = max(per_s[Resource.CPU], 1e-9)
    weight[Resource.CPU] = cpu_weight_of_request(request_cores)
    limit = np.inf if work.cpu_limit_cores is None else work.cpu_limit_cores
    return TaskDemand(per_s, weight, exposed, limit, work.machine_factors)


def capacity_of(node: Node) -> list[float]:
    """Return what a node has of each `Resource`, per second; inf where it is not known."""
    hardware = node.hardware
    cores = hardware.cores if hardware.cores > 0.0 else node.allocatable.get(CPU, 0) / 1000
    return [
        cores or np.inf,
        hardware.dram_bytes_per_s or np.inf,
        sum(disk.base_bytes_per_s for disk in hardware.disks) or np.inf,
        sum(disk.base_iops for disk in hardware.disks) or np.inf,
        hardware.nic_up_bytes_per_s or np.inf,
        hardware.nic_down_bytes_per_s or np.inf,
        hardware.pcie_bytes_per_s or np.inf,
    ]


def busy_share(state: ClusterState, rows: NDArray[np.intp] | slice = slice(None)) -> NDArray[np.float64]:
    """Return the mean requested share of CPU and memory of `rows`, by row, 0–1; of all rows (capacity,)."""
    shares = state.requested[rows, :2] / np.maximum(state.allocatable[rows, :2], 1)
    return np.clip((shares[:, 0] + shares[:, 1]) * 0.5, 0.0, 1.0)


def demand_of_task(task: Task) -> TaskDemand:
    """Return what a task needs, by its profile."""
    return task_demand(task.work, task.shape.requests.get(CPU, 0) / 1000)


def requested_demand(shape: PodShape) -> TaskDemand:
    """Return the demand of a pod of which only the request is known: the cores that it asks for."""
    cores = shape.requests.get(CPU, 0) / 1000
    per_s, weight = np.zeros(RESOURCE_COUNT), np.ones(RESOURCE_COUNT)
    per_s[Resource.CPU], weight[Resource.CPU] = cores, cpu_weight_of_request(cores)
    return TaskDemand(per_s, weight, 0.0, np.inf, ())
