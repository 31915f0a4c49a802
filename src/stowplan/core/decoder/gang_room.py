"""Which pending tasks make up each gang, and gangs that need not be tried because they cannot fit.

Trying a gang costs a placement for each of its tasks, and as many to take back. Most that wait need not be
tried: there are fewer free GPUs in the right portions than it has tasks, or a gang of the same tasks that was
no larger has just failed. Room only shrinks in a cycle, so what failed fails again, unless pod affinity can
come to be met.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from stowplan.core.constraints import CompiledFilters
from stowplan.core.decoder.outcomes import Infeasible, Wait
from stowplan.core.domain import ClusterState, PendingTask, PodShape

__all__ = ["PREFERS_TO_WAIT", "GangRoom"]

PREFERS_TO_WAIT: Final = "the policy prefers to wait"
"""Why a task waits that its policy gave no node; it says nothing about other tasks of its shape."""


class GangRoom:
    """The gangs of one cycle. Every gang is taken once."""

    def __init__(self, pending: Sequence[PendingTask], order: Iterable[int]) -> None:
        """Gather the tasks of each gang in the order of the plan."""
        self._members: dict[tuple[str, str], list[int]] = {}
        for index in order:
            if 0 <= index < len(pending):
                key = pending[index].gang_key
                if key is not None:
                    self._members.setdefault(key, []).append(index)
        self._failed: dict[PodShape, tuple[int, Wait | Infeasible]] = {}

    def take(self, key: tuple[str, str]) -> list[int]:
        """Return the indexes of a gang's pending tasks; empty the second time."""
        return self._members.pop(key, [])

    def known_refusal(
        self,
        tasks: Sequence[PendingTask],
        state: ClusterState,
        filters_of: Callable[[PodShape], CompiledFilters],
    ) -> Wait | Infeasible | None:
        """Return why the gang of `tasks` cannot be placed; None when it must be tried."""
        gang = tasks[0].task.gang
        size = 0 if gang is None else gang.size
        if len(tasks) != size:
            return Wait(f"{len(tasks)} of its tasks are pending")
        shape = tasks[0].task.shape
        if any(task.task.shape != shape for task in tasks[1:]):
            return None
        failed = self._failed.get(shape)
        if failed is not None and failed[0] <= size:
            return failed[1]
        if shape.gpu is None:
            return None
        filters = filters_of(shape)
        usable = (state.gpu_free_milli >= shape.gpu.milli).sum(axis=1) // shape.gpu.count
        places = int(usable[filters.feasible].sum())
        if 0 < places < size:
            return Wait(f"the free GPUs take {places} of its tasks", filters.counts())
        return None

    def note_refusal(self, tasks: Sequence[PendingTask], refusal: Wait | Infeasible) -> None:
        """Remember that the gang of `tasks` could not be placed, for want of room."""
        shape = tasks[0].task.shape
        if refusal.reason == PREFERS_TO_WAIT:
            return
        if not shape.affinity and all(task.task.shape == shape for task in tasks[1:]):
            size = len(tasks)
            known = self._failed.get(shape)
            if known is None or size < known[0]:
                self._failed[shape] = (size, refusal)
