"""Names of the physics: which resources are shared, what can slow a task, how far apart two ends are.

The numbers are columns of arrays, so they are part of the contract between physics, simulator and encoder.
"""

from __future__ import annotations

from enum import IntEnum

__all__ = ["CAUSE_COUNT", "RESOURCE_COUNT", "Cause", "LinkClass", "Resource"]


class Resource(IntEnum):
    """A shared resource of one node: the column of a demand or capacity array. Units are per second."""

    CPU = 0
    """Cores."""
    DRAM = 1
    """Bytes per second over the memory controllers."""
    DISK = 2
    """Bytes per second, reads and writes together."""
    DISK_OPS = 3
    """Operations per second, reads and writes together."""
    NIC_UP = 4
    """Bytes per second sent."""
    NIC_DOWN = 5
    """Bytes per second received."""
    PCIE = 6
    """Bytes per second through a PCIe root complex."""


class Cause(IntEnum):
    """What took time from a task: the column of an attribution array, in seconds."""

    CPU = 0
    """Fewer cores than asked: shared by weight, or held back by the quota."""
    DRAM_BANDWIDTH = 1
    """Memory bandwidth shared with others."""
    DRAM_LATENCY = 2
    """Memory answers later because others load it (below saturation too)."""
    DISK = 3
    """Disk bytes or operations shared, an empty burst bucket, or a degraded disk."""
    NETWORK = 4
    """Own NIC, rack or zone link shared or degraded."""
    PCIE = 5
    """PCIe root complex shared or degraded."""
    GPU = 6
    """Other tasks on the same GPU."""
    MACHINE = 7
    """The machine itself runs this kind of task slower (negative: faster) than the reference."""
    NODE = 8
    """The node stood still (down, or cut off)."""


class LinkClass(IntEnum):
    """How far apart two communicating ends are, nearest first: five speeds of one all-reduce."""

    SAME_ROOT_COMPLEX = 0
    SAME_NODE = 1
    SAME_RACK = 2
    SAME_ZONE = 3
    OTHER_ZONE = 4


RESOURCE_COUNT = len(Resource)
CAUSE_COUNT = len(Cause)
