"""Cycles written down as frames, each on top of the one before; a checkpoint begins a new chain.

A frame says only what no frame since the checkpoint has said: shapes, tasks, workflows and so on get numbers
as they are first met, and are named by number afterwards. So a cycle costs what is new in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from stowplan.core.domain import (
    PendingTask,
    PodShape,
    RunningTask,
    Task,
    Workflow,
    WorkflowProgress,
    WorkProfile,
)
from stowplan.core.record.capture import CycleCapture, ProgressCapture
from stowplan.core.record.events import event_to_plain
from stowplan.core.record.frames import FORMAT, Setup, to_runs
from stowplan.core.record.readings import readings_to_plain
from stowplan.core.record.state import state_to_plain
from stowplan.core.record.values import Plain, pack, to_plain
from stowplan.errors import InternalError

__all__ = ["FrameWriter"]

T = TypeVar("T")


class _ByIdentity(Generic[T]):
    """Numbers for objects too large to compare; they are kept, so that none takes another's place."""

    __slots__ = ("_number_of", "_objects", "new")

    def __init__(self) -> None:
        self._objects: list[T] = []
        self._number_of: dict[int, int] = {}
        self.new: list[Plain] = []

    def __len__(self) -> int:
        return len(self._objects)

    def number_of(self, item: T, to_plain: Callable[[T], Plain]) -> int:
        number = self._number_of.get(id(item))
        if number is None:
            plain = to_plain(item)  # may number what it consists of
            number = self._number_of[id(item)] = len(self._objects)
            self._objects.append(item)
            self.new.append(plain)
        return number


class _Shapes:
    """Numbers for pod shapes, by content."""

    __slots__ = ("_number_of", "new")

    def __init__(self) -> None:
        self._number_of: dict[PodShape, int] = {}
        self.new: list[Plain] = []

    def number_of(self, shape: PodShape) -> int:
        number = self._number_of.get(shape)
        if number is None:
            number = self._number_of[shape] = len(self._number_of)
            self.new.append(to_plain(shape))
        return number


class _Lexicon:
    """Everything that has a number in this chain.

    It holds what may be much of a cluster, so nothing in it refers back to it: it goes when its chain ends,
    not when the collector comes by.
    """

    def __init__(self) -> None:
        self.shapes = _Shapes()
        self.works = _ByIdentity[WorkProfile]()
        self.tasks = _ByIdentity[Task]()
        self.workflows = _ByIdentity[Workflow]()
        self.progress = _ByIdentity[WorkflowProgress]()
        self._pending: dict[str, tuple[int, PendingTask]] = {}
        self._running: dict[str, tuple[int, RunningTask]] = {}
        self._running_ids: dict[int, tuple[int, RunningTask]] = {}  # by identity: the quick way
        self._pending_count = self._running_count = 0
        self.new_pending: list[Plain] = []
        self.new_running: list[Plain] = []
        self.ranks: dict[int, bytes] = {}

    def _task(self, task: Task) -> Plain:
        return [
            task.name,
            self.shapes.number_of(task.shape),
            self.works.number_of(task.work, to_plain),
            task.expected_s,
            task.template,
            task.input_bytes,
            task.output_bytes,
            to_plain(task.gang),
        ]

    def _workflow(self, workflow: Workflow) -> Plain:
        tasks = [self.tasks.number_of(task, self._task) for task in workflow.tasks]
        edges = [[workflow.index_of[parent], workflow.index_of[child]] for parent, child in workflow.edges]
        return [workflow.name, workflow.family, to_runs(tasks), edges]

    def _progress(self, progress: WorkflowProgress) -> Plain:
        return [
            progress.key,
            self.workflows.number_of(progress.workflow, self._workflow),
            progress.submitted_s,
        ]

    def pending(self, task: PendingTask) -> int:
        """Return the number of a pending task; drivers may make an equal one for every cycle."""
        known = self._pending.get(task.key)
        if known is not None and (known[1] is task or _is_same(known[1], task)):
            return known[0]
        actual = -1 if task.actual is None else self.tasks.number_of(task.actual, self._task)
        progress = self.progress.number_of(task.progress, self._progress)
        self.new_pending.append([task.key, progress, task.index, task.ready_s, actual])
        number = self._pending_count
        self._pending[task.key] = (number, task)
        self._pending_count += 1
        return number

    def running(self, tasks: Sequence[RunningTask]) -> list[int]:
        """Return the numbers of running tasks; nearly all of them are known from the cycle before."""
        known = self._running_ids
        found = list(map(known.get, map(id, tasks)))
        numbers: list[int] = []
        for task, one in zip(tasks, found, strict=True):
            if one is None:
                one = known[id(task)] = (self._one_running(task), task)  # noqa: PLW2901  (made where it was missing)
            numbers.append(one[0])
        return numbers

    def _one_running(self, task: RunningTask) -> int:
        key = task.pending.key
        known = self._running.get(key)
        if known is not None:
            old = known[1]
            if old is task or (
                (old.row, old.started_s, old.expected_end_s)
                == (task.row, task.started_s, task.expected_end_s)
                and _is_same(old.pending, task.pending)
            ):
                return known[0]
        pending = self.pending(task.pending)
        self.new_running.append([pending, task.row, task.started_s, task.expected_end_s])
        number = self._running_count
        self._running[key] = (number, task)
        self._running_count += 1
        return number

    def update(self, capture: ProgressCapture) -> Plain:
        """Return how far a workflow is; its ranks only where they are not those that were said last."""
        number = self.progress.number_of(capture.progress, self._progress)
        ranks = None if self.ranks.get(number) == capture.upward_rank_s else capture.upward_rank_s
        self.ranks[number] = capture.upward_rank_s
        return [
            number,
            self.workflows.number_of(capture.workflow, self._workflow),
            capture.status,
            capture.unfinished_parents,
            ranks,
            capture.remaining_work_s,
            capture.open_tasks,
        ]

    def take_new(self) -> Plain:
        """Return what got a number since the last call."""
        tables: dict[str, Any] = {
            "shapes": self.shapes,
            "works": self.works,
            "tasks": self.tasks,
            "workflows": self.workflows,
            "progress": self.progress,
        }
        new: dict[str, list[Plain]] = {"pending": self.new_pending, "running": self.new_running}
        self.new_pending, self.new_running = [], []
        for name, table in tables.items():
            new[name] = table.new
            table.new = []
        return {name: entries for name, entries in new.items() if entries}


