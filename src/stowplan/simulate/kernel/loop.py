"""The loop: what happens next, in total order, until a scheduler must look or time is up.

An instant is handled in this order: scheduled changes (by entry), completions (nodes by row, then links by
id; on one node by task id), starts (by task id). Then everything touched is solved again, which may bring
more for the same instant (a phase without work); time goes on when nothing is left. Ties are broken by index
alone, so the order is total.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.physics.compile import compiled, inner
from stowplan.core.physics.vocabulary import Resource
from stowplan.simulate.kernel.block import drop_slot, solve_block
from stowplan.simulate.kernel.events import ChangeKind, EventKind, Wake
from stowplan.simulate.kernel.fabric import add_net, finish_keys, queue_link, relax_links, remove_net
from stowplan.simulate.kernel.heaps import schedule, start_pop, start_push
from stowplan.simulate.kernel.slots import (
    end_task,
    enter_phase,
    link_of_code,
    push_event,
    queue_node,
    settle_account,
    sync_slot,
)
from stowplan.simulate.kernel.state import LOCAL_RESOURCES, TaskState
from stowplan.simulate.kernel.views import (
    Handle,
    changes_of,
    counters_of,
    events_of,
    first_phase_of,
    heap_item_of,
    heap_time_of,
    laws_of,
    links_of,
    nets_of,
    node_queue_of,
    nodes_of,
    own_links_of,
    phases_of,
    slots_of,
    start_task_of,
    start_time_of,
    tasks_of,
)

__all__ = [
    "ADVANCED",
    "EVENTS_FULL",
    "ROOM_NEEDED",
    "WOKEN",
    "advance",
    "apply_change",
    "settle",
    "start_tasks",
    "stop_task",
    "sync_all",
]

ADVANCED: Final = 0
"""`advance` reached its time."""
WOKEN: Final = 1
"""Something happened that the caller asked to be woken for."""
EVENTS_FULL: Final = 2
"""The buffer of events needs more room; call again."""
ROOM_NEEDED: Final = 3
"""A task is to begin where no slot, or no entry for its traffic, is free; make room and call again."""

_CHANGE: Final = int(EventKind.CHANGE)
_FINISHED: Final = int(EventKind.FINISHED)
_OOM_KILLED: Final = int(EventKind.OOM_KILLED)
_PHASE_DONE: Final = int(EventKind.PHASE_DONE)
_STARTED: Final = int(EventKind.STARTED)
_WAKE_PHASE_DONE: Final = int(Wake.PHASE_DONE)
_NODE_DOWN: Final = int(ChangeKind.NODE_DOWN)
_NODE_UP: Final = int(ChangeKind.NODE_UP)
_NODE_CAPACITY: Final = int(ChangeKind.NODE_CAPACITY)
_NIC_UP: Final = int(Resource.NIC_UP)
_NIC_DOWN: Final = int(Resource.NIC_DOWN)
_RUNNING: Final = TaskState.RUNNING
_WAITING: Final = TaskState.WAITING
_END_FINISHED: Final = TaskState.FINISHED
_END_KILLED: Final = TaskState.KILLED
_END_STOPPED: Final = TaskState.STOPPED


@inner
def _register_flows(state: Handle, row: int, place: int) -> None:
    """Give the slot an entry in `nets` if its phase uses links that exist; bytes over one link add up."""
    counters = counters_of(state)[0]
    first_phase = first_phase_of(state)
    nets = nets_of(state)
    nodes = nodes_of(state)
    own_links = own_links_of(state)
    phases = phases_of(state)
    slots = slots_of(state)
    tasks = tasks_of(state)
    slot = slots[row, place]
    task = tasks[slot.task]
    phase = phases[first_phase[task.profile] + task.phase]
    slot.net = -1
    if phase.flow_count == 0 or counters.contention == 0:
        return
    net_id = counters.net_free
    net = nets[net_id]
    net.flows = 0
    for flow in range(phase.flow_count):
        link_id = link_of_code(phase.flow_link[flow], row, counters.fabric, counters.roots, own_links)
        if link_id < 0 or phase.flow_bytes_per_s[flow] <= 0.0:
            continue
        known = -1
        for j in range(net.flows):
            if net.link[j] == link_id:
                known = j
        if known >= 0:
            net.bytes[known] += phase.flow_bytes_per_s[flow]
            net.weight[known] = max(net.weight[known], phase.flow_weight[flow])
        else:
            net.link[net.flows] = link_id
            net.bytes[net.flows] = phase.flow_bytes_per_s[flow]
            net.weight[net.flows] = phase.flow_weight[flow]
            net.flows += 1
    if net.flows == 0:
        return
    counters.net_free = net.child
    net.row = row
    net.slot = place
    net.task = slot.task
    slot.net = net_id
    nodes[row].nets += 1
    add_net(state, net_id)


@inner
def _enter(state: Handle, row: int, place: int) -> None:
    """Enter the task's present phase and have its node solved."""
    laws = laws_of(state)
    enter_phase(state, row, place, laws[4])
    _register_flows(state, row, place)
    queue_node(state, row)


