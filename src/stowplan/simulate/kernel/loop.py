"""The loop: what happens next, in total order, until a scheduler must look or time is up.

An instant is handled in this order: scheduled changes (by entry), completions (nodes by row, then links by
id; on one node by task id), starts (by task id). Then everything touched is solved again, which may bring
more for the same instant (a phase without work); time goes on when nothing is left. Ties are broken by index
alone, so the order is total.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from stowplan.core.physics.compile import compiled, inner
from stowplan.core.physics.vocabulary import Resource
from stowplan.simulate.kernel.block import solve_block
from stowplan.simulate.kernel.events import ChangeKind, EventKind, Wake
from stowplan.simulate.kernel.fabric import relax_links
from stowplan.simulate.kernel.heaps import schedule, start_pop
from stowplan.simulate.kernel.lifecycle import begin_task, wake_link, wake_node
from stowplan.simulate.kernel.links import queue_link
from stowplan.simulate.kernel.slots import push_event, queue_node, sync_slot
from stowplan.simulate.kernel.state import LOCAL_RESOURCES, TaskState
from stowplan.simulate.kernel.views import (
    Handle,
    changes_of,
    counters_of,
    events_of,
    heap_item_of,
    heap_time_of,
    laws_of,
    links_of,
    nets_of,
    node_queue_of,
    nodes_of,
    slots_of,
    start_task_of,
    start_time_of,
    tasks_of,
)

__all__ = ["ADVANCED", "EVENTS_FULL", "ROOM_NEEDED", "WOKEN", "advance", "apply_change", "settle", "sync_all"]

ADVANCED: Final = 0
"""`advance` reached its time."""
WOKEN: Final = 1
"""Something happened that the caller asked to be woken for."""
EVENTS_FULL: Final = 2
"""The buffer of events needs more room; call again."""
ROOM_NEEDED: Final = 3
"""A task is to begin where no slot, or no entry for its traffic, is free; make room and call again."""

_CHANGE: Final = int(EventKind.CHANGE)
_STARTED: Final = int(EventKind.STARTED)
_WAKE_PHASE_DONE: Final = int(Wake.PHASE_DONE)
_NODE_DOWN: Final = int(ChangeKind.NODE_DOWN)
_NODE_UP: Final = int(ChangeKind.NODE_UP)
_NODE_CAPACITY: Final = int(ChangeKind.NODE_CAPACITY)
_NIC_UP: Final = int(Resource.NIC_UP)
_NIC_DOWN: Final = int(Resource.NIC_DOWN)
_WAITING: Final = TaskState.WAITING


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
    counters.rounds = 0
    while counters.node_queue > 0 or counters.link_queue > 0:
        for _ in range(counters.node_queue):
            row = int(node_queue[counters.node_head])
            counters.node_head = (counters.node_head + 1) % node_queue.shape[0]
            counters.node_queue -= 1
            solve_block(state, row)
        relax_links(state, sweeps)
        counters.rounds += 1
        if counters.rounds > sweeps:
            counters.failed += 1
            while counters.node_queue > 0:
                row = int(node_queue[counters.node_head])
                counters.node_head = (counters.node_head + 1) % node_queue.shape[0]
                counters.node_queue -= 1
                nodes[row].queued = 0
            return


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
                wake_node(state, item, record_phases)
            else:
                wake_link(state, item - node_count, record_phases)
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
