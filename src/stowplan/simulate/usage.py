"""How much of each resource was really used over time, in a bounded number of points.

The kernel counts resource-seconds since the start; the difference of two readings over their distance is the
exact mean in between. How long a run will be is not known beforehand, so readings start dense, and whenever
there are twice
as many as are wanted, every second one is dropped and the distance doubled: the means stay exact, and what is
kept is between the wanted number and twice that. Memory is no rate; its readings are of the moment.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stowplan.simulate.clusters.model import Cluster
from stowplan.simulate.kernel.kernel import FluidKernel
from stowplan.simulate.options import SimulationOptions
from stowplan.simulate.workloads.model import Workload

__all__ = ["UsageReadings", "readings_of"]


class UsageReadings:
    """Readings of one run: at time 0, one distance apart, and at the end.

    Attributes:
        times_s: when each reading was taken.
        used: per reading float64 (nodes, resources), or (1, resources) for the whole cluster;
        resource-seconds used
            since the start.
        anon_bytes: per reading float64 (nodes,), or (1,); anonymous memory.
        gpu_s: per reading, seconds that GPUs of the whole cluster were busy since the start.
    """

    __slots__ = ("_by_node", "_wanted", "anon_bytes", "distance_s", "gpu_s", "next_s", "times_s", "used")

    def __init__(self, wanted: int, first_distance_s: float, *, by_node: bool) -> None:
        """Keep at most twice `wanted` readings, `first_distance_s` apart to begin with."""
        self._wanted = max(2, wanted)
        self._by_node = by_node
        self.distance_s = first_distance_s
        self.next_s = 0.0
        self.times_s: list[float] = []
        self.used: list[NDArray[np.float64]] = []
        self.anon_bytes: list[NDArray[np.float64]] = []
        self.gpu_s: list[float] = []

    def take(self, kernel: FluidKernel) -> None:
        """Read the kernel now; the next reading is due one distance later."""
        now_s = kernel.now_s
        if not self.times_s or now_s > self.times_s[-1]:
            used, anon_bytes = kernel.utilisation(), kernel.memory_bytes()[:, 0]
            self.times_s.append(now_s)
            self.used.append(used if self._by_node else used.sum(axis=0, keepdims=True))
            self.anon_bytes.append(anon_bytes if self._by_node else anon_bytes.sum(keepdims=True))
            self.gpu_s.append(float(kernel.gpu_seconds().sum()))
            if len(self.times_s) > 2 * self._wanted:
                del self.times_s[1::2], self.used[1::2], self.anon_bytes[1::2], self.gpu_s[1::2]
                self.distance_s *= 2.0
        self.next_s = now_s + self.distance_s


def readings_of(
    cluster: Cluster, workload: Workload, options: SimulationOptions
) -> tuple[UsageReadings, UsageReadings]:
    """Return the readings of the cluster and by node, spaced for a run in which nothing ever waits."""
    area_s = workload.alone_s / max(cluster.cores, 1e-9)
    last_s = workload.submissions[-1].time_s
    longest_s = max(float(s.workflow.upward_ranks().max()) for s in workload.submissions)
    shortest_run_s = min(max(area_s, last_s, longest_s, 1e-6), options.horizon_s)
    by_node = max(4, min(options.usage_points, options.node_usage_rows // len(cluster)))
    return (
        UsageReadings(options.usage_points // 2, 2.0 * shortest_run_s / options.usage_points, by_node=False),
        UsageReadings(by_node // 2, 2.0 * shortest_run_s / by_node, by_node=True),
    )
