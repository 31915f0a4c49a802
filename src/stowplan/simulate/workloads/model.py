"""What a simulation is fed: workflows and the time at which each is submitted.

A workload is a value: readers make it, arrivals move its submissions in time, the simulator consumes it. What
a reader had to assume (memory that the trace lacks, a request rule) is said in `notes`, so that a result can
be read with its assumptions beside it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from stowplan.core.domain import Task, Workflow, WorkProfile
from stowplan.errors import InvalidInput, InvalidWorkflow
from stowplan.simulate.workloads.arrivals import Arrivals

__all__ = ["Submission", "Workload"]


@dataclass(frozen=True, slots=True)
class Submission:
    """A workflow and when it arrives, in seconds from the start of the simulation."""

    time_s: float
    workflow: Workflow

    def __post_init__(self) -> None:
        """Refuse a time that no clock shows.

        Raises:
            InvalidInput: the time is negative, NaN or infinite.
        """
        if not (math.isfinite(self.time_s) and self.time_s >= 0.0):
            raise InvalidInput(
                f"workflow {self.workflow.name!r} is submitted at {self.time_s} s; give a finite time ≥ 0"
            )

    def prefixed(self, prefix: str) -> Submission:
        """Return the submission with its workflow named `PREFIX/NAME`."""
        return Submission(self.time_s, replace(self.workflow, name=f"{prefix}/{self.workflow.name}"))


@dataclass(frozen=True, slots=True)
class Workload:
    """Submissions in order of time (ties in the order given), where they came from and what was assumed.

    `arrivals`, where the file gives them, say how the times are to be drawn: see `arriving`.

    Raises:
        InvalidWorkflow: there is no submission, or two workflows share a name.
    """

    name: str
    submissions: tuple[Submission, ...]
    source: str = ""
    notes: tuple[str, ...] = ()
    arrivals: Arrivals | None = None

    def __post_init__(self) -> None:
        """Sort by time and check the names."""
        if not self.submissions:
            raise InvalidWorkflow(f"workload {self.name!r} is empty; give it at least one workflow")
        seen: set[str] = set()
        for submission in self.submissions:
            name = submission.workflow.name
            if name in seen:
                raise InvalidWorkflow(
                    f"workload {self.name!r}: workflow {name!r} occurs twice; rename one of the two"
                )
            seen.add(name)
        object.__setattr__(self, "submissions", tuple(sorted(self.submissions, key=lambda s: s.time_s)))

    def __len__(self) -> int:
        """Return the number of submissions."""
        return len(self.submissions)

    @property
    def task_count(self) -> int:
        """Number of tasks over all workflows."""
        return sum(len(submission.workflow) for submission in self.submissions)

    @property
    def alone_s(self) -> float:
        """Seconds of work over all tasks, each alone on the reference machine."""
        return math.fsum(
            task.work.alone_s for submission in self.submissions for task in submission.workflow.tasks
        )

    @property
    def recorded_s(self) -> tuple[float, ...]:
        """Submission times in order, seconds."""
        return tuple(submission.time_s for submission in self.submissions)

    def arriving(self, rng: np.random.Generator, arrivals: Arrivals | None = None) -> Workload:
        """Return the workload with times drawn from `arrivals`, else from its own, else itself."""
        chosen = self.arrivals if arrivals is None else arrivals
        return self if chosen is None else self.at_times(chosen.times_s(self.recorded_s, rng))

    def at_times(self, times_s: Iterable[float]) -> Workload:
        """Return the workload with its submissions, in their present order, moved to `times_s`.

        Raises:
            InvalidInput: there are fewer or more times than submissions, or a time is unusable.
        """
        times = tuple(times_s)
        if len(times) != len(self.submissions):
            raise InvalidInput(
                f"workload {self.name!r} has {len(self.submissions)} submissions but {len(times)} arrival "
                "times; "
                "give one time for each"
            )
        moved = tuple(
            Submission(float(time_s), submission.workflow)
            for time_s, submission in zip(times, self.submissions, strict=True)
        )
        return replace(self, submissions=moved, arrivals=None)

    def replicated(self, copies: int) -> Workload:
        """Return the workload with every workflow `copies` times, named `NAME-1` … at the same time.

        Raises:
            InvalidInput: `copies` is less than 1.
        """
        if copies < 1:
            raise InvalidInput(f"workload {self.name!r}: {copies} copies; ask for at least 1")
        if copies == 1:
            return self
        submissions = tuple(
            Submission(
                submission.time_s, replace(submission.workflow, name=f"{submission.workflow.name}-{copy}")
            )
            for copy in range(1, copies + 1)
            for submission in self.submissions
        )
        return replace(self, submissions=submissions)

    def with_machine_factors(self, factors_of: dict[str, tuple[tuple[str, float], ...]]) -> Workload:
        """Return the workload in which tasks of a template named in `factors_of` have those machine factors.

        `factors_of` maps a template to (machine type, time factor) pairs, for example from the Lotaru law.
        """

        def changed(task: Task) -> Task:
            factors = factors_of.get(task.template)
            if factors is None:
                return task
            work: WorkProfile = replace(task.work, machine_factors=factors)
            return replace(task, work=work)

        submissions = tuple(
            Submission(s.time_s, replace(s.workflow, tasks=tuple(changed(task) for task in s.workflow.tasks)))
            for s in self.submissions
        )
        return replace(self, submissions=submissions)
