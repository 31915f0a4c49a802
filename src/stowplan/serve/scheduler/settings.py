"""What the loop can be told; the defaults fit clusters of a few thousand nodes."""

from __future__ import annotations

from dataclasses import dataclass, field

from stowplan.serve.scheduler.queue import QueueTimes
from stowplan.serve.scheduler.turns import AT_ONCE

__all__ = ["SchedulerSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    """Limits and times of the loop; times in seconds.

    Attributes:
        bindings: placements that are carried out at once.
        placements_per_cycle: tasks that a cycle looks at, at most.
        cycle_s: how long a cycle may last; it looks at fewer tasks when it takes longer.
        debounce_s: a cycle begins so long after the first event, so that a burst becomes one cycle.
        longest_pause_s: a cycle that placed nothing is followed by a pause as long, of at most so long.
        unknown_s: a placement whose outcome is not known is tried again, on the same node, after so long.
        statuses: conditions that may wait to be written.
        status_writers: conditions that are written at once.
        status_refresh_s: a pod's condition is not written again within so long, unless it says why the pod
            waits for the first time.
        status_counts_s: the same where only the counts of nodes have changed.
        status_retry_s: a condition that could not be written is tried again after so long.
        first_hold_s, longest_hold_s: how long a node takes no pods after its kubelet refused one for want of
            room; doubled each time.
        searches: pods for which room is sought in one round.
        queue: times of the queue.
    """

    bindings: int = AT_ONCE
    placements_per_cycle: int = 256
    cycle_s: float = 0.04
    debounce_s: float = 0.003
    longest_pause_s: float = 0.25
    unknown_s: float = 15.0
    statuses: int = 10_000
    status_writers: int = 4
    status_refresh_s: float = 10.0
    status_counts_s: float = 300.0
    status_retry_s: float = 5.0
    first_hold_s: float = 5.0
    longest_hold_s: float = 60.0
    searches: int = 16
    queue: QueueTimes = field(default_factory=QueueTimes)