@inner
def begin_task(state: Handle, task_id: int) -> None:
    """Put the task on its node and let it begin now."""
    counters = counters_of(state)[0]
    nodes = nodes_of(state)
    slots = slots_of(state)
    tasks = tasks_of(state)
    task = tasks[task_id]
    node = nodes[task.row]
    place = node.count
    node.count += 1
    slot = slots[task.row, place]
    task.slot = place
    task.state = _RUNNING
    task.started_s = counters.now_s
    slot.task = task_id
    slot.speed = task.speed
    slot.cpu_weight = task.cpu_weight
    slot.memory_limit = task.memory_limit
    slot.memory_request = task.memory_request
    slot.gpu_mask = task.gpu_mask
    slot.anon_end = 0.0
    for cause in range(slot.lost.shape[0]):
        slot.lost[cause] = 0.0
    if task.gpu_mask != 0:
        node.gpus += 1
    counters.running += 1
    counters.event_total += 1
    _enter(state, task.row, place)


@inner
def _pass(state: Handle, row: int, place: int, record_phases: bool) -> None:
    """The slot reached its stop: killed by its memory limit, on to the next phase, or finished."""
    counters = counters_of(state)[0]
    first_phase = first_phase_of(state)
    nets = nets_of(state)
    nodes = nodes_of(state)
    slots = slots_of(state)
    tasks = tasks_of(state)
    slot = slots[row, place]
    task_id = slot.task
    task = tasks[task_id]
    counters.event_total += 1
    if slot.oom == 1:
        drop_slot(state, row, place)
        end_task(state, task_id, row, _END_KILLED, _OOM_KILLED)
        return
    slot.remaining = 0.0
    if first_phase[task.profile] + task.phase + 1 == first_phase[task.profile + 1]:
        drop_slot(state, row, place)
        end_task(state, task_id, row, _END_FINISHED, _FINISHED)
        return
    settle_account(state, row, place)
    if slot.net >= 0:
        remove_net(state, slot.net)
        nets[slot.net].child = counters.net_free
        counters.net_free = slot.net
        nodes[row].nets -= 1
    task.phase += 1
    if record_phases:
        push_event(state, _PHASE_DONE, task_id, row)
    _enter(state, row, place)


@inner
def _wake_node(state: Handle, row: int, record_phases: bool) -> None:
    """Let pass what is due on the node, by task id, and have it solved again."""
    counters = counters_of(state)[0]
    nets = nets_of(state)
    nodes = nodes_of(state)
    slots = slots_of(state)
    now_s = counters.now_s
    node = nodes[row]
    queue_node(state, row)
    for place in range(node.count):
        sync_slot(state, row, place, now_s)
    passed = -1
    while True:
        first = -1
        for place in range(node.count):
            slot = slots[row, place]
            if slot.task <= passed or (slot.net >= 0 and nets[slot.net].bound >= 0):
                continue
            left = slot.remaining - slot.stop_at
            due = left <= 1e-11 * slot.work_s or (slot.rate > 0.0 and now_s + left / slot.rate <= now_s)
            if due and (first < 0 or slot.task < slots[row, first].task):
                first = place
        if first < 0:
            return
        passed = slots[row, first].task
        _pass(state, row, first, record_phases)


