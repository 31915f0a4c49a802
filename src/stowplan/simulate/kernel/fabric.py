"""Links: who is held back by which, at what level, solved link by link until nothing changes.

Tasks with traffic over shared links couple nodes. Each link has a level θ (bytes per second and weight); a
task runs at the smallest of what its node allows and θ·weight/bytes over its links (bottleneck max fairness,
as inside a node). What is particular here is that a link may carry thousands of tasks and change at every
event. So:

* Tasks held back by the same link keep their order of completion whatever its level does. They wait in the
  link's heap, keyed on the link's clock ∫θ dt, and a new level costs nothing per task (virtual time, as in
  fair queueing: Demers, Keshav and Shenker, 1989).
* `pairs` sum up how a link's level moves the usage of the other links on the way, so a change costs the
  number of links that its tasks cross, not of tasks.
* Bounds on both sides (`foreign_max`, `cap_min`) tell when a level may move without anybody changing sides.
  Only when one is crossed is the link filled anew from its list (`_fill`), which also makes the bounds exact
  again.

The order of work is a queue, first in first out, so it is the same in every run.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from stowplan.core.physics.compile import inner
from stowplan.simulate.kernel.binding import rebind
from stowplan.simulate.kernel.links import bring_up, link_allows, net_rate, queue_link, refresh_end
from stowplan.simulate.kernel.profiles import FLOW_SLOTS
from stowplan.simulate.kernel.slots import queue_node
from stowplan.simulate.kernel.views import (
    Handle,
    counters_of,
    link_queue_of,
    links_of,
    nets_of,
    nodes_of,
    pairs_of,
    scratch_of,
    slots_of,
)

__all__ = ["finish_keys", "relax_links"]

_SLACK: Final = 1e-12
"""Relative: capacities and bounds hold up to this."""
_COUPLING: Final = 1e-9
"""Relative change of a rate over a link that is worth solving a node again: what nodes and links agree to."""
_PATIENCE: Final = 50
"""Rounds between nodes and links after which they need agree to `_COARSE` only."""
_COARSE: Final = 1e-7


@inner
def _touch_nodes(state: Handle, link_id: int) -> None:
    """Queue the nodes whose other tasks feel that those held back here go at another rate."""
    links = links_of(state)
    nets = nets_of(state)
    nodes = nodes_of(state)
    slots = slots_of(state)
    link = links[link_id]
    if link.attached_local == 0:
        return
    coupling = _COUPLING if counters_of(state)[0].rounds < _PATIENCE else _COARSE
    entry = link.head
    while entry >= 0:
        net_id = entry // FLOW_SLOTS
        flow = entry % FLOW_SLOTS
        net = nets[net_id]
        if net.bound == flow and nodes[net.row].slack == 0:
            slot = slots[net.row, net.slot]
            if slot.local == 1:
                rate = link.level * net.weight[flow] / net.bytes[flow]
                if abs(rate - slot.cap_used) > coupling * rate:
                    queue_node(state, net.row)
        entry = net.next[flow]


@inner
def _shift(state: Handle, link_id: int, level: float) -> None:
    """Give the link another level with the same tasks held back by it."""
    counters = counters_of(state)[0]
    links = links_of(state)
    pairs = pairs_of(state)
    link = links[link_id]
    now_s = counters.now_s
    bring_up(state, link_id, now_s)
    change = level - link.level
    link.level = level
    link.usage += change * link.slope
    pair_id = link.pairs
    while pair_id >= 0:
        pair = pairs[pair_id]
        other = links[pair.other]
        bring_up(state, pair.other, now_s)
        other.usage += change * pair.slope
        other.foreign_max = max(other.foreign_max, level * pair.ratio_max)
        if other.level < np.inf or other.usage > other.capacity * (1.0 + _SLACK):
            queue_link(state, pair.other)
        pair_id = pair.next
    refresh_end(state, link_id)
    _touch_nodes(state, link_id)


@inner
def _level_of(state: Handle, link_id: int) -> float:
    """Fill the link by what its tasks could use given everything else; inf when all fits."""
    links = links_of(state)
    nets = nets_of(state)
    scratch = scratch_of(state)
    link = links[link_id]
    wanted = scratch[0]
    weight = scratch[1]
    count = 0
    total = 0.0
    total_weight = 0.0
    entry = link.head
    while entry >= 0:
        net_id = entry // FLOW_SLOTS
        flow = entry % FLOW_SLOTS
        net = nets[net_id]
        allowed, _ = link_allows(state, net_id, link_id)
        wanted[count] = min(allowed, net.cap) * net.bytes[flow]
        weight[count] = net.weight[flow]
        total += wanted[count]
        total_weight += weight[count]
        count += 1
        entry = net.next[flow]
    if total <= link.capacity * (1.0 + _SLACK):
        return np.inf
    level = link.capacity / total_weight
    satisfied = -1
    while True:
        rest = link.capacity
        open_weight = 0.0
        below = 0
        for i in range(count):
            if wanted[i] <= level * weight[i]:
                rest -= wanted[i]
                below += 1
            else:
                open_weight += weight[i]
        if below == satisfied or open_weight <= 0.0:
            return level
        satisfied = below
        level = max(level, rest / open_weight)


@inner
def _fill(state: Handle, link_id: int) -> None:
    """Find the link's level from its list, and let tasks change sides where they must."""
    counters = counters_of(state)[0]
    links = links_of(state)
    nets = nets_of(state)
    link = links[link_id]
    now_s = counters.now_s
    bring_up(state, link_id, now_s)
    level = _level_of(state, link_id)
    # Those that leave go first, at the old level; then the level moves; then those that come, at the new one.
    entry = link.head
    while entry >= 0:
        net_id = entry // FLOW_SLOTS
        flow = entry % FLOW_SLOTS
        net = nets[net_id]
        if net.bound == flow:
            allowed, other = link_allows(state, net_id, link_id)
            here = level * net.weight[flow] / net.bytes[flow]
            # Ties stay where they are: rounding must not send a task to and fro.
            if level == np.inf or here > min(allowed, net.cap) * (1.0 + _SLACK):
                rebind(state, net_id, other if allowed < net.cap else -1, min(allowed, net.cap))
                queue_node(state, net.row)
        entry = net.next[flow]
    if link.attached > 0:
        if level != link.level:
            _shift(state, link_id, level)
    else:
        link.level = level
    link.foreign_max = 0.0
    link.cap_min = np.inf
    usage = 0.0
    entry = link.head
    while entry >= 0:
        net_id = entry // FLOW_SLOTS
        flow = entry % FLOW_SLOTS
        net = nets[net_id]
        per_level = net.weight[flow] / net.bytes[flow]
        if net.bound != flow:
            allowed, other = link_allows(state, net_id, link_id)
            target = min(allowed, net.cap)
            if level * per_level < target * (1.0 - _SLACK):
                rebind(state, net_id, flow, level * per_level)
                queue_node(state, net.row)
            elif net_rate(state, net_id) > target * (1.0 + _SLACK):
                # This link counts on another to hold the task back: let it, so that what follows there shows
                # here.
                rebind(state, net_id, other if allowed < net.cap else -1, target)
                queue_node(state, net.row)
        rate = net_rate(state, net_id)
        usage += rate * net.bytes[flow]
        if net.bound == flow:
            link.cap_min = min(link.cap_min, net.cap / per_level)
        else:
            link.foreign_max = max(link.foreign_max, rate / per_level)
        entry = net.next[flow]
    link.usage = usage
    refresh_end(state, link_id)


