"""How far a live workflow has come, out of what its controller and its pods say, in any order.

`WorkflowProgress` is what policies read; a simulator drives it task by task. A live workflow is not driven:
it is looked at. Its status may skip steps, repeat itself, go back (a retried workflow), or tell of items that
nobody knew of. So everything here is a function of what is known now: each fact is kept by the instance (task
and items) or scope that it speaks of, and the numbers of a task follow from its facts alone. Whichever way
the facts came, the progress is the same.

What a task's end is: every one of its instances has ended. How many there are follows from the widths of its
loops; while one is unknown, those that were seen count (one as long as none was), and the task is open until
what encloses it has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from stowplan.core.domain import TaskStatus, Workflow, WorkflowProgress
from stowplan.serve.workflows.index import GraphIndex, Scope

__all__ = ["Items", "TaskView", "Tracking"]

Items = tuple[int, ...]

# Plain integers, as in `WorkflowProgress`: this runs for every change of every node.
_WAITING, _PENDING, _RUNNING, _DONE, _FAILED, _SKIPPED = (int(status) for status in TaskStatus)
_NOTHING: Final = -1


@dataclass(slots=True)
class _Instance:
    """What is known of one instance of a task; states are values of `TaskStatus`, -1: nothing is said.

    `said` is the controller's word on it, `tried` that on each of its attempts (-1: it has ended), `pods` the
    state of each pod.
    """

    said: int = _NOTHING
    tried: dict[int, int] = field(default_factory=dict[int, int])
    pods: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def state(self) -> int:
        if self.said >= _DONE:
            return self.said
        states = self.pods.values()
        # Pods are nearer to what happens than the controller, which looks at them now and then.
        for state in (_RUNNING, _PENDING, _DONE):
            if state in states:
                return state
        latest = self.tried[max(self.tried)] if self.tried else _NOTHING
        return max(self.said, latest, _PENDING)

    @property
    def is_empty(self) -> bool:
        return self.said == _NOTHING and not self.tried and not self.pods


@dataclass(frozen=True, slots=True)
class TaskView:
    """What is known of one task. `count` is how many instances there are, None as long as that is open."""

    status: TaskStatus
    count: int | None
    open: int
    by_status: Mapping[str, int]


class Tracking:
    """The progress of one live workflow.

    Attributes:
        index: its graph.
        progress: what policies read; kept up to date by `settle`.
    """

    def __init__(self, index: GraphIndex, key: str, submitted_s: float) -> None:
        """Begin with nothing known.

        Args:
            index: the workflow's graph.
            key: namespace and name.
            submitted_s: monotonic.
        """
        count = len(index)
        self.index = index
        self.progress = WorkflowProgress(key, index.view.workflow, submitted_s)
        self._expected_s = self.progress.workflow.expected_s
        self._widths: dict[str, int | None] = {loop.place: loop.width for loop in index.open_loops()}
        self._seen_widths: dict[str, int] = {}
        self._instances: list[dict[Items, _Instance]] = [{} for _ in range(count)]
        self._tally: list[list[int]] = [[0] * len(TaskStatus) for _ in range(count)]
        self._scopes: list[dict[Items, frozenset[str]]] = [{} for _ in range(count)]
        self._closed = [False] * count
        self._open = np.ones(count, dtype=np.float64)
        self._has_ended = False
        self._out_of_order: set[int] = set()
        self._has_moved = False
        self._ranks_are_stale = self._ranks_are_crossed = False
        self._is_settled = False
        for task in range(count):
            self._derive(task)
        self.settle()

    # ---- facts ----

    def said(self, task: int, items: Items, state: int) -> None:
        """Note the controller's word on an instance, a value of `TaskStatus`."""

        def note(instance: _Instance) -> None:
            instance.said = state

        self._change(task, items, note)

    def tried(self, task: int, items: Items, attempt: int, state: int | None) -> None:
        """Note the controller's word on an attempt; None: it has ended, which decides nothing."""

        def note(instance: _Instance) -> None:
            instance.tried[attempt] = _NOTHING if state is None else state

        self._change(task, items, note)

    def pod(self, task: int, items: Items, uid: str, state: int | None) -> None:
        """Note the state of a pod of an instance; None: it is gone, or has failed, which decides nothing."""

        def note(instance: _Instance) -> None:
            if state is None:
                instance.pods.pop(uid, None)
            else:
                instance.pods[uid] = state

        self._change(task, items, note)

    def enclosed(self, scope: Scope, *, has_ended: bool) -> None:
        """Note whether what encloses tasks has ended: what has not begun by then never will."""
        for task in scope.tasks:
            scopes = self._scopes[task]
            holders = scopes.get(scope.items, frozenset())
            if has_ended == (scope.holder in holders):
                continue
            holders = holders | {scope.holder} if has_ended else holders - {scope.holder}
            if holders:
                scopes[scope.items] = holders
            else:
                del scopes[scope.items]
            self._derive(task)

    def widen(self, place: str, width: int) -> None:
        """Note how many items a loop has, as its input told."""
        if self._seen_widths.get(place) != width:
            self._seen_widths[place] = width
            for task in self.index.tasks_in_loop(place):
                self._derive(task)

    def end(self, *, has_ended: bool) -> None:
        """Note whether the workflow has ended: then nothing of it is open."""
        if has_ended != self._has_ended:
            self._has_ended = has_ended
            for task in range(len(self.index)):
                self._derive(task)

    def expect(self, workflow: Workflow) -> None:
        """Take other expected durations: `workflow` is that of the index but for them."""
        self.progress.workflow = workflow
        self._expected_s = workflow.expected_s
        self.progress.changed()
        self._ranks_are_stale = True
        self._is_settled = False

    def settle(self) -> None:
        """Bring the sums of the progress up to date."""
        if self._is_settled:
            return
        progress = self.progress
        progress.remaining_work_s = float(self._expected_s @ self._open)
        # As long as tasks end in the order of the graph, what is after an open task is open, and ranks stay.
        is_crossed = bool(self._out_of_order)
        if self._ranks_are_stale or (self._has_moved and (is_crossed or self._ranks_are_crossed)):
            left_s = self._expected_s.copy()
            if is_crossed:
                left_s[self._closed] = 0.0
            progress.upward_rank_s = progress.workflow.upward_ranks(left_s.tolist())
            self._ranks_are_stale, self._ranks_are_crossed = False, is_crossed
        progress.changed()
        self._has_moved = False
        self._is_settled = True

    # ---- what follows ----

    def view(self, task: int) -> TaskView:
        """Return what is known of a task."""
        tally = self._tally[task]
        return TaskView(
            status=TaskStatus(int(self.progress.status[task])),
            count=self._width(task, 0),
            open=int(self._open[task]),
            by_status={status.name: tally[status] for status in TaskStatus if tally[status]},
        )

    def items_of(self, task: int) -> Sequence[Items]:
        """Return the instances of a task that were seen."""
        return list(self._instances[task])

    def _change(self, task: int, items: Items, note: Callable[[_Instance], None]) -> None:
        instances = self._instances[task]
        instance = instances.get(items)
        before = _NOTHING if instance is None else instance.state
        if instance is None:
            instance = instances[items] = _Instance()
        note(instance)
        after = instance.state
        if instance.is_empty:
            del instances[items]
            after = _NOTHING
        if before == after:
            return
        tally = self._tally[task]
        if before != _NOTHING:
            tally[before] -= 1
        if after != _NOTHING:
            tally[after] += 1
        self._derive(task)

    def _width(self, task: int, depth: int) -> int | None:
        """Return how many instances a task has within one of the first `depth` loops, None if unknown."""
        total = 1
        for loop in self.index.loops[task][depth:]:
            width = self._widths.get(loop.place, 1)
            if width is None:
                width = self._seen_widths.get(loop.place)
            if width is None:
                return None
            total *= width
        return total

    def _never_begin(self, task: int) -> int:
        """Return how many instances that were not seen never will be."""
        scopes, instances = self._scopes[task], self._instances[task]
        never = 0
        for items in scopes:
            if any(items[:size] in scopes for size in range(len(items))):
                continue  # a larger scope has ended
            depth = len(items)
            if depth == len(self.index.loops[task]):
                never += items not in instances
                continue
            inner = self._width(task, depth)
            if inner is not None:
                never += max(0, inner - sum(1 for seen in instances if seen[:depth] == items))
        return never

    def _open_instances(self, task: int) -> tuple[int, bool]:
        """Return how many instances have not ended, and whether the task may yet have others."""
        if self._has_ended:
            return 0, False
        if task in self.index.joins:
            return 0, self.progress.unfinished_parents.item(task) > 0
        tally, seen = self._tally[task], len(self._instances[task])
        begun = tally[_PENDING] + tally[_RUNNING]
        if () in self._scopes[task]:
            return begun, begun > 0
        width = self._width(task, 0)
        if width is None:
            return begun + (0 if seen else 1), True
        left = begun + max(0, width - seen - (self._never_begin(task) if self._scopes[task] else 0))
        return left, left > 0

    def _derive(self, task: int) -> None:
        """Let the numbers of a task follow from its facts, and those of the tasks after it from them."""
        left = [task]
        while left:
            task = left.pop()
            count, is_open = self._open_instances(task)
            self._open[task] = count
            self._is_settled = False
            progress = self.progress
            if is_open == self._closed[task]:
                self._closed[task] = not is_open
                progress.open_tasks += 1 if is_open else -1
                self._has_moved = True
                self._note_order(task)
                for child in progress.workflow.children[task]:
                    progress.unfinished_parents[child] += 1 if is_open else -1
                    if progress.unfinished_parents.item(child) == is_open:  # ready now, or no longer
                        self._note_order(child)
                        left.append(child)
            progress.status[task] = self._status(task, is_open=is_open)
            progress.changed()

    def _note_order(self, task: int) -> None:
        if self._closed[task] and self.progress.unfinished_parents.item(task) > 0:
            self._out_of_order.add(task)
        else:
            self._out_of_order.discard(task)

    def _status(self, task: int, *, is_open: bool) -> int:
        tally = self._tally[task]
        if not is_open:
            if tally[_FAILED]:
                return _FAILED
            return _DONE if tally[_DONE] or task in self.index.joins else _SKIPPED
        if tally[_RUNNING]:
            return _RUNNING
        is_ready = tally[_PENDING] or self.progress.unfinished_parents.item(task) == 0
        return _PENDING if is_ready else _WAITING