@inner
def _wake_link(state: Handle, link_id: int, record_phases: bool) -> None:
    """Let pass the tasks whose end on the link's clock has come."""
    counters = counters_of(state)[0]
    nets = nets_of(state)
    now_s = counters.now_s
    while True:
        net_id = finish_keys(state, link_id, now_s * 4e-16)
        if net_id < 0:
            break
        net = nets[net_id]
        row = net.row
        place = net.slot
        sync_slot(state, row, place, now_s)
        _pass(state, row, place, record_phases)
    queue_link(state, link_id)


@inner
def _set_link(state: Handle, link_id: int, factor: float) -> None:
    links = links_of(state)
    link = links[link_id]
    link.factor = factor
    link.capacity = link.nominal * factor if factor > 0.0 else 0.0
    if link.level < np.inf or link.usage > link.capacity:
        # Bounds of the old capacity say nothing about the new one: fill anew.
        link.cap_min = 0.0
    queue_link(state, link_id)


@compiled
def apply_change(state: Handle, kind: int, index: int, column: int, factor: float) -> None:
    """Change a node's state or capacity, or a link's capacity, now."""
    counters = counters_of(state)[0]
    nodes = nodes_of(state)
    counters.event_total += 1
    if kind in (_NODE_DOWN, _NODE_UP):
        nodes[index].up = 1 if kind == _NODE_UP else 0
    elif kind == _NODE_CAPACITY:
        first = counters.fabric + index * (2 + counters.roots)
        if column < LOCAL_RESOURCES:
            nodes[index].factor[column] = factor
        elif column == _NIC_UP:
            _set_link(state, first, factor)
        elif column == _NIC_DOWN:
            _set_link(state, first + 1, factor)
        else:
            for root in range(counters.roots):
                _set_link(state, first + 2 + root, factor)
    else:
        _set_link(state, index, factor)
        return
    queue_node(state, index)


@compiled
def settle(state: Handle) -> None:
    """Solve everything that is queued, nodes and links in turn, until nothing changes any more."""
    counters = counters_of(state)[0]
    laws = laws_of(state)
    node_queue = node_queue_of(state)
    nodes = nodes_of(state)
    sweeps = int(laws[2])
    rounds = 0
    while counters.node_queue > 0 or counters.link_queue > 0:
        for _ in range(counters.node_queue):
            row = int(node_queue[counters.node_head])
            counters.node_head = (counters.node_head + 1) % node_queue.shape[0]
            counters.node_queue -= 1
            solve_block(state, row)
        relax_links(state, sweeps)
        rounds += 1
        if rounds > sweeps:
            counters.failed += 1
            while counters.node_queue > 0:
                row = int(node_queue[counters.node_head])
                counters.node_head = (counters.node_head + 1) % node_queue.shape[0]
                counters.node_queue -= 1
                nodes[row].queued = 0
            return


@compiled
def start_tasks(state: Handle, ids: NDArray[np.int64], at_s: NDArray[np.float64]) -> None:
    """Begin what is due and queue the rest; ids ascending. What it touches stays queued for `settle`."""
    counters = counters_of(state)[0]
    start_task = start_task_of(state)
    start_time = start_time_of(state)
    for index in range(ids.shape[0]):
        if at_s[index] <= counters.now_s:
            begin_task(state, ids[index])
        else:
            start_push(start_time, start_task, counters.starts, at_s[index], ids[index])
            counters.starts += 1


@compiled
def stop_task(state: Handle, task_id: int) -> None:
    """Take a waiting or running task away, now."""
    counters = counters_of(state)[0]
    tasks = tasks_of(state)
    task = tasks[task_id]
    row = task.row
    if task.state == _RUNNING:
        sync_slot(state, row, task.slot, counters.now_s)
        drop_slot(state, row, task.slot)
    end_task(state, task_id, row, _END_STOPPED, -1)


