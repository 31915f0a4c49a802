"""One node of the kernel: brought up to date, solved by the physics, and asked for its next event.

Called once per node and instant at which something touched it; everything else keeps its rates. Between two
calls the rates are constant, so memory grows linearly and the burst bucket empties linearly, and the next
edge of either is known. The hit ratio of the page cache is taken at the call and holds until the next.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from stowplan.core.physics.compile import inner
from stowplan.core.physics.disk import bucket_after, bucket_edge_s
from stowplan.core.physics.gpu import shared_gpu_speed
from stowplan.core.physics.memory import cache_allowed, cache_scale, disk_share_of_reads
from stowplan.core.physics.node import CAUSE_OF_RESOURCE, solve_node
from stowplan.core.physics.vocabulary import Cause
from stowplan.simulate.kernel.binding import remove_net, resolve_net
from stowplan.simulate.kernel.events import EventKind
from stowplan.simulate.kernel.heaps import schedule
from stowplan.simulate.kernel.links import link_allows, net_rate
from stowplan.simulate.kernel.slots import end_task, leave_node, sync_slot
from stowplan.simulate.kernel.state import LOCAL_RESOURCES, TaskState
from stowplan.simulate.kernel.views import (
    Handle,
    counters_of,
    gpu_curve_of,
    laws_of,
    links_of,
    matrix_of,
    nets_of,
    nodes_of,
    scratch_of,
    scratch_whole_of,
    slots_of,
)

__all__ = ["anonymous", "drop_slot", "solve_block"]

_EVICTED: Final = int(EventKind.EVICTED)
_KILLED: Final = TaskState.KILLED
_NODE: Final = int(Cause.NODE)
_BUCKET_DUST: Final = 1e-9
"""Share of the bucket that counts as empty, so that rounding cannot make it flicker."""
_MEMORY_DUST: Final = 1e-12


@inner
def drop_slot(state: Handle, row: int, place: int) -> None:
    """Take the task in this slot, which must be up to date, off its links and its node."""
    counters = counters_of(state)[0]
    nets = nets_of(state)
    nodes = nodes_of(state)
    slots = slots_of(state)
    net_id = slots[row, place].net
    if net_id >= 0:
        remove_net(state, net_id)
        nets[net_id].child = counters.net_free
        counters.net_free = net_id
        nodes[row].nets -= 1
    leave_node(state, row, place)


@inner
def anonymous(state: Handle, row: int, place: int) -> float:
    """Anonymous memory of a task now, bytes: it grows evenly with the work of the phase."""
    slots = slots_of(state)
    slot = slots[row, place]
    if slot.work_s <= 0.0:
        return slot.anon_end
    return slot.anon_end - (slot.anon_end - slot.anon_start) * slot.remaining / slot.work_s


@inner
def _settle_memory(state: Handle, row: int) -> None:
    """Evict until anonymous memory fits, most above its request first; the rest is page cache."""
    nodes = nodes_of(state)
    slots = slots_of(state)
    node = nodes[row]
    while True:
        anon = 0.0
        most = -np.inf
        victim = -1
        final = 0.0
        for place in range(node.count):
            slot = slots[row, place]
            own = anonymous(state, row, place)
            anon += own
            final += max(own, slot.anon_end)
            above = own - slot.memory_request
            if above > most or (above == most and slot.task > slots[row, victim].task):
                most = above
                victim = place
        node.anon = anon
        node.tight = 1 if final > node.memory else 0
        # At the very limit only a task that still grows makes pressure.
        if anon <= node.memory * (1.0 - _MEMORY_DUST) or victim < 0:
            break
        if anon <= node.memory * (1.0 + _MEMORY_DUST) and node.tight == 0:
            break
        task_id = slots[row, victim].task
        drop_slot(state, row, victim)
        end_task(state, task_id, row, _KILLED, _EVICTED)
    wanted = 0.0
    for place in range(node.count):
        slot = slots[row, place]
        if slot.cache_bytes > 0.0:
            wanted += cache_allowed(slot.cache_bytes, anonymous(state, row, place), slot.memory_limit)
    scale = cache_scale(wanted, node.anon, node.memory)
    node.cache = wanted * scale
    for place in range(node.count):
        slot = slots[row, place]
        if slot.cache_bytes > 0.0:
            own = anonymous(state, row, place)
            kept = scale * cache_allowed(slot.cache_bytes, own, slot.memory_limit)
            through = disk_share_of_reads(slot.cache_hit, slot.cache_bytes, kept)
            slot.disk = slot.disk_read * through + slot.disk_write


@inner
def _share_gpus(state: Handle, row: int) -> None:
    """Set the GPU factor of each task: the fullest of its GPUs decides."""
    gpu_curve = gpu_curve_of(state)
    nodes = nodes_of(state)
    slots = slots_of(state)
    count = nodes[row].count
    knots = gpu_curve.shape[1]
    for place in range(count):
        slot = slots[row, place]
        if slot.gpu_mask == 0:
            continue
        worst = 1.0
        for gpu in range(63):
            bit = 1 << gpu
            if bit > slot.gpu_mask:
                break
            if slot.gpu_mask & bit == 0:
                continue
            users = 0
            combined = 0.0
            for other in range(count):
                if slots[row, other].gpu_mask & bit != 0:
                    users += 1
                    combined += slots[row, other].gpu_utilisation
            if users > 1 and knots > 0:
                worst = min(worst, shared_gpu_speed(combined, gpu_curve[0], gpu_curve[1]))
        slot.gpu = worst


@inner
def _disk_capacity(state: Handle, row: int, now_s: float) -> float:
    """Bring the burst bucket up to date; returns bytes per second that the disk serves now."""
    nodes = nodes_of(state)
    node = nodes[row]
    factor = node.factor[2]
    burst = node.nominal[2] * factor
    base = node.disk_base * factor
    if node.disk_base >= node.nominal[2]:
        return burst
    node.bucket_level = bucket_after(
        node.bucket_level, node.bucket_size, base, node.disk_since, now_s - node.bucket_s
    )
    node.bucket_s = now_s
    node.disk_since = 0.0
    return burst if node.bucket_level > _BUCKET_DUST * node.bucket_size else base


@inner
def _solve_rates(state: Handle, row: int) -> None:
    """Gather the node's tasks, solve, write rates and causes back; bind those with traffic to links."""
    counters = counters_of(state)[0]
    laws = laws_of(state)
    links = links_of(state)
    matrix = matrix_of(state)
    nets = nets_of(state)
    nodes = nodes_of(state)
    scratch = scratch_of(state)
    scratch_whole = scratch_whole_of(state)
    slots = slots_of(state)
    node = nodes[row]
    count = node.count
    demand = matrix[: scratch.shape[1] * LOCAL_RESOURCES].reshape((-1, LOCAL_RESOURCES))
    weight = matrix[scratch.shape[1] * LOCAL_RESOURCES :].reshape((-1, LOCAL_RESOURCES))
    cores = scratch[2]
    alone = scratch[3]
    cap = scratch[4]
    exposed = scratch[5]
    rate = scratch[6]
    stall = scratch[7]
    own = scratch[8]
    wanted = scratch[9]
    level = scratch[10]
    capacity = scratch[11]
    binding = scratch_whole[0]
    busy = scratch_whole[1]
    capacity[0] = node.nominal[0] * node.factor[0]
    capacity[1] = node.nominal[1] * node.factor[1]
    capacity[2] = _disk_capacity(state, row, counters.now_s)
    capacity[3] = node.nominal[3] * node.factor[2] * node.factor[3]
    sensitive = False
    for place in range(count):
        slot = slots[row, place]
        demand[place, 0] = slot.cores
        demand[place, 1] = slot.dram
        demand[place, 2] = slot.disk
        demand[place, 3] = slot.disk * slot.operations_per_byte
        weight[place, 0] = slot.cpu_weight
        weight[place, 1] = slot.dram_weight
        weight[place, 2] = slot.disk_weight
        weight[place, 3] = slot.disk_weight
        cores[place] = slot.cores
        alone[place] = slot.speed * slot.quota * slot.gpu * slot.pace
        exposed[place] = slot.exposed
        if slot.exposed > 0.0:
            sensitive = True
        cap[place] = np.inf
        if slot.net >= 0:
            cap[place] = link_allows(state, slot.net, -1)[0]
            slot.cap_used = cap[place]
    if node.nets > 0:
        node.slack = 0 if sensitive or node.tight == 1 else 1
        if node.disk_base < node.nominal[2]:
            node.slack = 0
        for r in range(LOCAL_RESOURCES):
            total = 0.0
            for place in range(count):
                total += demand[place, r] * alone[place]
            if total > capacity[r]:
                node.slack = 0
    load, sweeps = solve_node(
        count, demand, weight, capacity[:LOCAL_RESOURCES], cores, alone, cap, exposed,
        laws[0], laws[1], int(laws[2]), laws[3], laws[5], node.load,
        level[:LOCAL_RESOURCES], rate, binding, stall, own, wanted, busy,
    )  # fmt: skip
    node.load = load
    counters.solves += 1
    if sweeps < 0:
        counters.failed += 1
    else:
        counters.sweeps += sweeps
    for place in range(count):
        slot = slots[row, place]
        slot.stall = stall[place]
        slot.base_time = 1.0 / alone[place]
        slot.own_time = stall[place] / alone[place]
        slot.rate = rate[place]
        slot.cause = CAUSE_OF_RESOURCE[binding[place]] if binding[place] >= 0 else -1
        if slot.net >= 0:
            allowed = alone[place] / stall[place]
            holds = -1
            for r in range(LOCAL_RESOURCES):
                if level[r] < np.inf and demand[place, r] > 0.0:
                    share = level[r] * weight[place, r] / demand[place, r]
                    if share < allowed:
                        allowed = share
                        holds = r
            if sweeps < 0 and rate[place] < allowed:
                # Scaled down to fit: the solve did not settle, and its binding tells by what.
                allowed = rate[place]
                holds = binding[place]
            slot.cause = CAUSE_OF_RESOURCE[holds] if holds >= 0 else -1
            resolve_net(state, slot.net, allowed)
            net = nets[slot.net]
            if net.bound >= 0:
                slot.cause = links[net.link[net.bound]].cause
                slot.rate = net_rate(state, slot.net)


