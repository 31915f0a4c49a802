"""One scheduling cycle: pending tasks and a cluster in, closed outcomes out.

The engine owns the compiled constraints, one per pod shape, and keeps them between cycles: each catches up
with the state's journal when its shape is next looked at. Drivers own the state: they apply what the world
reports, and call `forget` when a binding failed. Time and randomness are arguments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stowplan.core.constraints import NO_RULES, CompiledFilters, RuleTable
from stowplan.core.decoder import Degraded, GreedyDecoder, Infeasible, Lost, Placed, Wait
from stowplan.core.decoder.greedy import Decoded
from stowplan.core.domain import ClusterState, PendingTask, PodRemoved, PodShape, RunningTask
from stowplan.core.engine.assumed import AssumedStorage
from stowplan.core.policy.interface import CycleView, Plan, Policy
from stowplan.errors import StowplanError

__all__ = ["CycleReport", "Engine"]

_CACHED_SHAPES = 8192


@dataclass(frozen=True, slots=True)
class CycleReport:
    """Outcomes of one cycle; every pending task is in exactly one of the three lists."""

    now_s: float
    placed: Sequence[tuple[PendingTask, Placed]]
    waiting: Sequence[tuple[PendingTask, Wait]]
    infeasible: Sequence[tuple[PendingTask, Infeasible]]
    degraded: Degraded | None = None


class Engine:
    """Schedules onto one cluster state with one policy, and a simpler one to fall back on."""

    def __init__(
        self,
        state: ClusterState,
        policy: Policy,
        *,
        rng: np.random.Generator,
        rules: RuleTable = NO_RULES,
        fallback: Policy | None = None,
        explains: bool = False,
    ) -> None:
        """Decide with `policy`; if it raises, with `fallback` (None: the error goes to the driver)."""
        self.state = state
        self.policy = policy
        self._fallback = fallback
        self._rng = rng
        self._rules = rules
        self._filters: dict[PodShape, CompiledFilters] = {}
        self._storage = AssumedStorage(state)
        self._decoder = GreedyDecoder(state, self.filters_of, self._storage.reserve, explains=explains)

    def cycle(
        self, now_s: float, pending: Sequence[PendingTask], running: Mapping[str, RunningTask] | None = None
    ) -> CycleReport:
        """Decide on the pending tasks at time `now_s` and assume the placements in the state.

        `pending` is in order of arrival. `running` tells policies what runs where; it may be left out for
        policies that do not look.

        Raises:
            StowplanError: the policy failed and there is no fallback.
        """
        # 1. What may be known.
        view = CycleView(self.state, now_s, pending, self._rng, running if running is not None else {})
        # 2. What the policy wants; a simpler policy when it fails.
        policy, plan, degraded = self._plan(view)
        # 3. What holds: constraints and live capacity, task by task.
        decoded: Decoded = self._decoder.decode(view, plan, policy.name)
        # 4. Bound the cache; shapes come and go with their workflows.
        if len(self._filters) > _CACHED_SHAPES:
            self._filters.clear()
        return CycleReport(now_s, decoded.placed, decoded.waiting, decoded.infeasible, degraded)

    def forget(self, key: str, reason: str) -> Lost:
        """Give back the resources of a placed task whose binding failed, and the storage that it reserved.

        Raises:
            StateConflict: the task is not assumed on any node.
        """
        self.state.apply(PodRemoved(key))
        self._storage.release(key)
        return Lost(key, reason)

    def filters_of(self, shape: PodShape) -> CompiledFilters:
        """Return the constraints of `shape`, caught up with the state."""
        filters = self._filters.get(shape)
        if filters is None:
            filters = self._filters[shape] = CompiledFilters(self.state, shape, rules=self._rules)
        else:
            filters.refresh()
        return filters

    def _plan(self, view: CycleView) -> tuple[Policy, Plan, Degraded | None]:
        try:
            return self.policy, self.policy.plan(view), None
        except StowplanError as error:
            if self._fallback is None:
                raise
            degraded = Degraded(f"policy {self.policy.name}", str(error), self._fallback.name)
            return self._fallback, self._fallback.plan(view), degraded
