"""One node of the kernel: bring it up to date, solve its rates by the physics, find when something happens on
it next.

Called once per node and instant at which something touched it; everything else keeps its rates. Between two
calls the rates are constant, so memory grows linearly and the burst bucket empties linearly, and the next edge of either is known.
The hit ratio of the page cache is taken at the call and holds until the next.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.physics.compile import compiled
from stowplan.core.physics.disk import bucket_after, bucket_edge_s
from stowplan.core.physics.gpu import shared_gpu_speed
from stowplan.core.physics.memory import cache_allowed, cache_scale, disk_share_of_reads
from stowplan.core.physics.node import CAUSE_OF_RESOURCE, solve_node
from stowplan.core.physics.vocabulary import Cause
from stowplan.simulate.kernel.events import EventKind
from stowplan.simulate.kernel.fabric import link_allows, net_rate, remove_net, resolve_net
from stowplan.simulate.kernel.heaps import heap_move
from stowplan.simulate.kernel.slots import end_task, leave_node, sync_slot
from stowplan.simulate.kernel.state import LOCAL_RESOURCES, State, TaskState

__all__ = ["drop_slot", "solve_block"]

_EVICTED: Final = int(EventKind.EVICTED)
_KILLED: Final = TaskState.KILLED
_NODE: Final = int(Cause.NODE)
_BUCKET_DUST: Final = 1e-9
"""Share of the bucket that counts as empty, so that rounding cannot make it flicker."""
_MEMORY_DUST: Final = 1e-12


@compiled
def drop_slot(state: State, row: int, place: int) -> None:
    """Take the task in this slot, which must be up to date, off its links and its node."""
    net_id = state.slots[row, place].net
    if net_id >= 0:
        remove_net(state, net_id)
        state.nets[net_id].child = state.counters[0].net_free
        state.counters[0].net_free = net_id
        state.nodes[row].nets -= 1
    leave_node(state, row, place)


@compiled
def _anonymous(slots: NDArray[np.void], row: int, place: int) -> float:
    """Anonymous memory of a task now, bytes: it grows evenly with the work of the phase."""
    slot = slots[row, place]
    if slot.work_s <= 0.0:
        return slot.anon_end
    return slot.anon_end - (slot.anon_end - slot.anon_start) * slot.remaining / slot.work_s


@compiled
def _settle_memory(state: State, row: int) -> None:
    """Evict until anonymous memory fits, most above its request first; then divide what is left as page
    cache."""
    node = state.nodes[row]
    while True:
        anon = 0.0
        most = -np.inf
        victim = -1
        final = 0.0
        for place in range(node.count):
            slot = state.slots[row, place]
            own = _anonymous(state.slots, row, place)
            anon += own
            final += max(own, slot.anon_end)
            above = own - slot.memory_request
            if above > most or (above == most and slot.task > state.slots[row, victim].task):
                most = above
                victim = place
        node.anon = anon
        node.tight = 1 if final > node.memory else 0
        # At the very limit only a task that still grows makes pressure.
        if anon <= node.memory * (1.0 - _MEMORY_DUST) or victim < 0:
            break
        if anon <= node.memory * (1.0 + _MEMORY_DUST) and node.tight == 0:
            break
        task_id = state.slots[row, victim].task
        drop_slot(state, row, victim)
        end_task(state, task_id, row, _KILLED, _EVICTED)
    wanted = 0.0
    for place in range(node.count):
        slot = state.slots[row, place]
        if slot.cache_bytes > 0.0:
            wanted += cache_allowed(slot.cache_bytes, _anonymous(state.slots, row, place), slot.memory_limit)
    scale = cache_scale(wanted, node.anon, node.memory)
    node.cache = wanted * scale
    for place in range(node.count):
        slot = state.slots[row, place]
        if slot.cache_bytes > 0.0:
            own = _anonymous(state.slots, row, place)
            kept = scale * cache_allowed(slot.cache_bytes, own, slot.memory_limit)
            through = disk_share_of_reads(slot.cache_hit, slot.cache_bytes, kept)
            slot.disk = slot.disk_read * through + slot.disk_write


@compiled
def _share_gpus(state: State, row: int) -> None:
    """Set the GPU factor of each task: the fullest of its GPUs decides."""
    count = state.nodes[row].count
    knots = state.gpu_curve.shape[1]
    for place in range(count):
        slot = state.slots[row, place]
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
                if state.slots[row, other].gpu_mask & bit != 0:
                    users += 1
                    combined += state.slots[row, other].gpu_utilisation
            if users > 1 and knots > 0:
                worst = min(worst, shared_gpu_speed(combined, state.gpu_curve[0], state.gpu_curve[1]))
        slot.gpu = worst


@compiled
def _disk_capacity(nodes: NDArray[np.void], row: int, now_s: float) -> float:
    """Bring the burst bucket up to date; returns bytes per second that the disk serves now."""
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


@compiled
def _solve_rates(state: State, row: int) -> None:
    """Gather the node's tasks, solve, and write rates and causes back; binds tasks with traffic to their
    links."""
    node = state.nodes[row]
    count = node.count
    counters = state.counters[0]
    laws = state.laws
    demand = state.matrix[: state.scratch.shape[1] * LOCAL_RESOURCES].reshape((-1, LOCAL_RESOURCES))
    weight = state.matrix[state.scratch.shape[1] * LOCAL_RESOURCES :].reshape((-1, LOCAL_RESOURCES))
    cores = state.scratch[2]
    alone = state.scratch[3]
    cap = state.scratch[4]
    exposed = state.scratch[5]
    rate = state.scratch[6]
    stall = state.scratch[7]
    own = state.scratch[8]
    wanted = state.scratch[9]
    level = state.scratch[10]
    capacity = state.scratch[11]
    binding = state.scratch_whole[0]
    busy = state.scratch_whole[1]
    capacity[0] = node.nominal[0] * node.factor[0]
    capacity[1] = node.nominal[1] * node.factor[1]
    capacity[2] = _disk_capacity(state.nodes, row, counters.now_s)
    capacity[3] = node.nominal[3] * node.factor[2] * node.factor[3]
    sensitive = False
    for place in range(count):
        slot = state.slots[row, place]
        demand[place, 0] = slot.cores
        demand[place, 1] = slot.dram
        demand[place, 2] = slot.disk
        demand[place, 3] = slot.disk * slot.operations_per_byte
        weight[place, 0] = slot.cpu_weight
        weight[place, 1] = slot.dram_weight
        weight[place, 2] = slot.disk_weight
        weight[place, 3] = slot.disk_weight
        cores[place] = slot.cores
        alone[place] = slot.speed * slot.quota * slot.gpu
        exposed[place] = slot.exposed
        if slot.exposed > 0.0:
            sensitive = True
        cap[place] = np.inf
        if slot.net >= 0:
            cap[place] = link_allows(state.nets, state.links, slot.net, -1)[0]
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
        laws[0], laws[1], int(laws[2]), laws[3], node.load,
        level[:LOCAL_RESOURCES], rate, binding, stall, own, wanted, busy,
    )  # fmt: skip
    node.load = load
    counters.solves += 1
    if sweeps < 0:
        counters.failed += 1
    else:
        counters.sweeps += sweeps
    for place in range(count):
        slot = state.slots[row, place]
        slot.stall = stall[place]
        slot.base_time = 1.0 / alone[place]
        slot.own_time = stall[place] / alone[place]
        slot.rate = rate[place]
        slot.cause = CAUSE_OF_RESOURCE[binding[place]] if binding[place] >= 0 else -1
        if slot.net >= 0:
            allowed = alone[place] / stall[place]
            for r in range(LOCAL_RESOURCES):
                if level[r] < np.inf and demand[place, r] > 0.0:
                    allowed = min(allowed, level[r] * weight[place, r] / demand[place, r])
            resolve_net(state, slot.net, min(allowed, rate[place]) if sweeps < 0 else allowed)
            net = state.nets[slot.net]
            if net.bound >= 0:
                slot.cause = state.links[net.link[net.bound]].cause
                slot.rate = net_rate(state.nets, state.links, slot.net)


@compiled
def _stand_still(state: State, row: int) -> None:
    """Set all rates to 0: the node is down."""
    for place in range(state.nodes[row].count):
        slot = state.slots[row, place]
        slot.rate = 0.0
        if slot.net >= 0:
            resolve_net(state, slot.net, 0.0)
        slot.cause = _NODE
    _disk_capacity(state.nodes, row, state.counters[0].now_s)


@compiled
def _run_free(state: State, row: int) -> None:
    """Let every task run at its own speed: contention is switched off."""
    for place in range(state.nodes[row].count):
        slot = state.slots[row, place]
        slot.rate = slot.speed * slot.quota


@compiled
def _next_edge(state: State, row: int) -> None:
    """Find when the next task ends, the bucket runs empty or memory runs out, and put it into the queue."""
    node = state.nodes[row]
    counters = state.counters[0]
    now_s = counters.now_s
    next_s = np.inf
    growth = 0.0
    disk = 0.0
    for place in range(node.count):
        slot = state.slots[row, place]
        if slot.work_s > 0.0:
            growth += slot.rate * (slot.anon_end - slot.anon_start) / slot.work_s
        disk += slot.rate * slot.disk
        if slot.net >= 0 and state.nets[slot.net].bound >= 0:
            continue
        if slot.rate > 0.0:
            next_s = min(next_s, now_s + max(slot.remaining - slot.stop_at, 0.0) / slot.rate)
        elif slot.remaining - slot.stop_at <= 0.0 and node.up == 1:
            next_s = now_s
    if node.disk_base < node.nominal[2] and node.bucket_level > _BUCKET_DUST * node.bucket_size:
        next_s = min(next_s, now_s + bucket_edge_s(node.bucket_level, node.disk_base * node.factor[2], disk))
    if growth > 0.0 and node.tight == 1:
        next_s = min(next_s, now_s + max(node.memory - node.anon, 0.0) / growth)
    counters.heap = heap_move(state.heap_time, state.heap_item, state.heap_place, counters.heap, row, next_s)


@compiled
def solve_block(state: State, row: int) -> None:
    """Bring a node up to the present instant and solve it."""
    node = state.nodes[row]
    now_s = state.counters[0].now_s
    for place in range(node.count):
        sync_slot(state.nodes, state.slots, state.nets, state.links, row, place, now_s)
    _settle_memory(state, row)
    # Only now: an eviction must not queue the node that is being solved, a link that changes later must.
    node.queued = 0
    if node.up == 0:
        _stand_still(state, row)
    elif state.counters[0].contention == 0:
        _run_free(state, row)
    else:
        if node.gpus > 0:
            _share_gpus(state, row)
        _solve_rates(state, row)
    _next_edge(state, row)
