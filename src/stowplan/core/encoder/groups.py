"""Pending tasks that are alike, as one: a fan-out of thousands is encoded and scored once.

Alike are tasks of one submitted workflow with the same template, gang, pod shape, work, files and expected
duration that stand at the same depth, with as many parents and children and as long a way to an exit. What a
pending task is alike to is found once; a cycle then costs a look-up for each.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain import PendingTask, Task, Workflow, WorkflowProgress
from stowplan.core.encoder.workflows import Workflows

__all__ = ["Grouped", "Groups", "TaskGroup"]

_MOST: Final = 4096  # remembered, unless more are pending


class TaskGroup:
    """Tasks that are alike.

    Attributes:
        task: the task, as all of them have it.
        progress: of their workflow.
        first: the pending task that came first of those of this cycle.
        members: indexes of them all into the pending tasks of this cycle, in order of arrival.
        cycle: in which `first` and `members` were found.
        rank_s: upward rank of the first, in this cycle.
        asked: what `tasks` keeps: float32 (RESOURCE_COUNT + 2,), what the task asks for,
        own: the same: float64 (columns,), NaN where it is not a matter of the task alone.
        freed: what `tasks` keeps: how many children the first one frees,
        freed_as_of: which task that is, and how many tasks of its workflow were open then.
        log_factors: what `tasks` keeps: logs of the time factors by machine type,
        types: of which types.
    """

    __slots__ = (
        "asked",
        "cycle",
        "first",
        "freed",
        "freed_as_of",
        "log_factors",
        "members",
        "own",
        "progress",
        "rank_s",
        "task",
        "types",
    )

    def __init__(self, first: PendingTask) -> None:
        """Begin without members."""
        self.task: Task = first.task
        self.progress: WorkflowProgress = first.progress
        self.first = first
        self.members: list[int] = []
        self.cycle = -1
        self.rank_s = 0.0
        self.own: NDArray[np.float64] | None = None
        self.asked: NDArray[np.float32] = np.empty(0, np.float32)
        self.freed = 0
        self.freed_as_of: tuple[int, int] = (-1, -1)
        self.log_factors: NDArray[np.float64] = np.empty(0)
        self.types: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Grouped:
    """The pending tasks of a cycle in groups.

    Attributes:
        groups: the groups to encode, in order.
        group_of: intp (P,); place in `groups` of each pending task, −1 where its group must wait.
        count: how many groups there are, with those that must wait.
    """

    groups: list[TaskGroup]
    group_of: NDArray[np.intp]
    count: int


class Groups:
    """Finds groups, and remembers them between cycles."""

    def __init__(self, workflows: Workflows, most: int) -> None:
        """Encode at most `most` groups of a cycle."""
        self._workflows = workflows
        self._most = most
        self._cycle = 0
        self._known: dict[int, tuple[PendingTask, Workflow, NDArray[np.float64], TaskGroup]] = {}
        self._alike: dict[tuple[Hashable, ...], list[TaskGroup]] = {}

    def of(self, pending: Sequence[PendingTask]) -> Grouped:
        """Return the groups of `pending`, which is in order of arrival.

        They are ordered by priority class, least remaining work of the workflow, longest way to an exit, and
        arrival.
        """
        known = self._known
        if len(known) > max(_MOST, 4 * len(pending)):
            known.clear()
            self._alike.clear()
        self._cycle += 1
        cycle = self._cycle
        found: list[TaskGroup] = []
        for place, task in enumerate(pending):
            held = known.get(id(task))
            progress = task.progress
            if (
                held is None
                or held[0] is not task
                or held[1] is not progress.workflow
                or held[2] is not progress.upward_rank_s
            ):
                held = (task, progress.workflow, progress.upward_rank_s, self._find(task))
                known[id(task)] = held
            group = held[3]
            if group.cycle == cycle:
                group.members.append(place)
            else:
                group.cycle, group.first, group.members = cycle, task, [place]
                found.append(group)
        chosen = self._choose(found)
        group_of = [-1] * len(pending)
        for number, group in enumerate(chosen):
            for place in group.members:
                group_of[place] = number
        return Grouped(chosen, np.array(group_of, dtype=np.intp), len(found))

    def _choose(self, found: list[TaskGroup]) -> list[TaskGroup]:
        priority = np.array([group.task.shape.priority for group in found], dtype=np.int64)
        remaining_s = np.array([group.progress.remaining_work_s for group in found], dtype=np.float64)
        for group in found:
            group.rank_s = group.progress.upward_rank_s.item(group.first.index)
        rank_s = np.array([group.rank_s for group in found], dtype=np.float64)
        order = np.lexsort((-rank_s, remaining_s, -priority))
        return [found[place] for place in order[: self._most].tolist()]

    def _find(self, pending: PendingTask) -> TaskGroup:
        task, index, progress = pending.task, pending.index, pending.progress
        places = self._workflows.of(progress).places
        key = (
            id(progress),
            task.template,
            task.shape,
            task.expected_s,
            task.gang,
            task.input_bytes,
            task.output_bytes,
            places.depth.item(index),
            places.parents.item(index),
            places.children.item(index),
            progress.upward_rank_s.item(index),
        )
        alike = self._alike.setdefault(key, [])
        for group in alike:
            if group.progress is progress and (group.task.work is task.work or group.task.work == task.work):
                return group
        group = TaskGroup(pending)
        alike.append(group)
        return group
