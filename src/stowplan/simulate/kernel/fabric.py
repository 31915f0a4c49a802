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

from stowplan.core.physics.compile import compiled, inner
from stowplan.simulate.kernel.heaps import pairing_insert, pairing_remove, schedule
from stowplan.simulate.kernel.slots import queue_node, sync_slot
from stowplan.simulate.kernel.tables import FLOW_SLOTS
from stowplan.simulate.kernel.views import (
    Handle,
    counters_of,
    link_queue_of,
    links_of,
    nets_of,
    nodes_of,
    pair_table_of,
    pairs_of,
    scratch_of,
    slots_of,
)

__all__ = [
    "add_net",
    "finish_keys",
    "link_allows",
    "queue_link",
    "rehash_pairs",
    "relax_links",
    "remove_net",
    "resolve_net",
]

_SLACK: Final = 1e-12
"""Relative: capacities and bounds hold up to this."""
_COUPLING: Final = 1e-9
"""Relative change of a rate over a link that is worth solving a node again; what nodes and links agree up
to."""


@inner
def queue_link(state: Handle, link_id: int) -> None:
    """Have the link looked at before time goes on."""
    counters = counters_of(state)[0]
    link_queue = link_queue_of(state)
    links = links_of(state)
    link = links[link_id]
    if link.queued == 0:
        link.queued = 1
        size = link_queue.shape[0]
        link_queue[(counters.link_head + counters.link_queue) % size] = link_id
        counters.link_queue += 1


@inner
def _bring_up(state: Handle, link_id: int, now_s: float) -> None:
    """Advance the link's clock and its count of bytes to `now_s`."""
    links = links_of(state)
    link = links[link_id]
    elapsed = now_s - link.updated_s
    if elapsed > 0.0:
        if link.level < np.inf:
            link.clock += link.level * elapsed
        link.carried += link.usage * elapsed
        link.updated_s = now_s


@inner
def link_allows(state: Handle, net_id: int, without: int) -> tuple[float, int]:
    """Rate that the links but `without` allow, and the flow that decides (−1 = none is full)."""
    nets = nets_of(state)
    links = links_of(state)
    net = nets[net_id]
    allowed = np.inf
    decides = -1
    for flow in range(net.flows):
        link_id = net.link[flow]
        if link_id != without and links[link_id].level < np.inf:
            rate = links[link_id].level * net.weight[flow] / net.bytes[flow]
            if rate < allowed:
                allowed = rate
                decides = flow
    return allowed, decides


@inner
def _add_usage(state: Handle, net_id: int, rate: float) -> None:
    """Add `rate` (may be negative) times its bytes to every link on the way."""
    counters = counters_of(state)[0]
    links = links_of(state)
    nets = nets_of(state)
    net = nets[net_id]
    now_s = counters.now_s
    for flow in range(net.flows):
        link_id = net.link[flow]
        _bring_up(state, link_id, now_s)
        links[link_id].usage += rate * net.bytes[flow]


@inner
def net_rate(state: Handle, net_id: int) -> float:
    """Rate of the task now, work per second."""
    nets = nets_of(state)
    links = links_of(state)
    net = nets[net_id]
    if net.bound < 0:
        return net.rate
    link = links[net.link[net.bound]]
    return link.level * net.weight[net.bound] / net.bytes[net.bound]


@inner
def _refresh_end(state: Handle, link_id: int) -> None:
    """Tell the queue of events when the first task held back by this link ends."""
    links = links_of(state)
    nets = nets_of(state)
    nodes = nodes_of(state)
    link = links[link_id]
    time_s = np.inf
    if link.heap >= 0 and link.level < np.inf and link.level > 0.0:
        left = nets[link.heap].key - link.clock
        time_s = link.updated_s + max(left, 0.0) / link.level
    schedule(state, nodes.shape[0] + link_id, time_s)


@inner
def _pair_of(state: Handle, link_id: int, other: int) -> int:
    """Find or make the pair (link, other)."""
    counters = counters_of(state)[0]
    links = links_of(state)
    pair_table = pair_table_of(state)
    pairs = pairs_of(state)
    link_count = links.shape[0]
    place = ((link_id * link_count + other) * 0x9E3779B1 >> 7) & (pair_table.shape[0] - 1)
    found = pair_table[place]
    while found >= 0:
        if pairs[found].link == link_id and pairs[found].other == other:
            return int(found)
        found = pairs[found].chain
    found = counters.pair_free
    pair = pairs[found]
    counters.pair_free = pair.next
    pair.link = link_id
    pair.other = other
    pair.count = 0
    pair.slope = 0.0
    pair.ratio_max = 0.0
    pair.chain = pair_table[place]
    pair_table[place] = found
    pair.prev = -1
    pair.next = links[link_id].pairs
    if pair.next >= 0:
        pairs[pair.next].prev = found
    links[link_id].pairs = found
    return int(found)


