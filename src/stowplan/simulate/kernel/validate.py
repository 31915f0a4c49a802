"""Invariants of the kernel's state, re-checked across arrays; for tests, after every step."""

from __future__ import annotations

import numpy as np

from stowplan.errors import InternalError
from stowplan.simulate.kernel.profiles import FLOW_SLOTS
from stowplan.simulate.kernel.state import LOCAL_RESOURCES, State, TaskState

__all__ = ["validate_state"]

_RELATIVE = 1e-9


def validate_state(state: State) -> None:
    """Check that all arrays tell the same story; the state must be brought up to its present instant.

    Raises:
        InternalError: an invariant does not hold; the message names the object and the numbers.
    """
    _check_places(state)
    _check_time(state)
    _check_capacities(state)
    _check_links(state)
    _check_queue(state)


def _require(holds: object, message: str) -> None:
    if not holds:
        raise InternalError(f"kernel invariant broken: {message}")


def _check_places(state: State) -> None:
    """Slots, tasks and traffic point at each other, and counts agree."""
    running = 0
    for row, node in enumerate(state.nodes):
        _require(node["queued"] == 0, f"node {row} was queued and not solved")
        running += node["count"]
        for place in range(node["count"]):
            slot = state.slots[row, place]
            task = state.tasks[slot["task"]]
            where = (int(task["row"]), int(task["slot"]), int(task["state"]))
            _require(
                where == (row, place, TaskState.RUNNING),
                f"task {slot['task']} is at {where}, its slot at {row, place}",
            )
            if slot["net"] >= 0:
                net = state.nets[slot["net"]]
                _require(
                    (net["row"], net["slot"], net["task"]) == (row, place, slot["task"]),
                    f"traffic of task {slot['task']}",
                )
        traffic = sum(1 for place in range(node["count"]) if state.slots["net"][row, place] >= 0)
        _require(
            node["nets"] == traffic, f"node {row} counts {node['nets']} tasks with traffic, has {traffic}"
        )
    counted = state.counters["running"][0]
    _require(counted == running, f"{counted} tasks counted as running, slots hold {running}")


def _check_time(state: State) -> None:
    """Work is conserved: time since the start is work done plus time lost, for every task."""
    count = int(state.counters["tasks"][0])
    now_s = float(state.counters["now_s"][0])
    tasks = state.tasks[:count]
    spent = tasks["done_s"] + tasks["lost"].sum(axis=1)
    end_s = np.where(tasks["state"] == TaskState.RUNNING, now_s, tasks["finished_s"])
    for row, node in enumerate(state.nodes):
        for place in range(node["count"]):
            slot = state.slots[row, place]
            task = slot["task"]
            done = slot["work_s"] - slot["remaining"]
            fixed = 1.0 / (slot["speed"] * slot["quota"] * slot["pace"]) - 1.0
            spent[task] += done * (1.0 + fixed) + slot["lost"].sum()
            room = _RELATIVE * max(slot["work_s"], 1e-6)
            _require(
                slot["stop_at"] - room <= slot["remaining"] <= slot["work_s"] + room,
                f"task {task} has {slot['remaining']} s of work left, of {slot['work_s']}",
            )
    begun = ~np.isnan(tasks["started_s"])
    elapsed = (end_s - tasks["started_s"])[begun]
    wrong = np.abs(elapsed - spent[begun]) > _RELATIVE * np.maximum(elapsed, 1.0)
    if wrong.any():
        index = int(np.flatnonzero(begun)[wrong][0])
        raise InternalError(
            f"kernel invariant broken: task {index} ran {elapsed[wrong][0]} s, "
            f"its account says {spent[index]} s"
        )
    finished = tasks["state"] == TaskState.FINISHED
    missing = np.abs(tasks["done_s"] - tasks["work_s"])[finished] > _RELATIVE * np.maximum(
        tasks["work_s"][finished], 1.0
    )
    _require(
        not missing.any(), f"task {np.flatnonzero(finished)[missing][:1]} finished without all of its work"
    )


def _rate(state: State, row: int, place: int) -> float:
    slot = state.slots[row, place]
    if slot["net"] < 0 or state.nets["bound"][slot["net"]] < 0:
        return float(slot["rate"])
    net = state.nets[slot["net"]]
    flow = net["bound"]
    return float(state.links["level"][net["link"][flow]] * net["weight"][flow] / net["bytes"][flow])


