"""A task's way over its node: it begins, passes from phase to phase, and ends or is taken away."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.physics.compile import compiled, inner
from stowplan.simulate.kernel.binding import add_net, remove_net
from stowplan.simulate.kernel.block import anonymous, drop_slot
from stowplan.simulate.kernel.events import EventKind
from stowplan.simulate.kernel.fabric import finish_keys
from stowplan.simulate.kernel.heaps import start_push
from stowplan.simulate.kernel.links import queue_link
from stowplan.simulate.kernel.slots import (
    end_task,
    enter_phase,
    link_of_code,
    push_event,
    queue_node,
    settle_account,
    sync_slot,
)
from stowplan.simulate.kernel.state import TaskState
from stowplan.simulate.kernel.views import (
    Handle,
    counters_of,
    first_phase_of,
    laws_of,
    nets_of,
    nodes_of,
    own_links_of,
    phases_of,
    slots_of,
    start_task_of,
    start_time_of,
    tasks_of,
)

__all__ = ["begin_task", "pace_tasks", "start_tasks", "stop_task", "wake_link", "wake_node"]

_FINISHED: Final = int(EventKind.FINISHED)
_OOM_KILLED: Final = int(EventKind.OOM_KILLED)
_PHASE_DONE: Final = int(EventKind.PHASE_DONE)
_RUNNING: Final = TaskState.RUNNING
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
def _bits(mask: int) -> int:
    """Count the GPUs of a mask."""
    count = 0
    while mask != 0:
        mask &= mask - 1
        count += 1
    return count


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
    slot.pace = task.pace
    slot.pace_cause = task.pace_cause
    slot.cpu_weight = task.cpu_weight
    slot.memory_limit = task.memory_limit
    slot.memory_request = task.memory_request
    slot.gpu_mask = task.gpu_mask
    slot.gpus = _bits(task.gpu_mask)
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
def wake_node(state: Handle, row: int, record_phases: bool) -> None:
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
def wake_link(state: Handle, link_id: int, record_phases: bool) -> None:
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
def pace_tasks(
    state: Handle, ids: NDArray[np.int64], pace: NDArray[np.float64], cause: NDArray[np.int64]
) -> None:
    """Have tasks go at another pace from now on. What it touches stays queued for `settle`."""
    counters = counters_of(state)[0]
    slots = slots_of(state)
    tasks = tasks_of(state)
    for index in range(ids.shape[0]):
        task = tasks[ids[index]]
        task.pace = pace[index]
        task.pace_cause = cause[index]
        if task.state != _RUNNING:
            continue
        row = task.row
        slot = slots[row, task.slot]
        sync_slot(state, row, task.slot, counters.now_s)
        slot.anon_start = anonymous(state, row, task.slot)  # before the account closes: it goes by work left
        settle_account(state, row, task.slot)
        slot.pace = pace[index]
        slot.pace_cause = cause[index]
        queue_node(state, row)


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
