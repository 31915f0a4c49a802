"""Reading what was used, done and lost without touching anything.

Bringing a task up to the present (`sync_slot`) rounds its remaining work; a simulation that is looked at
often would then end a little differently from one that is not, and ties would break. So the counters are
extrapolated to the present here and written elsewhere.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stowplan.core.physics.compile import compiled, inner
from stowplan.core.physics.vocabulary import Cause, Resource
from stowplan.simulate.kernel.state import TaskState
from stowplan.simulate.kernel.views import (
    Handle,
    counters_of,
    links_of,
    nets_of,
    nodes_of,
    slots_of,
    tasks_of,
)

__all__ = ["read_gpus", "read_rates", "read_tasks", "read_use"]

_CPU = int(Resource.CPU)
_DRAM = int(Resource.DRAM)
_DISK = int(Resource.DISK)
_DISK_OPS = int(Resource.DISK_OPS)
_NIC_UP = int(Resource.NIC_UP)
_NIC_DOWN = int(Resource.NIC_DOWN)
_PCIE = int(Resource.PCIE)
_LATENCY = int(Cause.DRAM_LATENCY)
_GPU = int(Cause.GPU)
_MACHINE = int(Cause.MACHINE)
_CPU_CAUSE = int(Cause.CPU)
_RUNNING = TaskState.RUNNING


@inner
def _work_since(state: Handle, row: int, place: int, now_s: float) -> float:
    """Work that a slot has done since it was last brought up, in seconds alone."""
    links = links_of(state)
    nets = nets_of(state)
    slots = slots_of(state)
    slot = slots[row, place]
    if slot.net >= 0 and nets[slot.net].bound >= 0:
        net = nets[slot.net]
        link = links[net.link[net.bound]]
        clock = link.clock
        if link.level < np.inf:
            clock += link.level * (now_s - link.updated_s)
        return (clock - net.clock_seen) * net.weight[net.bound] / net.bytes[net.bound]
    return slot.rate * (now_s - slot.updated_s)


@compiled
def read_use(state: Handle, first_own_link: int, roots: int, used: NDArray[np.float64]) -> None:
    """Fill `used` (N, RESOURCE_COUNT) with core-seconds, bytes and operations since the start.

    Args:
        state: the kernel's arrays, only read.
        first_own_link: id of the first node's NIC.
        roots: root complexes per node, P.
        used: overwritten.
    """
    counters = counters_of(state)[0]
    links = links_of(state)
    nodes = nodes_of(state)
    slots = slots_of(state)
    now_s = counters.now_s
    for row in range(nodes.shape[0]):
        node = nodes[row]
        used[row, _CPU] = node.used[_CPU]
        used[row, _DRAM] = node.used[_DRAM]
        used[row, _DISK] = node.used[_DISK]
        used[row, _DISK_OPS] = node.used[_DISK_OPS]
        for place in range(node.count):
            done = _work_since(state, row, place, now_s)
            if done > 0.0:
                slot = slots[row, place]
                used[row, _CPU] += done * slot.cores * slot.stall
                used[row, _DRAM] += done * slot.dram
                used[row, _DISK] += done * slot.disk
                used[row, _DISK_OPS] += done * slot.disk * slot.operations_per_byte
        used[row, _PCIE] = 0.0
        for own in range(2 + roots):
            link = links[first_own_link + row * (2 + roots) + own]
            carried = link.carried + link.usage * (now_s - link.updated_s)
            if own == 0:
                used[row, _NIC_UP] = carried
            elif own == 1:
                used[row, _NIC_DOWN] = carried
            else:
                used[row, _PCIE] += carried


@compiled
def read_gpus(state: Handle, used: NDArray[np.float64]) -> None:
    """Fill `used` (N,) with the seconds that GPUs of each node were kept busy since the start."""
    nodes = nodes_of(state)
    slots = slots_of(state)
    now_s = counters_of(state)[0].now_s
    for row in range(nodes.shape[0]):
        used[row] = nodes[row].gpu_used
        for place in range(nodes[row].count):
            slot = slots[row, place]
            if slot.gpus > 0:
                done = max(_work_since(state, row, place, now_s), 0.0)
                used[row] += done * slot.gpu_utilisation * slot.gpus


@compiled
def read_rates(state: Handle, ids: NDArray[np.int64], rates: NDArray[np.float64]) -> None:
    """Fill `rates` (n,) with the work seconds per second of tasks now; 0 for tasks that do not run."""
    links = links_of(state)
    nets = nets_of(state)
    slots = slots_of(state)
    tasks = tasks_of(state)
    for index in range(ids.shape[0]):
        task = tasks[ids[index]]
        rates[index] = 0.0
        if task.state == _RUNNING:
            slot = slots[task.row, task.slot]
            rates[index] = slot.rate
            if slot.net >= 0 and nets[slot.net].bound >= 0:
                net = nets[slot.net]
                link = links[net.link[net.bound]]
                rates[index] = link.level * net.weight[net.bound] / net.bytes[net.bound]


@compiled
def read_tasks(
    state: Handle, ids: NDArray[np.int64], done: NDArray[np.float64], lost: NDArray[np.float64]
) -> None:
    """Fill in work done (n,) and time lost by cause (n, CAUSE_COUNT) of tasks up to the present.

    Args:
        state: the kernel's arrays, only read.
        ids: (n,) tasks.
        done: overwritten; seconds alone on the reference machine.
        lost: overwritten; seconds.
    """
    now_s = counters_of(state)[0].now_s
    tasks = tasks_of(state)
    slots = slots_of(state)
    for index in range(ids.shape[0]):
        task = tasks[ids[index]]
        done[index] = task.done_s
        for cause in range(lost.shape[1]):
            lost[index, cause] = task.lost[cause]
        if task.state != _RUNNING:
            continue
        slot = slots[task.row, task.slot]
        since = _work_since(state, task.row, task.slot, now_s)
        in_phase = slot.work_s - slot.remaining + since
        done[index] += in_phase
        for cause in range(lost.shape[1]):
            lost[index, cause] += slot.lost[cause]
        lost[index, _LATENCY] += since * (slot.stall - 1.0) * slot.base_time
        lost[index, _GPU] += since * slot.base_time * (1.0 - slot.gpu)
        lost[index, _MACHINE] += in_phase * (1.0 / slot.speed - 1.0)
        lost[index, _CPU_CAUSE] += in_phase * (1.0 / slot.quota - 1.0) / slot.speed
        lost[index, slot.pace_cause] += in_phase * (1.0 / slot.pace - 1.0) / (slot.speed * slot.quota)
        if slot.cause >= 0:
            lost[index, slot.cause] += now_s - slot.updated_s - since * slot.own_time
