"""What is due at which simulated time, in a total order: time, then the order in which it was planned."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable

__all__ = ["Timeline"]


class Timeline:
    """A heap of actions. An action takes the time at which it is due and may plan further ones."""

    __slots__ = ("_heap", "_planned")

    def __init__(self) -> None:
        """Start with nothing planned."""
        self._heap: list[tuple[float, int, Callable[[float], None]]] = []
        self._planned = 0

    def __len__(self) -> int:
        """Count what is planned."""
        return len(self._heap)

    @property
    def next_s(self) -> float:
        """When the next action is due; inf when there is none."""
        return self._heap[0][0] if self._heap else math.inf

    def plan(self, time_s: float, action: Callable[[float], None]) -> None:
        """Have `action` called at `time_s`."""
        heapq.heappush(self._heap, (time_s, self._planned, action))
        self._planned += 1

    def run_due(self, now_s: float) -> int:
        """Call everything due up to `now_s`, what it plans for then included; return how many were called."""
        count = 0
        while self._heap and self._heap[0][0] <= now_s:
            time_s, _, action = heapq.heappop(self._heap)
            action(time_s)
            count += 1
        return count
