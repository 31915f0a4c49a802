"""One link at a time: its clock, its usage, what it allows, when its first task ends."""

from __future__ import annotations

import numpy as np

from stowplan.core.physics.compile import inner
from stowplan.simulate.kernel.heaps import schedule
from stowplan.simulate.kernel.views import Handle, counters_of, link_queue_of, links_of, nets_of, nodes_of

__all__ = ["add_usage", "bring_up", "link_allows", "net_rate", "queue_link", "refresh_end"]


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
def bring_up(state: Handle, link_id: int, now_s: float) -> None:
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
def add_usage(state: Handle, net_id: int, rate: float) -> None:
    """Add `rate` (may be negative) times its bytes to every link on the way."""
    counters = counters_of(state)[0]
    links = links_of(state)
    nets = nets_of(state)
    net = nets[net_id]
    now_s = counters.now_s
    for flow in range(net.flows):
        link_id = net.link[flow]
        bring_up(state, link_id, now_s)
        links[link_id].usage += rate * net.bytes[flow]


@inner
def refresh_end(state: Handle, link_id: int) -> None:
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