def _check_capacities(state: State) -> None:
    """No node gives more than it has, of anything; memory fits."""
    if state.counters["contention"][0] == 0:
        return
    for row, node in enumerate(state.nodes):
        used = np.zeros(LOCAL_RESOURCES)
        for place in range(node["count"]):
            slot = state.slots[row, place]
            rate = _rate(state, row, place)
            disk = slot["disk"] * rate
            cores = rate * slot["cores"] * slot["stall"]
            used += [cores, rate * slot["dram"], disk, disk * slot["operations_per_byte"]]
        capacity = node["nominal"] * node["factor"]
        capacity[3] *= node["factor"][2]
        over = used > capacity * (1.0 + 1e-7)
        _require(not over.any(), f"node {row} gives {used} of {capacity}")
        _require(
            node["anon"] <= node["memory"] * (1.0 + _RELATIVE),
            f"node {row} holds {node['anon']} of {node['memory']} bytes",
        )
        low, high = -_RELATIVE * node["bucket_size"], node["bucket_size"] * (1.0 + _RELATIVE)
        _require(low <= node["bucket_level"] <= high, f"bucket of node {row} holds {node['bucket_level']}")


def _check_links(state: State) -> None:
    """Usage, slopes and lists of each link are what its tasks add up to; none is overloaded."""
    usage = np.zeros(state.links.shape[0])
    slope = np.zeros(state.links.shape[0])
    flows = np.zeros(state.links.shape[0], np.int64)
    attached = np.zeros(state.links.shape[0], np.int64)
    for row, node in enumerate(state.nodes):
        for place in range(node["count"]):
            slot = state.slots[row, place]
            if slot["net"] < 0:
                continue
            net = state.nets[slot["net"]]
            rate = _rate(state, row, place)
            used = net["link"][: net["flows"]]
            usage[used] += rate * net["bytes"][: net["flows"]]
            flows[used] += 1
            if net["bound"] >= 0:
                attached[used[net["bound"]]] += 1
                slope[used[net["bound"]]] += net["weight"][net["bound"]]
            levels = state.links["level"][used] * net["weight"][: net["flows"]] / net["bytes"][: net["flows"]]
            _require(
                rate <= levels.min(initial=np.inf) * (1.0 + _RELATIVE),
                f"task {slot['task']} runs at {rate}, its links allow {levels}",
            )
    for link_id, link in enumerate(state.links):
        told = (int(link["flows"]), int(link["attached"]))
        _require(told == (flows[link_id], attached[link_id]), f"link {link_id} counts {told}")
        # What is left of sums and differences of large rates is no use of the link.
        scale = max(usage[link_id], 1e-2 * min(float(link["nominal"]), 1e12), 1.0)
        _require(
            abs(link["usage"] - usage[link_id]) <= 1e-7 * scale,
            f"link {link_id} counts usage {link['usage']}, its tasks use {usage[link_id]}",
        )
        _require(
            usage[link_id] <= link["capacity"] * (1.0 + 1e-7),
            f"link {link_id} carries {usage[link_id]} of {link['capacity']}",
        )
        _require(
            abs(link["slope"] - slope[link_id]) <= _RELATIVE * max(slope[link_id], 1.0),
            f"slope of link {link_id}",
        )
        full = usage[link_id] >= link["capacity"] * (1.0 - 1e-7)
        _require(
            link["level"] == np.inf or full,
            f"link {link_id} holds tasks back at {usage[link_id]} of {link['capacity']}",
        )
        listed = 0
        entry = int(link["head"])
        while entry >= 0:
            net = state.nets[entry // FLOW_SLOTS]
            _require(
                net["link"][entry % FLOW_SLOTS] == link_id,
                f"list of link {link_id} holds another link's traffic",
            )
            listed += 1
            entry = int(net["next"][entry % FLOW_SLOTS])
        _require(listed == flows[link_id], f"list of link {link_id} holds {listed} of {flows[link_id]}")
        _check_pairing(state, link_id)


def _check_pairing(state: State, link_id: int) -> None:
    """The heap of a link holds exactly those it holds back, each no earlier than its parent."""
    stack = [int(state.links["heap"][link_id])]
    found = 0
    while stack:
        at = stack.pop()
        if at < 0:
            continue
        found += 1
        net = state.nets[at]
        _require(net["link"][net["bound"]] == link_id, f"heap of link {link_id} holds a task of another")
        child = int(net["child"])
        while child >= 0:
            _require(state.nets["key"][child] >= net["key"], f"heap order of link {link_id}")
            stack.append(child)
            child = int(state.nets["sibling"][child])
    _require(found == state.links["attached"][link_id], f"heap of link {link_id} holds {found}")


def _check_queue(state: State) -> None:
    """The queue of events is a heap and knows where each entry is."""
    count = int(state.counters["heap"][0])
    for at in range(count):
        item = int(state.heap_item[at])
        _require(state.heap_place[item] == at, f"entry {item} of the queue believes to be elsewhere")
        parent = int(state.heap_item[(at - 1) // 2]) if at else item
        key, above = (state.heap_time[item], item), (state.heap_time[parent], parent)
        _require(above <= key, f"queue order at {at}: {above} above {key}")
    now_s = float(state.counters["now_s"][0])
    if count:
        first = state.heap_time[state.heap_item[0]]
        _require(first >= now_s, f"the next event is at {first}, now is {now_s}")
