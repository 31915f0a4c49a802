"""What holds a task with traffic back: one of its links, or its own node; and how it changes sides."""

from __future__ import annotations

from typing import Final

from stowplan.core.physics.compile import inner
from stowplan.simulate.kernel.heaps import pairing_insert, pairing_remove
from stowplan.simulate.kernel.links import add_usage, bring_up, link_allows, net_rate, queue_link
from stowplan.simulate.kernel.pairs import drop_pair, pair_of
from stowplan.simulate.kernel.profiles import FLOW_SLOTS
from stowplan.simulate.kernel.slots import sync_slot
from stowplan.simulate.kernel.views import Handle, counters_of, links_of, nets_of, pairs_of, slots_of

__all__ = ["add_net", "rebind", "remove_net", "resolve_net"]

_TIE: Final = 1e-12
"""Relative: a task that its link and its node hold back alike stays with its link."""


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
    bring_up(state, link_id, counters.now_s)
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
            pair_id = pair_of(state, link_id, net.link[other])
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
                drop_pair(state, net.pair[other])
            else:
                pair.slope -= per_level * net.bytes[other]
    net.bound = -1


@inner
def rebind(state: Handle, net_id: int, flow: int, rate: float) -> None:
    """Move the task to what holds it back now: link of `flow`, or (−1) its node at `rate`."""
    counters = counters_of(state)[0]
    links = links_of(state)
    nets = nets_of(state)
    slots = slots_of(state)
    net = nets[net_id]
    sync_slot(state, net.row, net.slot, counters.now_s)
    slot = slots[net.row, net.slot]
    add_usage(state, net_id, -net_rate(state, net_id))
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
    add_usage(state, net_id, net_rate(state, net_id))
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
    add_usage(state, net_id, -net_rate(state, net_id))
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
    if flow >= 0 and flow == net.bound and cap > allowed * (1.0 - _TIE):
        link = links[net.link[flow]]
        link.cap_min = min(link.cap_min, cap * net.bytes[flow] / net.weight[flow])
    elif cap <= allowed:
        if net.bound >= 0 or net.rate != cap:
            rebind(state, net_id, -1, cap)
    else:
        rebind(state, net_id, flow, allowed)
