"""Scores nodes for one pod with a policy, as the engine's cycle would, and places nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.constraints import CompiledFilters, RuleTable
from stowplan.core.domain import ClusterState, PendingTask, PodShape
from stowplan.core.policy import CycleView, Plan, Policy
from stowplan.core.policy.listing import ListPolicy
from stowplan.kube.live.pod import LivePod
from stowplan.serve.extender.levels import levels_of
from stowplan.serve.extender.nodes import known_nodes
from stowplan.serve.scheduler.interface import TaskBook

__all__ = ["Scored", "Scorer"]

CYCLE_S: Final = 0.1

_CYCLE_TASKS: Final = 256
_TIMES_THE_PLAN: Final = 20.0
_CACHED_SHAPES: Final = 512
_BEST: Final = 12


@dataclass(frozen=True, slots=True)
class Scored:
    """What a policy says of the nodes that were asked about.

    Attributes:
        node_names: the nodes that the state knows, in the order asked; the arrays are beside them.
        rows: shape (n,).
        scores: shape (n,); −inf where the pod cannot, or should rather not, go.
        levels: shape (n,), 0–10; None when the policy prefers no node.
        best: places of the highest scores that are usable, in the order in which the policy would take them.
        plan: tells durations and reasons by row of its task `index`, as long as nothing else is scored.
        filters: of the pod's shape, as of now.
    """

    node_names: Sequence[str]
    rows: NDArray[np.intp]
    scores: NDArray[np.float64]
    levels: NDArray[np.int64] | None
    best: NDArray[np.intp]
    plan: Plan
    index: int
    filters: CompiledFilters


class _Cycle:
    """A plan, and the tasks that it was asked about so far."""

    __slots__ = ("epoch", "pending", "plan", "state", "until_s")

    def __init__(self, plan: Plan, state: ClusterState, epoch: int, pending: list[PendingTask]) -> None:
        self.plan, self.state, self.epoch, self.pending = plan, state, epoch, pending
        self.until_s = 0.0


class Scorer:
    """Asks one policy. It keeps the compiled constraints of the shapes that were asked about lately.

    A policy makes a plan per cycle, and to make one may cost more than to score a task by it. Where the
    binder decides on many tasks in a cycle, kube-scheduler asks about one after the other. With list
    policies, which rank tasks and score nodes apart, these are one cycle, as long as nothing but pods changes
    and not for longer than `CYCLE_S`, or twenty times what the plan took. Any other plans for each task.
    """

    def __init__(
        self,
        policy: Policy,
        tasks: TaskBook,
        rules: RuleTable,
        rng: np.random.Generator,
        clock: Callable[[], float],
    ) -> None:
        """Score with `policy`; `tasks` knows what pods are, `rng` is for policies that draw."""
        self.policy = policy
        self._tasks = tasks
        self._rules = rules
        self._rng = rng
        self._clock = clock
        self._cycle: _Cycle | None = None
        self._state: ClusterState | None = None
        self._filters: dict[PodShape, CompiledFilters] = {}

    def score(
        self, state: ClusterState, epoch: int, pod: LivePod, node_names: Sequence[str], now_s: float
    ) -> Scored:
        """Score `node_names` for `pod` at the monotonic time `now_s`.

        Args:
            state: what is there, and what is foreseen.
            epoch: moves on when anything but pods has changed there.
            pod: the pod.
            node_names: of the nodes to score.
            now_s: monotonic.

        Raises:
            StowplanError: the policy cannot tell.
        """
        task = self._tasks.task_of(pod, now_s)
        plan, index = self._planned(state, epoch, task, now_s)
        filters = self.filters_of(state, task.task.shape)
        try:
            by_row = plan.scores(index, filters)
        except Exception:
            self._cycle = None
            raise
        names, rows = known_nodes(state, node_names)
        scores = np.where(filters.feasible[rows], by_row[rows], -np.inf)
        levels, order = levels_of(scores, rows, draws_lots=plan.breaks_ties_randomly)
        return Scored(names, rows, scores, levels, order[:_BEST], plan, index, filters)

    def _planned(self, state: ClusterState, epoch: int, task: PendingTask, now_s: float) -> tuple[Plan, int]:
        """Return a plan for `task`, and which of its tasks that is."""
        cycle = self._cycle
        if (
            cycle is not None
            and cycle.state is state
            and cycle.epoch == epoch
            and now_s < cycle.until_s
            and len(cycle.pending) < _CYCLE_TASKS
        ):
            cycle.pending.append(task)
            return cycle.plan, len(cycle.pending) - 1
        self._cycle = None
        pending = [task]
        began_s = self._clock()
        plan = self.policy.plan(CycleView(state, now_s, pending, self._rng, self._tasks.running))
        if isinstance(self.policy, ListPolicy):
            self._cycle = _Cycle(plan, state, epoch, pending)
            self._cycle.until_s = now_s + max(CYCLE_S, _TIMES_THE_PLAN * (self._clock() - began_s))
        return plan, 0

    def filters_of(self, state: ClusterState, shape: PodShape) -> CompiledFilters:
        """Return the constraints of `shape`, caught up with `state`."""
        if state is not self._state:
            self._state = state
            self._filters.clear()
        filters = self._filters.pop(shape, None)
        if filters is None:
            if len(self._filters) >= _CACHED_SHAPES:
                del self._filters[next(iter(self._filters))]
            filters = CompiledFilters(state, shape, rules=self._rules)
        else:
            filters.refresh()
        self._filters[shape] = filters  # the least recently asked about stands first
        return filters
