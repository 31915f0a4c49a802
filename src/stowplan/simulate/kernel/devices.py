"""What a node's devices look like from outside, now: the disk's rates and waiting time, who waits for a core.

A disk that is full is shared by outstanding requests, so whoever it holds back waits as long as all of them:
their outstanding requests over their rate (Little's law, `core.physics.disk`). A disk that is not full serves
one request after the other, each in the time that the disk's rates allow. Nothing is written.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.physics.compile import compiled
from stowplan.core.physics.disk import await_s
from stowplan.core.physics.vocabulary import Cause, Resource
from stowplan.simulate.kernel.links import net_rate
from stowplan.simulate.kernel.views import Handle, nodes_of, slots_of

__all__ = ["DEVICE_COLUMNS", "read_devices"]

DEVICE_COLUMNS: Final = 5

_DISK: Final = int(Resource.DISK)
_DISK_OPS: Final = int(Resource.DISK_OPS)
_DISK_CAUSE: Final = int(Cause.DISK)
_CPU_CAUSE: Final = int(Cause.CPU)
_BUCKET_DUST: Final = 1e-9  # share of the bucket that counts as empty, as where rates are solved


@compiled
def read_devices(state: Handle, found: NDArray[np.float64]) -> None:
    """Fill in what every node's devices do now.

    Args:
        state: the kernel's arrays, only read.
        found: (N, DEVICE_COLUMNS), overwritten: bytes and operations per second that the disk can serve, mean
            wait of a request in seconds (NaN: there is none), requests that wait or are served, 1 where some
            task waits for a core, else 0.
    """
    nodes = nodes_of(state)
    slots = slots_of(state)
    for row in range(nodes.shape[0]):
        node = nodes[row]
        left = node.factor[_DISK]
        # Whether the bucket is empty is known since the last solve: that it runs empty is an event.
        bursts = node.disk_base >= node.nominal[_DISK] or node.bucket_level > _BUCKET_DUST * node.bucket_size
        disk = (node.nominal[_DISK] if bursts else node.disk_base) * left
        operations = node.nominal[_DISK_OPS] * left * node.factor[_DISK_OPS]
        held = 0.0
        held_rate = 0.0
        moved = 0.0
        rate = 0.0
        waits = 0.0
        for place in range(node.count):
            slot = slots[row, place]
            work = net_rate(state, slot.net) if slot.net >= 0 else slot.rate
            if slot.cause == _CPU_CAUSE:
                waits = 1.0
            own = work * slot.disk * slot.operations_per_byte
            if own <= 0.0:
                continue
            moved += work * slot.disk
            rate += own
            if slot.cause == _DISK_CAUSE:
                held += slot.disk_weight * slot.operations_per_byte
                held_rate += own
        wait = np.nan
        if held_rate > 0.0:
            wait = await_s(held, held_rate)
        elif rate > 0.0:
            wait = max(moved / (rate * disk), 1.0 / operations)
        found[row, 0] = disk
        found[row, 1] = operations
        found[row, 2] = wait
        found[row, 3] = held + (rate - held_rate) * wait if rate > 0.0 else 0.0
        found[row, 4] = waits
