"""What the kernel reports and what it wakes the scheduler for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, IntFlag

import numpy as np
from numpy.typing import NDArray

__all__ = ["ChangeKind", "EventKind", "KernelEvents", "Wake"]


class EventKind(IntEnum):
    """What happened; the closed vocabulary of `KernelEvents.kind`."""

    CHANGE = 0
    """An entry of the schedule took effect (node state, capacity, link); `task` is the entry's index."""
    FINISHED = 1
    """The task completed its last phase and left the node."""
    OOM_KILLED = 2
    """Anonymous memory passed the task's own limit; the task was killed and left the node."""
    EVICTED = 3
    """Anonymous memory of the node passed allocatable; this task, most above its request, was killed and
    left."""
    PHASE_DONE = 4
    """The task went on to its next phase."""
    STARTED = 5
    """A start that was put off (`start_s` in the future) took effect."""


class Wake(IntFlag):
    """Kinds of event at which `advance` returns; bit k is `EventKind` k."""

    NOTHING = 0
    CHANGE = 1 << EventKind.CHANGE
    FINISHED = 1 << EventKind.FINISHED
    OOM_KILLED = 1 << EventKind.OOM_KILLED
    EVICTED = 1 << EventKind.EVICTED
    PHASE_DONE = 1 << EventKind.PHASE_DONE
    STARTED = 1 << EventKind.STARTED
    SCHEDULER = CHANGE | FINISHED | OOM_KILLED | EVICTED
    """What a scheduler must see: a slot came free or a node changed."""


class ChangeKind(IntEnum):
    """What an entry of the schedule changes; the closed vocabulary of `KernelSchedule.kind`."""

    NODE_DOWN = 0
    """The node stands still; its tasks keep their place and make no progress."""
    NODE_UP = 1
    """The node runs again."""
    NODE_CAPACITY = 2
    """Resource `column` of node `index` is multiplied by `factor` (of its nominal value): storage drift,
    throttling."""
    LINK_CAPACITY = 3
    """Link `index` is multiplied by `factor` (of its nominal value): a broken PCIe link, a congested
    uplink."""


@dataclass(frozen=True, slots=True)
class KernelEvents:
    """Events of one `advance`, in their total order (time, priority, sequence). Arrays of equal length n."""

    time_s: NDArray[np.float64]
    """(n,) simulated seconds."""
    kind: NDArray[np.int64]
    """(n,) `EventKind`."""
    task: NDArray[np.int64]
    """(n,) task id as `start` gave it; for CHANGE the index in the schedule."""
    row: NDArray[np.int64]
    """(n,) node row; −1 for a change of a link."""

    def __len__(self) -> int:
        """Count the events."""
        return int(self.time_s.shape[0])