@compiled
def sync_all(state: Handle) -> None:
    """Bring every slot and link up to the present instant, for reading."""
    counters = counters_of(state)[0]
    links = links_of(state)
    nodes = nodes_of(state)
    now_s = counters.now_s
    for row in range(nodes.shape[0]):
        for place in range(nodes[row].count):
            sync_slot(state, row, place, now_s)
    for link_id in range(links.shape[0]):
        link = links[link_id]
        if link.level < np.inf:
            link.clock += link.level * (now_s - link.updated_s)
        link.carried += link.usage * (now_s - link.updated_s)
        link.updated_s = now_s


@inner
def _next_instant(state: Handle) -> float:
    """When the next thing happens; inf when nothing will."""
    changes = changes_of(state)
    counters = counters_of(state)[0]
    heap_item = heap_item_of(state)
    heap_time = heap_time_of(state)
    start_time = start_time_of(state)
    next_s = np.inf
    if counters.changes_next < changes.shape[0]:
        next_s = changes[counters.changes_next].time_s
    if counters.heap > 0:
        next_s = min(next_s, heap_time[heap_item[0]])
    if counters.starts > 0:
        next_s = min(next_s, start_time[0])
    return next_s


@inner
def _events_full(state: Handle) -> bool:
    """Tell whether what may happen at one instant could overflow the buffer of events."""
    counters = counters_of(state)[0]
    return events_of(state).shape[0] - counters.events < 2 * counters.running + 64


@compiled
def advance(state: Handle, until_s: float, wake: int) -> int:
    """Let time go on to `until_s`, or to the first instant with an event in `wake` (bits of `Wake`).

    Returns ADVANCED, WOKEN, EVENTS_FULL or ROOM_NEEDED; the events are in `events[: counters.events]`.
    """
    changes = changes_of(state)
    counters = counters_of(state)[0]
    heap_item = heap_item_of(state)
    heap_time = heap_time_of(state)
    nets = nets_of(state)
    nodes = nodes_of(state)
    slots = slots_of(state)
    start_task = start_task_of(state)
    start_time = start_time_of(state)
    tasks = tasks_of(state)
    record_phases = wake & _WAKE_PHASE_DONE != 0
    node_count = nodes.shape[0]
    settle(state)
    while True:
        next_s = _next_instant(state)
        if counters.woken & wake != 0 and next_s > counters.now_s:
            return WOKEN
        if next_s > until_s or next_s == np.inf:
            if until_s < np.inf:
                counters.now_s = max(counters.now_s, until_s)
            return ADVANCED
        if _events_full(state):
            return EVENTS_FULL
        counters.now_s = max(counters.now_s, next_s)
        now_s = counters.now_s
        while counters.changes_next < changes.shape[0]:
            change = changes[counters.changes_next]
            if change.time_s > now_s:
                break
            if _events_full(state):
                return EVENTS_FULL
            counters.changes_next += 1
            apply_change(state, change.kind, change.index, change.column, change.factor)
            push_event(state, _CHANGE, change.entry, change.index if change.kind <= _NODE_CAPACITY else -1)
        while counters.heap > 0 and heap_time[heap_item[0]] <= now_s:
            item = heap_item[0]
            # Whoever is woken is solved again before time goes on, which sets its next time.
            schedule(state, item, np.inf)
            if item < node_count:
                _wake_node(state, item, record_phases)
            else:
                _wake_link(state, item - node_count, record_phases)
        while counters.starts > 0 and start_time[0] <= now_s:
            first = tasks[start_task[0]]
            if first.state == _WAITING and (
                nodes[first.row].count >= slots.shape[1]
                or (counters.with_flows == 1 and counters.running >= nets.shape[0])
            ):
                return ROOM_NEEDED
            if _events_full(state):
                return EVENTS_FULL
            task_id = start_pop(start_time, start_task, counters.starts)
            counters.starts -= 1
            if tasks[task_id].state == _WAITING:
                begin_task(state, task_id)
                push_event(state, _STARTED, task_id, tasks[task_id].row)
        settle(state)