def _is_same(one: PendingTask, other: PendingTask) -> bool:
    return one is other or (
        one.progress is other.progress
        and one.index == other.index
        and one.ready_s == other.ready_s
        and (one.actual is other.actual or one.actual == other.actual)
    )


class FrameWriter:
    """Writes the frames of one chain after the other. Not for several threads at once."""

    def __init__(self, setup: Setup) -> None:
        """Begin; the first cycle must come with the state."""
        self._setup = to_plain(setup)
        self._lexicon = _Lexicon()

    def write(self, capture: CycleCapture, decided: Plain, parent: str | None) -> bytes:
        """Return a cycle as bytes.

        Args:
            capture: the input; with the state in it, a new chain begins.
            decided: limits and outcome, as plain data.
            parent: name of the frame before it; None at the beginning of a chain.

        Raises:
            InternalError: a chain begins without a state, or goes on with one; or a task's workflow was never
                captured.
        """
        if (capture.state is None) != (parent is not None):
            raise InternalError("a chain of records begins with a state, and only there")
        if capture.state is not None:
            self._lexicon = _Lexicon()
        lexicon, number_of = self._lexicon, self._lexicon.shapes.number_of
        frame: dict[str, Plain] = {"format": FORMAT, "parent": parent}
        if capture.state is not None:
            frame["setup"] = self._setup
            frame["state"] = state_to_plain(capture.state, number_of)
        else:
            frame["events"] = [event_to_plain(event, number_of) for event in capture.events]
        frame["cycle"] = {
            "now_s": capture.now_s,
            "pending": to_runs([lexicon.pending(task) for task in capture.pending]),
            "running": to_runs(lexicon.running(capture.running)),
            "progress": [lexicon.update(each) for each in capture.progress],
            "chance": capture.chance,
            "memory": list(capture.memory),
        }
        if capture.readings is not None:
            frame["cycle"]["readings"] = readings_to_plain(capture.readings)
        frame["decided"] = decided
        frame["new"] = lexicon.take_new()
        if len(lexicon.ranks) < len(lexicon.progress):
            raise InternalError("a task's workflow is met in a cycle, but how far it is was not captured")
        return pack(frame)
