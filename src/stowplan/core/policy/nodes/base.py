"""What every node rule shares: the state, its feed, expected durations, and default answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from stowplan.core.constraints import CompiledFilters
from stowplan.core.domain import ClusterState, PendingTask
from stowplan.core.policy.feed import ChangeFeed
from stowplan.core.policy.interface import CycleView
from stowplan.core.policy.machines import Machines
from stowplan.errors import InternalError

__all__ = ["NodeRule"]


class NodeRule(ABC):
    """Scores the nodes for one task at a time. A rule belongs to one policy and one state at a time."""

    breaks_ties_randomly = False
    """Whether nodes of equal score are drawn at random; otherwise the lowest row wins."""

    def __init__(self) -> None:
        """Wait for the first cycle."""
        self._view: CycleView | None = None
        self._feed: ChangeFeed | None = None
        self._machines: Machines | None = None
        self.turn = 0
        """Where a rule that takes turns stands: all that it may remember from cycle to cycle."""

    reads_nodes = False
    """Whether it looks at `CycleView.readings`."""

    @property
    def memory(self) -> tuple[int, ...]:
        """What must be known besides a view to decide the same, where a rule `forgets` the rest."""
        return (self.turn,)

    def recall(self, memory: Sequence[int]) -> None:
        """Go on from where a rule of this kind had this `memory`."""
        (self.turn,) = memory

    @property
    def forgets(self) -> bool:
        """Whether the view and the memory are all that decides, so that a decision can be made again."""
        return True

    def is_other_state(self, view: CycleView) -> bool:
        """Tell whether `view` is of another state than the last cycle, so that caches by row are void."""
        return self._feed is None or self._feed.state is not view.state

    def has_other_state_before(self, view: CycleView) -> bool:
        """Tell whether there were cycles of another state, so that the turn is void."""
        return self._feed is not None and self._feed.state is not view.state

    def begin(self, view: CycleView) -> None:
        """Start a cycle. Subclasses with caches drop them when `is_other_state`, then call this."""
        if self.is_other_state(view):
            self._feed = ChangeFeed(view.state)
            self._machines = Machines(self._feed)
        self._view = view
        self.feed.catch_up()

    @property
    def view(self) -> CycleView:
        """The view of the running cycle."""
        if self._view is None:
            raise InternalError("a node rule was asked to score before `begin`")
        return self._view

    @property
    def feed(self) -> ChangeFeed:
        """The feed of the state."""
        if self._feed is None:
            raise InternalError("a node rule was asked to score before `begin`")
        return self._feed

    @property
    def machines(self) -> Machines:
        """The machine types of the nodes."""
        if self._machines is None:
            raise InternalError("a node rule was asked to score before `begin`")
        return self._machines

    @property
    def state(self) -> ClusterState:
        """The state of the running cycle."""
        return self.view.state

    @abstractmethod
    def scores(self, task: PendingTask, filters: CompiledFilters) -> NDArray[np.float64]:
        """Return a score per row, higher is better, −inf: rather wait; see `Plan.scores`."""

    def choose_gpus(self, task: PendingTask, row: int) -> tuple[int, ...] | None:  # noqa: ARG002  (overridden)
        """Return the GPUs of `row` that the task gets, or None for the decoder's choice."""
        return None

    def expected_duration_s(self, task: PendingTask, row: int) -> float:
        """Return the expected duration times the factor of the row's machine type, in seconds."""
        return self.machines.duration_s(task.task, row)

    def contributions(self, task: PendingTask, row: int) -> Mapping[str, float]:  # noqa: ARG002  (overridden)
        """Return the named parts of the score of `row`."""
        return {}
