"""Real nodes with real pods, each held to a share of this machine, and delay between them."""

from testbed.nodes.delay import Counts, DelayRelay, delay_between
from testbed.nodes.limits import DiskLimit
from testbed.nodes.node import RunningNode, start

__all__ = ["Counts", "DelayRelay", "DiskLimit", "RunningNode", "delay_between", "start"]