@inner
def _relax(state: Handle, link_id: int) -> None:
    """Put one link right: move its level if nobody changes sides, else fill it anew."""
    counters = counters_of(state)[0]
    links = links_of(state)
    link = links[link_id]
    if link.flows == 0:
        bring_up(state, link_id, counters.now_s)
        link.clock = 0.0
        link.usage = 0.0
        link.slope = 0.0
        link.level = np.inf
        link.foreign_max = 0.0
        link.cap_min = np.inf
        refresh_end(state, link_id)
        return
    if link.level == np.inf:
        if link.usage > link.capacity * (1.0 + _SLACK):
            _fill(state, link_id)
        return
    if link.attached == 0 or link.capacity == np.inf:
        _fill(state, link_id)
        return
    level = (link.capacity - (link.usage - link.level * link.slope)) / link.slope
    if not link.foreign_max * (1.0 - _SLACK) <= level <= link.cap_min * (1.0 + _SLACK):
        _fill(state, link_id)
    elif abs(level - link.level) > _SLACK * level:
        _shift(state, link_id, level)
    else:
        refresh_end(state, link_id)


@inner
def _scale_down(state: Handle, link_id: int) -> None:
    """Slow all tasks of an overloaded link evenly: the fallback when levels do not settle."""
    links = links_of(state)
    nets = nets_of(state)
    link = links[link_id]
    factor = link.capacity / link.usage
    entry = link.head
    while entry >= 0:
        net_id = entry // FLOW_SLOTS
        flow = entry % FLOW_SLOTS
        rebind(state, net_id, -1, factor * net_rate(state, net_id))
        queue_node(state, nets[net_id].row)
        entry = nets[net_id].next[flow]
    link.level = np.inf
    refresh_end(state, link_id)


@inner
def relax_links(state: Handle, sweeps: int) -> None:
    """Work off the queue of links; returns with every link within its capacity.

    The work is bounded by `sweeps` per link that was queued; beyond it, what is overloaded is scaled down,
    and the failure is counted.
    """
    counters = counters_of(state)[0]
    link_queue = link_queue_of(state)
    links = links_of(state)
    size = link_queue.shape[0]
    distinct = 0
    done = 0
    counters.settlings += 1
    while counters.link_queue > 0:
        link_id = int(link_queue[counters.link_head])
        counters.link_head = (counters.link_head + 1) % size
        counters.link_queue -= 1
        link = links[link_id]
        link.queued = 0
        if link.seen != counters.settlings:
            link.seen = counters.settlings
            distinct += 1
        done += 1
        if done <= sweeps * distinct:
            _relax(state, link_id)
        elif link.usage > link.capacity * (1.0 + _SLACK):
            counters.failed += 1
            _scale_down(state, link_id)
    counters.relaxations += done


@inner
def finish_keys(state: Handle, link_id: int, room: float) -> int:
    """Give the first task of the link whose end has come (within `room` seconds), −1 when there is none."""
    counters = counters_of(state)[0]
    links = links_of(state)
    nets = nets_of(state)
    slots = slots_of(state)
    link = links[link_id]
    bring_up(state, link_id, counters.now_s)
    if link.heap < 0:
        return -1
    net = nets[link.heap]
    slot = slots[net.row, net.slot]
    left = net.key - link.clock
    per_level = net.weight[net.bound] / net.bytes[net.bound]
    if left <= link.level * room or left * per_level <= 1e-11 * slot.work_s:
        return int(link.heap)
    return -1
