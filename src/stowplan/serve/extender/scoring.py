"""Scores nodes for one pod with a policy, as the engine's cycle would, and places nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.constraints import CompiledFilters, RuleTable
from stowplan.core.domain import ClusterState, PodShape
from stowplan.core.policy import CycleView, Plan, Policy
from stowplan.kube.live.pod import LivePod
from stowplan.serve.extender.levels import levels_of
from stowplan.serve.scheduler.interface import TaskBook

__all__ = ["Scored", "Scorer"]

_CACHED_SHAPES: Final = 512
_BEST: Final = 32


@dataclass(frozen=True, slots=True)
class Scored:
    """What a policy says of the nodes that were asked about.

    Attributes:
        node_names: the nodes that the state knows, in the order asked; the arrays are beside them.
        rows: shape (n,).
        scores: shape (n,); −inf where the pod cannot, or should rather not, go.
        levels: shape (n,), 0–10; None when the policy prefers no node.
        best: places of the highest scores that are usable, in the order in which the policy would take them.
        plan: tells durations and reasons by row (of task 0), as long as nothing else is scored.
        filters: of the pod's shape, as of now.
    """

    node_names: list[str]
    rows: NDArray[np.intp]
    scores: NDArray[np.float64]
    levels: NDArray[np.int64] | None
    best: NDArray[np.intp]
    plan: Plan
    filters: CompiledFilters


class Scorer:
    """Asks one policy. It keeps the compiled constraints of the shapes that were asked about lately."""

    def __init__(self, policy: Policy, tasks: TaskBook, rules: RuleTable, rng: np.random.Generator) -> None:
        """Score with `policy`; `tasks` knows what pods are, `rng` is for policies that draw."""
        self.policy = policy
        self._tasks = tasks
        self._rules = rules
        self._rng = rng
        self._state: ClusterState | None = None
        self._filters: dict[PodShape, CompiledFilters] = {}

    def score(self, state: ClusterState, pod: LivePod, node_names: Sequence[str], now_s: float) -> Scored:
        """Score `node_names` for `pod` at the monotonic time `now_s`.

        Raises:
            StowplanError: the policy cannot tell.
        """
        task = self._tasks.task_of(pod, now_s)
        plan = self.policy.plan(CycleView(state, now_s, (task,), self._rng, self._tasks.running))
        filters = self.filters_of(state, task.task.shape)
        by_row = plan.scores(0, filters)
        names = list(node_names)
        rows = np.array([state.row(name) for name in names], dtype=np.intp)
        if (rows < 0).any():
            names = [name for name, row in zip(names, rows, strict=True) if row >= 0]
            rows = rows[rows >= 0]
        scores = np.where(filters.feasible[rows], by_row[rows], -np.inf)
        levels = levels_of(scores, rows, draws_lots=plan.breaks_ties_randomly)
        best = np.lexsort((rows, -scores))[:_BEST]
        best = best[scores[best] > -np.inf]
        return Scored(names, rows, scores, levels, best, plan, filters)

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