@compiled
def rehash_pairs(state: Handle) -> None:
    """Enter all pairs that links know into an empty table (after it grew)."""
    links = links_of(state)
    pair_table = pair_table_of(state)
    pairs = pairs_of(state)
    link_count = links.shape[0]
    for link_id in range(link_count):
        pair_id = links[link_id].pairs
        while pair_id >= 0:
            pair = pairs[pair_id]
            place = ((link_id * link_count + pair.other) * 0x9E3779B1 >> 7) & (pair_table.shape[0] - 1)
            pair.chain = pair_table[place]
            pair_table[place] = pair_id
            pair_id = pair.next


@inner
def _drop_pair(state: Handle, pair_id: int) -> None:
    """Give an unused pair back to the pool."""
    counters = counters_of(state)[0]
    links = links_of(state)
    pair_table = pair_table_of(state)
    pairs = pairs_of(state)
    pair = pairs[pair_id]
    link_count = links.shape[0]
    place = ((pair.link * link_count + pair.other) * 0x9E3779B1 >> 7) & (pair_table.shape[0] - 1)
    if pair_table[place] == pair_id:
        pair_table[place] = pair.chain
    else:
        at = pair_table[place]
        while pairs[at].chain != pair_id:
            at = pairs[at].chain
        pairs[at].chain = pair.chain
    if pair.prev >= 0:
        pairs[pair.prev].next = pair.next
    else:
        links[pair.link].pairs = pair.next
    if pair.next >= 0:
        pairs[pair.next].prev = pair.prev
    pair.next = counters.pair_free
    counters.pair_free = pair_id


@inner
def _attach(state: Handle, net_id: int, flow: int) -> None:
    """Have the link of `flow` hold the task back; its slot is up to date, the caller adds the usage."""
    counters = counters_of(state)[0]
    links = links_of(state)
    nets = nets_of(state)
    pairs = pairs_of(state)
    slots = slots_of(state)
    net = nets[net_id]
    link_id = net.link[flow]
    link = links[link_id]
    slot = slots[net.row, net.slot]
    _bring_up(state, link_id, counters.now_s)
    net.bound = flow
    net.clock_seen = link.clock
    per_level = net.weight[flow] / net.bytes[flow]
    net.key = link.clock + (slot.remaining - slot.stop_at) / per_level
    link.heap = pairing_insert(nets, link.heap, net_id)
    link.attached += 1
    link.attached_local += slot.local
    link.slope += net.weight[flow]
    link.cap_min = min(link.cap_min, net.cap / per_level)
    for other in range(net.flows):
        if other != flow:
            pair_id = _pair_of(state, link_id, net.link[other])
            pair = pairs[pair_id]
            pair.count += 1
            pair.slope += per_level * net.bytes[other]
            pair.ratio_max = max(pair.ratio_max, per_level * net.bytes[other] / net.weight[other])
            net.pair[other] = pair_id
            share = link.level * per_level * net.bytes[other] / net.weight[other]
            across = links[net.link[other]]
            across.foreign_max = max(across.foreign_max, share)
    slot.cause = link.cause


@inner
def _detach(state: Handle, net_id: int) -> None:
    """Undo `_attach`; the slot is up to date, the caller takes the usage away."""
    links = links_of(state)
    nets = nets_of(state)
    pairs = pairs_of(state)
    slots = slots_of(state)
    net = nets[net_id]
    flow = net.bound
    link = links[net.link[flow]]
    link.heap = pairing_remove(nets, link.heap, net_id)
    link.attached -= 1
    link.attached_local -= slots[net.row, net.slot].local
    link.slope = link.slope - net.weight[flow] if link.attached > 0 else 0.0
    per_level = net.weight[flow] / net.bytes[flow]
    for other in range(net.flows):
        if other != flow:
            pair = pairs[net.pair[other]]
            pair.count -= 1
            if pair.count == 0:
                _drop_pair(state, net.pair[other])
            else:
                pair.slope -= per_level * net.bytes[other]
    net.bound = -1


@inner
def _rebind(state: Handle, net_id: int, flow: int, rate: float) -> None:
    """Move the task to what holds it back now: link of `flow`, or (−1) its node at `rate`."""
    counters = counters_of(state)[0]
    links = links_of(state)
    nets = nets_of(state)
    slots = slots_of(state)
    net = nets[net_id]
    sync_slot(state, net.row, net.slot, counters.now_s)
    slot = slots[net.row, net.slot]
    _add_usage(state, net_id, -net_rate(state, net_id))
    if net.bound >= 0:
        _detach(state, net_id)
    net.rate = rate
    slot.rate = rate
    if flow >= 0:
        _attach(state, net_id, flow)
    else:
        for j in range(net.flows):
            link = links[net.link[j]]
            link.foreign_max = max(link.foreign_max, rate * net.bytes[j] / net.weight[j])
    _add_usage(state, net_id, net_rate(state, net_id))
    for j in range(net.flows):
        queue_link(state, net.link[j])


