"""One running task: bringing it up to date, entering a phase, taking it off its node.

Work is advanced lazily: a slot knows since when its rate holds (`updated_s`) and is brought up to date when
something touches it. A task held back by a link is advanced by that link's clock instead of its rate, so that
a link may change its level without touching the tasks on it.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.physics.compile import inner
from stowplan.core.physics.cpu import quota_rate
from stowplan.core.physics.memory import limit_passed_at
from stowplan.core.physics.vocabulary import Cause
from stowplan.simulate.kernel.profiles import OWN_NIC_DOWN, RACK_UP
from stowplan.simulate.kernel.views import (
    Handle,
    counters_of,
    events_of,
    first_phase_of,
    links_of,
    nets_of,
    node_queue_of,
    nodes_of,
    phases_of,
    slots_of,
    tasks_of,
)

__all__ = [
    "end_task",
    "enter_phase",
    "leave_node",
    "link_of_code",
    "push_event",
    "queue_node",
    "settle_account",
    "sync_slot",
]

_CPU: Final = int(Cause.CPU)
_LATENCY: Final = int(Cause.DRAM_LATENCY)
_GPU: Final = int(Cause.GPU)
_MACHINE: Final = int(Cause.MACHINE)
_LEAST_WEIGHT: Final = 1e-3


@inner
def push_event(state: Handle, kind: int, task: int, row: int) -> None:
    """Append an event at the present instant. The loop sees to it that there is room."""
    counters = counters_of(state)[0]
    events = events_of(state)
    event = events[counters.events]
    event.time_s = counters.now_s
    event.kind = kind
    event.task = task
    event.row = row
    counters.events += 1
    counters.woken |= 1 << kind


@inner
def queue_node(state: Handle, row: int) -> None:
    """Have the node solved before time goes on."""
    node = nodes_of(state)[row]
    if node.queued == 0:
        node.queued = 1
        counters = counters_of(state)[0]
        queue = node_queue_of(state)
        queue[(counters.node_head + counters.node_queue) % queue.shape[0]] = row
        counters.node_queue += 1


@inner
def sync_slot(state: Handle, row: int, place: int, now_s: float) -> None:
    """Bring a slot up to `now_s`: work done, resources used, time lost by cause."""
    slot = slots_of(state)[row, place]
    elapsed = now_s - slot.updated_s
    if elapsed <= 0.0:
        return
    slot.updated_s = now_s
    done = slot.rate * elapsed
    nets = nets_of(state)
    if slot.net >= 0 and nets[slot.net].bound >= 0:
        net = nets[slot.net]
        link = links_of(state)[net.link[net.bound]]
        clock = link.clock
        if link.level < np.inf:
            clock += link.level * (now_s - link.updated_s)
        done = (clock - net.clock_seen) * net.weight[net.bound] / net.bytes[net.bound]
        net.clock_seen = clock
    slot.remaining -= done
    node = nodes_of(state)[row]
    if done > 0.0:
        disk = done * slot.disk
        node.used[0] += done * slot.cores * slot.stall
        node.used[1] += done * slot.dram
        node.used[2] += disk
        node.used[3] += disk * slot.operations_per_byte
        node.gpu_used += done * slot.gpu_utilisation * slot.gpus
        node.disk_since += disk
        slot.lost[_LATENCY] += done * (slot.stall - 1.0) * slot.base_time
        slot.lost[_GPU] += done * slot.base_time * (1.0 - slot.gpu)
    if slot.cause >= 0:
        slot.lost[slot.cause] += elapsed - done * slot.own_time


@inner
def settle_account(state: Handle, row: int, place: int) -> None:
    """Move work done and time lost from the slot, which must be up to date, to the task."""
    slots = slots_of(state)
    tasks = tasks_of(state)
    slot = slots[row, place]
    task = tasks[slot.task]
    done = slot.work_s - slot.remaining
    task.done_s += done
    for cause in range(slot.lost.shape[0]):
        task.lost[cause] += slot.lost[cause]
        slot.lost[cause] = 0.0
    task.lost[_MACHINE] += done * (1.0 / slot.speed - 1.0)
    task.lost[_CPU] += done * (1.0 / slot.quota - 1.0) / slot.speed
    task.lost[slot.pace_cause] += done * (1.0 / slot.pace - 1.0) / (slot.speed * slot.quota)
    slot.work_s = slot.remaining


@inner
def link_of_code(code: int, row: int, fabric: int, roots: int, own_links: NDArray[np.int64]) -> int:
    """Resolve a flow's link: an id stays, a code becomes the link of node `row`; −1 = the node has none.

    Args:
        code: link id ≥ 0, or a negative code of `tables`.
        row: node.
        fabric: fabric links, L.
        roots: root complexes per node, P.
        own_links: (N, 4) rack up, rack down, zone up, zone down; −1 = none.
    """
    if code >= 0:
        return code
    first = fabric + row * (2 + roots)
    if code >= OWN_NIC_DOWN:
        return first - 1 - code
    if code > RACK_UP - 4:
        return int(own_links[row, RACK_UP - code])
    index = RACK_UP - 4 - code
    return first + 2 + index if index < roots else -1


@inner
def enter_phase(state: Handle, row: int, place: int, period_s: float) -> None:
    """Load the task's present phase into its slot. Traffic is registered by the caller."""
    counters = counters_of(state)[0]
    first_phase = first_phase_of(state)
    phases = phases_of(state)
    slots = slots_of(state)
    tasks = tasks_of(state)
    slot = slots[row, place]
    task = tasks[slot.task]
    phase = phases[first_phase[task.profile] + task.phase]
    slot.updated_s = counters.now_s
    slot.work_s = phase.work_s
    slot.remaining = phase.work_s
    slot.rate = 0.0
    slot.cause = -1
    slot.cap_used = np.inf
    slot.stall = 1.0
    slot.gpu = 1.0
    slot.quota = quota_rate(
        phase.cpu_cores, phase.cpu_burst_cores, phase.cpu_burst_s, task.cpu_limit, period_s
    )
    slot.base_time = 1.0 / (slot.speed * slot.quota * slot.pace)
    slot.own_time = slot.base_time
    slot.exposed = phase.dram_exposed
    slot.cores = phase.cpu_cores / slot.speed
    slot.dram = phase.dram_bytes_per_s
    slot.disk_read = phase.disk_read_bytes_per_s
    slot.disk_write = phase.disk_write_bytes_per_s
    slot.disk = slot.disk_read + slot.disk_write
    slot.operations_per_byte = 1.0 / phase.disk_operation_bytes
    slot.dram_weight = max(phase.cpu_cores, _LEAST_WEIGHT)
    slot.disk_weight = phase.disk_queue_depth * phase.disk_operation_bytes
    slot.local = 1 if slot.cores > 0.0 or slot.dram > 0.0 or slot.disk > 0.0 else 0
    slot.gpu_utilisation = phase.gpu_utilisation
    slot.cache_bytes = phase.cache_bytes
    slot.cache_hit = phase.cache_hit
    slot.anon_start = slot.anon_end
    slot.anon_end = phase.anon_bytes
    passed = limit_passed_at(slot.anon_start, slot.anon_end, slot.memory_limit)
    slot.oom = 1 if passed < np.inf else 0
    slot.stop_at = phase.work_s * (1.0 - passed) if slot.oom == 1 else 0.0


@inner
def leave_node(state: Handle, row: int, place: int) -> None:
    """Close the slot: the last slot of the node moves into its place. Traffic must be gone already."""
    counters = counters_of(state)[0]
    nets = nets_of(state)
    nodes = nodes_of(state)
    slots = slots_of(state)
    tasks = tasks_of(state)
    node = nodes[row]
    slot = slots[row, place]
    task = tasks[slot.task]
    settle_account(state, row, place)
    task.slot = -1
    last = node.count - 1
    node.count = last
    if place != last:
        slots[row, place] = slots[row, last]
        moved = slots[row, place]
        tasks[moved.task].slot = place
        if moved.net >= 0:
            nets[moved.net].slot = place
    if task.gpu_mask != 0:
        node.gpus -= 1
    counters.running -= 1
    queue_node(state, row)


@inner
def end_task(state: Handle, task_id: int, row: int, task_state: int, kind: int) -> None:
    """Write down how the task ended; `kind` < 0 reports nothing (the caller asked for it)."""
    counters = counters_of(state)[0]
    tasks = tasks_of(state)
    task = tasks[task_id]
    task.state = task_state
    task.finished_s = counters.now_s
    if kind >= 0:
        push_event(state, kind, task_id, row)
