"""What happened, attempt by attempt: the raw record of a run that all results are computed from.

An attempt is one placement of a task. Attempts are appended when placed and closed when they end; columns are
plain arrays, so a run of a million attempts costs tens of megabytes and no objects.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

__all__ = ["AttemptStatus", "Ledger"]


class AttemptStatus(IntEnum):
    """How an attempt stands or ended; the closed vocabulary of the column `status` (in lower case)."""

    RUNNING = 0
    """Placed and not ended: only in partial results and at the horizon."""
    DONE = 1
    OOM_KILLED = 2
    """It passed its own memory limit."""
    EVICTED = 3
    """The node ran out of memory and this task was the one most above its request."""
    NODE_LOST = 4
    """Its node fell silent for too long, rebooted, or was taken back."""


class Ledger:
    """Columns of attempts; an attempt is named by its position."""

    __slots__ = ("attempt", "ended_s", "kernel_id", "node", "placed_s", "ready_s", "status", "task")

    def __init__(self) -> None:
        """Start with no attempt."""
        self.task = array("q")
        self.attempt = array("q")
        self.node = array("q")
        self.kernel_id = array("q")
        self.ready_s = array("d")
        self.placed_s = array("d")
        self.ended_s = array("d")
        self.status = array("b")

    def __len__(self) -> int:
        """Count the attempts."""
        return len(self.task)

    def open(
        self,
        *,
        now_s: float,
        tasks: Sequence[int],
        attempts: Sequence[int],
        nodes: Sequence[int],
        kernel_ids: Sequence[int],
        ready_s: Sequence[float],
    ) -> None:
        """Append the attempts of one cycle, all placed at `now_s`; the sequences are of equal length."""
        count = len(tasks)
        self.task.extend(tasks)
        self.attempt.extend(attempts)
        self.node.extend(nodes)
        self.kernel_id.extend(kernel_ids)
        self.ready_s.extend(ready_s)
        self.placed_s.extend([now_s] * count)
        self.ended_s.extend([math.nan] * count)
        self.status.extend([AttemptStatus.RUNNING] * count)

    def close(self, attempt: int, time_s: float, status: AttemptStatus) -> None:
        """Note that the attempt at position `attempt` ended."""
        self.ended_s[attempt] = time_s
        self.status[attempt] = status

    def column(self, name: str) -> NDArray[np.generic]:
        """Return a copy of a column, shape (attempts,): int64, float64, or int8 for `status`."""
        values: array[int] | array[float] = getattr(self, name)
        return np.array(values)