@inner
def add_net(state: Handle, net_id: int) -> None:
    """Enter the task into the lists of its links, at rate 0."""
    links = links_of(state)
    nets = nets_of(state)
    net = nets[net_id]
    net.bound = -1
    net.rate = 0.0
    net.cap = 0.0
    for flow in range(net.flows):
        link = links[net.link[flow]]
        entry = net_id * FLOW_SLOTS + flow
        net.prev[flow] = -1
        net.next[flow] = link.head
        if link.head >= 0:
            nets[link.head // FLOW_SLOTS].prev[link.head % FLOW_SLOTS] = entry
        link.head = entry
        link.flows += 1


@inner
def remove_net(state: Handle, net_id: int) -> None:
    """Take the task off its links. Its slot must be up to date."""
    links = links_of(state)
    nets = nets_of(state)
    net = nets[net_id]
    _add_usage(state, net_id, -net_rate(state, net_id))
    if net.bound >= 0:
        _detach(state, net_id)
    for flow in range(net.flows):
        link_id = net.link[flow]
        link = links[link_id]
        before = net.prev[flow]
        after = net.next[flow]
        if before >= 0:
            nets[before // FLOW_SLOTS].next[before % FLOW_SLOTS] = after
        else:
            link.head = after
        if after >= 0:
            nets[after // FLOW_SLOTS].prev[after % FLOW_SLOTS] = before
        link.flows -= 1
        queue_link(state, link_id)


@inner
def resolve_net(state: Handle, net_id: int, cap: float) -> None:
    """Take over what the node allows now, and bind the task to whatever is slowest."""
    links = links_of(state)
    nets = nets_of(state)
    net = nets[net_id]
    net.cap = cap
    allowed, flow = link_allows(state, net_id, -1)
    if cap <= allowed:
        if net.bound >= 0 or net.rate != cap:
            _rebind(state, net_id, -1, cap)
    elif flow != net.bound:
        _rebind(state, net_id, flow, allowed)
    else:
        link = links[net.link[flow]]
        link.cap_min = min(link.cap_min, cap * net.bytes[flow] / net.weight[flow])


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
    entry = link.head
    while entry >= 0:
        net_id = entry // FLOW_SLOTS
        flow = entry % FLOW_SLOTS
        net = nets[net_id]
        if net.bound == flow and nodes[net.row].slack == 0:
            slot = slots[net.row, net.slot]
            if slot.local == 1:
                rate = link.level * net.weight[flow] / net.bytes[flow]
                if abs(rate - slot.cap_used) > _COUPLING * rate:
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
    _bring_up(state, link_id, now_s)
    change = level - link.level
    link.level = level
    link.usage += change * link.slope
    pair_id = link.pairs
    while pair_id >= 0:
        pair = pairs[pair_id]
        other = links[pair.other]
        _bring_up(state, pair.other, now_s)
        other.usage += change * pair.slope
        other.foreign_max = max(other.foreign_max, level * pair.ratio_max)
        if other.level < np.inf or other.usage > other.capacity * (1.0 + _SLACK):
            queue_link(state, pair.other)
        pair_id = pair.next
    _refresh_end(state, link_id)
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
    _bring_up(state, link_id, now_s)
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
            if here >= min(allowed, net.cap):
                _rebind(state, net_id, other if allowed < net.cap else -1, min(allowed, net.cap))
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
            if level * per_level < target:
                _rebind(state, net_id, flow, level * per_level)
                queue_node(state, net.row)
            elif net_rate(state, net_id) > target * (1.0 + _SLACK):
                # This link counts on another to hold the task back: let it, so that what follows there shows
                # here.
                _rebind(state, net_id, other if allowed < net.cap else -1, target)
                queue_node(state, net.row)
        rate = net_rate(state, net_id)
        usage += rate * net.bytes[flow]
        if net.bound == flow:
            link.cap_min = min(link.cap_min, net.cap / per_level)
        else:
            link.foreign_max = max(link.foreign_max, rate / per_level)
        entry = net.next[flow]
    link.usage = usage
    _refresh_end(state, link_id)


@inner
def _relax(state: Handle, link_id: int) -> None:
    """Put one link right: move its level if nobody changes sides, else fill it anew."""
    counters = counters_of(state)[0]
    links = links_of(state)
    link = links[link_id]
    if link.flows == 0:
        _bring_up(state, link_id, counters.now_s)
        link.clock = 0.0
        link.usage = 0.0
        link.slope = 0.0
        link.level = np.inf
        link.foreign_max = 0.0
        link.cap_min = np.inf
        _refresh_end(state, link_id)
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
        _refresh_end(state, link_id)


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
        _rebind(state, net_id, -1, factor * net_rate(state, net_id))
        queue_node(state, nets[net_id].row)
        entry = nets[net_id].next[flow]
    link.level = np.inf
    _refresh_end(state, link_id)


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
    _bring_up(state, link_id, counters.now_s)
    if link.heap < 0:
        return -1
    net = nets[link.heap]
    slot = slots[net.row, net.slot]
    left = net.key - link.clock
    per_level = net.weight[net.bound] / net.bytes[net.bound]
    if left <= link.level * room or left * per_level <= 1e-11 * slot.work_s:
        return int(link.heap)
    return -1
