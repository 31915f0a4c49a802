"""The workload a cluster serves, as far as it is known: the pods that are bound and those that have come.

Rules that weigh a placement by the pods still to come need to know what those are like. Where nobody tells
them, they take what they have seen, and look anew as that doubles, so that the work is spread thin.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from stowplan.core.domain import PodShape
from stowplan.core.policy.interface import CycleView

__all__ = ["SeenWorkload"]


class SeenWorkload:
    """Counts pods by shape over the cycles of one state."""

    def __init__(self) -> None:
        """Have seen nothing."""
        self._counts: Counter[PodShape] = Counter()
        self._until_s = -np.inf
        self._reported = 0

    def take_in(self, view: CycleView, *, anew: bool) -> Counter[PodShape] | None:
        """Count what came since the last cycle.

        Args:
            view: the cycle.
            anew: start over, from the pods that are bound: the state is another one.

        Returns:
            All counts, if there are twice as many pods as when they were last returned; else None.
        """
        if anew:
            self._counts = Counter(pod.shape for pod, _ in view.state.pods.values())
            self._until_s, self._reported = -np.inf, 0
        self._counts.update(p.task.shape for p in view.pending if p.ready_s > self._until_s)
        self._until_s = view.now_s
        total = self._counts.total()
        if total < 2 * self._reported or total == 0:
            return None
        self._reported = total
        return self._counts
