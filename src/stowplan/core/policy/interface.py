"""What a policy is: it orders the pending tasks and scores the nodes for each. It never places.

The engine asks for one `Plan` per cycle and the decoder consults it task by task, after each placement, so a
plan may follow the live capacity. Classic rules and the learned policy share this interface; hard constraints
are not a policy's business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from stowplan.core.constraints import CompiledFilters
from stowplan.core.domain import ClusterState, PendingTask, PodShape, RunningTask
from stowplan.core.semantics.board import NodeReadings

__all__ = ["CycleView", "Plan", "Policy", "ReadsNodes", "Replayable", "reads_nodes"]


@dataclass(frozen=True, slots=True)
class CycleView:
    """All that a policy may know when it decides.

    `pending` is in order of arrival (ready time, then key). `running` maps task keys to placed tasks. `state`
    is the live cluster; the decoder's placements of this cycle show in it at once. `rng` is the engine's
    generator.

    `readings` is what was measured of the nodes, by row of `state`, the same board from cycle to cycle; None:
    nobody measures. A policy that looks at it says so (`ReadsNodes`): a simulator measures for no other.

    `filters_of`, `limit`, `closed` and `spread_factor` are the engine's: the compiled constraints of a shape,
    caught up with the state; `limit` is how many tasks will be looked at (None: all), `closed` are rows that
    take no task in this cycle, `spread_factor` is the rule table's. They are for policies that try out what
    would be decided.
    """

    state: ClusterState
    now_s: float
    pending: Sequence[PendingTask]
    rng: np.random.Generator
    running: Mapping[str, RunningTask] = field(default_factory=dict[str, RunningTask])
    filters_of: Callable[[PodShape], CompiledFilters] | None = None
    limit: int | None = None
    closed: Sequence[int] = ()
    readings: NodeReadings | None = None
    spread_factor: float = 1.0


class Plan(Protocol):
    """A policy's answer for one cycle."""

    @property
    def order(self) -> Sequence[int] | NDArray[np.intp]:
        """Indexes into `view.pending`, first to be placed first. Tasks that are left out wait."""
        ...

    @property
    def breaks_ties_randomly(self) -> bool:
        """Whether ties are drawn from `view.rng` (as kube-scheduler does); if not, the lowest row wins."""
        ...

    def scores(self, index: int, filters: CompiledFilters) -> NDArray[np.float64]:
        """Return a score per row for task `index`, shape (capacity,).

        Higher is better, −inf means: rather wait. `filters` is already refreshed. Rows that are not feasible
        may hold anything. The array is only read, before the next call.
        """
        ...

    def choose_gpus(self, index: int, row: int) -> tuple[int, ...] | None:
        """Return the GPUs of node `row` for task `index`, or None for the decoder's default choice."""
        ...

    def expected_duration_s(self, index: int, row: int) -> float:
        """Return how long the policy believes task `index` will run on `row`, in seconds."""
        ...

    def contributions(self, index: int, row: int) -> Mapping[str, float]:
        """Return the named parts of the score of `row`, for explanations."""
        ...


class Policy(Protocol):
    """Makes plans. A policy may keep caches between cycles, but its plans depend only on the view.

    `Replayable` is for those that remember something all the same.
    """

    @property
    def name(self) -> str:
        """Name as users write it, for example `kube-scheduler`."""
        ...

    def plan(self, view: CycleView) -> Plan:
        """Return the plan of this cycle.

        Raises:
            StowplanError: the policy cannot decide; the engine then falls back, visibly.
        """
        ...


@runtime_checkable
class Replayable(Protocol):
    """A policy that can say what its plans depend on besides the view, so that they can be made again."""

    @property
    def memory(self) -> tuple[int, ...] | None:
        """What must be known besides a view to make the same plan; None: more than can be said."""
        ...

    def recall(self, memory: Sequence[int]) -> None:
        """Go on from where a policy of this name had this `memory`."""
        ...


@runtime_checkable
class ReadsNodes(Protocol):
    """A policy whose plans depend on `CycleView.readings`."""

    @property
    def reads_nodes(self) -> bool:
        """Whether it looks at them, as it was made."""
        ...


def reads_nodes(policy: object) -> bool:
    """Return whether a policy, or a part of one, looks at `CycleView.readings`."""
    return isinstance(policy, ReadsNodes) and policy.reads_nodes