@inner
def _stand_still(state: Handle, row: int) -> None:
    """Set all rates to 0: the node is down."""
    counters = counters_of(state)[0]
    nodes = nodes_of(state)
    slots = slots_of(state)
    for place in range(nodes[row].count):
        slot = slots[row, place]
        slot.rate = 0.0
        if slot.net >= 0:
            resolve_net(state, slot.net, 0.0)
        slot.cause = _NODE
    _disk_capacity(state, row, counters.now_s)


@inner
def _run_free(state: Handle, row: int) -> None:
    """Let every task run at its own speed: contention is switched off."""
    nodes = nodes_of(state)
    slots = slots_of(state)
    for place in range(nodes[row].count):
        slot = slots[row, place]
        slot.rate = slot.speed * slot.quota * slot.pace


@inner
def _next_edge(state: Handle, row: int) -> None:
    """Find when the next task ends, the bucket runs empty or memory runs out, and put it into the queue."""
    counters = counters_of(state)[0]
    nets = nets_of(state)
    nodes = nodes_of(state)
    slots = slots_of(state)
    node = nodes[row]
    now_s = counters.now_s
    next_s = np.inf
    growth = 0.0
    disk = 0.0
    for place in range(node.count):
        slot = slots[row, place]
        if slot.work_s > 0.0:
            growth += slot.rate * (slot.anon_end - slot.anon_start) / slot.work_s
        disk += slot.rate * slot.disk
        if slot.net >= 0 and nets[slot.net].bound >= 0:
            continue
        if slot.rate > 0.0:
            next_s = min(next_s, now_s + max(slot.remaining - slot.stop_at, 0.0) / slot.rate)
        elif slot.remaining - slot.stop_at <= 0.0 and node.up == 1:
            next_s = now_s
    if node.disk_base < node.nominal[2] and node.bucket_level > _BUCKET_DUST * node.bucket_size:
        next_s = min(next_s, now_s + bucket_edge_s(node.bucket_level, node.disk_base * node.factor[2], disk))
    if growth > 0.0 and node.tight == 1:
        next_s = min(next_s, now_s + max(node.memory - node.anon, 0.0) / growth)
    schedule(state, row, next_s)


@inner
def solve_block(state: Handle, row: int) -> None:
    """Bring a node up to the present instant and solve it."""
    counters = counters_of(state)[0]
    nodes = nodes_of(state)
    node = nodes[row]
    now_s = counters.now_s
    for place in range(node.count):
        sync_slot(state, row, place, now_s)
    _settle_memory(state, row)
    # Only now: an eviction must not queue the node that is being solved, a link that changes later must.
    node.queued = 0
    if node.up == 0:
        _stand_still(state, row)
    elif counters.contention == 0:
        _run_free(state, row)
    else:
        if node.gpus > 0:
            _share_gpus(state, row)
        _solve_rates(state, row)
    _next_edge(state, row)
