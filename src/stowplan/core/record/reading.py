"""Frames read back, oldest first: after each, the input of its cycle stands as it was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from stowplan.core.domain import (
    ClusterState,
    Gang,
    PendingTask,
    PodShape,
    RunningTask,
    Task,
    Workflow,
    WorkflowProgress,
    WorkProfile,
)
from stowplan.core.record.events import event_from_plain
from stowplan.core.record.frames import FORMAT, Setup, from_runs
from stowplan.core.record.readings import readings_from_plain
from stowplan.core.record.state import state_from_plain
from stowplan.core.record.values import Plain, to_value, unpack
from stowplan.core.semantics.board import NodeReadings
from stowplan.errors import InvalidFile, StowplanError

__all__ = ["Chain", "RecordedCycle", "parent_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCycle:
    """The input of a cycle, and what was decided. `state`, workflows and readings are the chain's own."""

    setup: Setup
    state: ClusterState
    now_s: float
    pending: list[PendingTask]
    running: Mapping[str, RunningTask]
    chance: list[Any]
    memory: tuple[int, ...]
    decided: Plain
    readings: NodeReadings | None = None

    def generator(self) -> np.random.Generator:
        """Return the generator as it stood."""
        state, inc, has_uint32, uinteger = self.chance
        bits = np.random.PCG64(0)
        bits.state = {
            "bit_generator": "PCG64",
            "state": {"state": int.from_bytes(state, "big"), "inc": int.from_bytes(inc, "big")},
            "has_uint32": has_uint32,
            "uinteger": uinteger,
        }
        return np.random.Generator(bits)


def parent_of(content: bytes) -> str | None:
    """Return the name of the frame that a frame stands on, None for a checkpoint.

    Raises:
        InvalidFile: it is no frame, or one of another format.
    """
    return _frame(content)["parent"]


def _frame(content: bytes) -> Plain:
    frame = unpack(content)
    is_map = isinstance(frame, dict)
    layout = cast("dict[str, Plain]", frame).get("format") if is_map else None
    if layout is None:
        raise InvalidFile("the record is not one of a decision")
    if layout != FORMAT:
        raise InvalidFile(
            f"the record has format {layout}, this Stowplan reads format {FORMAT}; "
            "replay it with the Stowplan that wrote it"
        )
    return frame


@dataclass
class Chain:
    """A checkpoint and the frames since, as far as they were added."""

    _setup: Setup | None = None
    _state: ClusterState = field(default_factory=ClusterState)
    _readings: NodeReadings | None = None
    _shapes: list[PodShape] = field(default_factory=list[PodShape])
    _works: list[WorkProfile] = field(default_factory=list[WorkProfile])
    _tasks: list[Task] = field(default_factory=list[Task])
    _workflows: list[Workflow] = field(default_factory=list[Workflow])
    _progress: list[WorkflowProgress] = field(default_factory=list[WorkflowProgress])
    _pending: list[PendingTask] = field(default_factory=list[PendingTask])
    _running: list[RunningTask] = field(default_factory=list[RunningTask])

    def add(self, content: bytes) -> RecordedCycle:
        """Take in the next frame; return its cycle, which holds until the next is added.

        Raises:
            InvalidFile: it is damaged, or does not go on from here.
        """
        frame = _frame(content)
        try:
            return self._add(frame)
        except StowplanError as error:
            raise InvalidFile(f"the record is damaged: {error}") from error
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise InvalidFile(f"the record is damaged: {type(error).__name__}: {error}") from error

    def _add(self, frame: Plain) -> RecordedCycle:
        if (self._setup is None) == (frame["parent"] is not None):
            raise InvalidFile("its chain does not begin with a checkpoint, or begins twice")
        self._learn(frame["new"])
        if self._setup is None:
            self._setup = to_value(frame["setup"], Setup)
            self._state = state_from_plain(frame["state"], self._shapes)
        else:
            for event in frame["events"]:
                self._state.apply(event_from_plain(event, self._shapes))
        cycle = frame["cycle"]
        for update in cycle["progress"]:
            self._update(self._progress[int(update[0])], update[1:])
        running = [self._running[number] for number in from_runs(cycle["running"])]
        measured = cycle.get("readings")
        if measured is not None:
            self._readings = readings_from_plain(measured, self._readings)
        return RecordedCycle(
            setup=self._setup,
            state=self._state,
            now_s=cycle["now_s"],
            pending=[self._pending[number] for number in from_runs(cycle["pending"])],
            running={task.pending.key: task for task in running},
            chance=cycle["chance"],
            memory=tuple(cycle["memory"]),
            decided=frame["decided"],
            readings=None if measured is None else self._readings,
        )

    def _learn(self, new: Plain) -> None:
        self._shapes += [to_value(plain, PodShape) for plain in new.get("shapes", ())]
        self._works += [to_value(plain, WorkProfile) for plain in new.get("works", ())]
        for name, shape, work, expected_s, template, input_bytes, output_bytes, gang in new.get("tasks", ()):
            self._tasks.append(
                Task(
                    name,
                    self._shapes[int(shape)],
                    self._works[int(work)],
                    expected_s,
                    template,
                    input_bytes,
                    output_bytes,
                    None if gang is None else to_value(gang, Gang),
                )
            )
        for name, family, numbers, edges in new.get("workflows", ()):
            tasks = tuple(self._tasks[number] for number in from_runs(numbers))
            named = tuple((tasks[int(parent)].name, tasks[int(child)].name) for parent, child in edges)
            self._workflows.append(Workflow(name, tasks, named, family))
        for key, workflow, submitted_s in new.get("progress", ()):
            self._progress.append(WorkflowProgress(key, self._workflows[int(workflow)], submitted_s))
        for key, progress, index, ready_s, actual in new.get("pending", ()):
            task = None if actual < 0 else self._tasks[int(actual)]
            self._pending.append(PendingTask(key, self._progress[int(progress)], index, ready_s, task))
        for pending, row, started_s, expected_end_s in new.get("running", ()):
            self._running.append(RunningTask(self._pending[int(pending)], row, started_s, expected_end_s))

    def _update(self, progress: WorkflowProgress, update: Plain) -> None:
        workflow, status, unfinished_parents, ranks, remaining_work_s, open_tasks = update
        progress.workflow = self._workflows[int(workflow)]
        progress.status = np.frombuffer(status, dtype=np.int8).copy()
        progress.unfinished_parents = np.frombuffer(unfinished_parents, dtype=np.int32).copy()
        if ranks is not None:
            progress.upward_rank_s = np.frombuffer(ranks, dtype=np.float64).copy()
        progress.remaining_work_s = remaining_work_s
        progress.open_tasks = open_tasks
