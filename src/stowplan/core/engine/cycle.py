"""One scheduling cycle: pending tasks and a cluster in, closed outcomes out.

The engine owns the compiled constraints, one per pod shape, and keeps them between cycles: each catches up
with the state's journal when its shape is next looked at. Drivers own the state: they apply what the world
reports, and call `forget` when a binding failed. Time and randomness are arguments.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from stowplan.core.constraints import NO_RULES, CompiledFilters, RuleTable
from stowplan.core.decoder import Degraded, GreedyDecoder, Infeasible, Lost, Placed, Wait
from stowplan.core.decoder.greedy import Decoded
from stowplan.core.domain import ClusterState, PendingTask, PodRemoved, PodShape, RunningTask
from stowplan.core.domain.caching import forget_oldest, shapes_worth_keeping
from stowplan.core.engine.assumed import AssumedStorage
from stowplan.core.policy.interface import CycleView, Plan, Policy
from stowplan.core.semantics.board import NodeReadings
from stowplan.errors import InternalError, InvalidInput, StowplanError

__all__ = ["CycleReport", "Engine"]


@dataclass(frozen=True, slots=True)
class CycleReport:
    """Outcomes of one cycle; every pending task is in exactly one of the four lists.

    `deferred` were not decided on, because `limit` tasks had been looked at: they belong in the next cycle.
    `closed` are the nodes that took no task.
    """

    now_s: float
    placed: Sequence[tuple[PendingTask, Placed]]
    waiting: Sequence[tuple[PendingTask, Wait]]
    infeasible: Sequence[tuple[PendingTask, Infeasible]]
    degraded: Degraded | None = None
    deferred: Sequence[PendingTask] = ()
    limit: int | None = None
    closed: tuple[str, ...] = ()


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
        self._decoder = GreedyDecoder(
            state,
            self.filters_of,
            self._storage.reserve,
            self._storage.release,
            explains=explains,
            spread_factor=rules.spread_factor,
        )

    def cycle(
        self,
        now_s: float,
        pending: Sequence[PendingTask],
        running: Mapping[str, RunningTask] | None = None,
        *,
        limit: int | None = None,
        closed: Collection[str] = (),
        readings: NodeReadings | None = None,
    ) -> CycleReport:
        """Decide on the pending tasks at time `now_s` and assume the placements in the state.

        Args:
            now_s: the driver's time.
            pending: the tasks, in order of arrival.
            running: tells policies what runs where; it may be left out for policies that do not look.
            limit: how many tasks may be looked at, for a driver that must not be held up; None: all.
            closed: nodes that take no task in this cycle, whatever is free there.
            readings: what was measured of the nodes, by row of the state; None: nothing is.

        Raises:
            InvalidInput: the readings are of another number of rows than the state.
            StowplanError: the policy failed and there is no fallback; nothing is assumed then.
        """
        # 1. What may be known.
        if readings is not None and len(readings) != self.state.capacity:
            raise InvalidInput(
                f"the board of readings has {len(readings)} rows, the state {self.state.capacity}; `grow` it"
            )
        known: Mapping[str, RunningTask] = running if running is not None else {}
        rows = [row for row in map(self.state.row, closed) if row >= 0]
        view = CycleView(
            self.state, now_s, pending, self._rng, known, self.filters_of, limit, rows, readings,
            self._rules.spread_factor,
        )  # fmt: skip
        # 2. What the policy wants; a simpler policy when it fails.
        policy, plan, degraded = self._plan(view)
        # 3. What holds: constraints and live capacity, task by task.
        decoded: Decoded = self._decoder.decode(view, plan, policy.name, limit=limit, closed=rows)
        # 4. What a policy left undone that failed over a task.
        if decoded.error is not None:
            degraded = self._fall_back(view, decoded, policy, limit, rows)
        # 5. Bound the cache; shapes come and go with their workflows.
        forget_oldest(self._filters, shapes_worth_keeping(self.state.capacity))
        return CycleReport(
            now_s,
            decoded.placed,
            decoded.waiting,
            decoded.infeasible,
            degraded,
            decoded.deferred,
            limit,
            tuple(sorted(closed)),
        )

    def predict_s(
        self,
        now_s: float,
        task: PendingTask,
        rows: Sequence[int],
        running: Mapping[str, RunningTask] | None = None,
        readings: NodeReadings | None = None,
    ) -> list[float]:
        """Return how long the policy believes a task would run on each of `rows`, beside what runs there.

        Raises:
            StowplanError: the policy cannot tell.
        """
        known: Mapping[str, RunningTask] = running if running is not None else {}
        view = CycleView(self.state, now_s, [task], self._rng, known, readings=readings)
        plan = self.policy.plan(view)
        return [plan.expected_duration_s(0, row) for row in rows]

    @property
    def rng(self) -> np.random.Generator:
        """The generator, for records of how it stands."""
        return self._rng

    def forget(self, key: str, reason: str) -> Lost:
        """Give back the resources of a placed task whose binding failed, and the storage that it reserved.

        Raises:
            StateConflict: the task is not assumed on any node.
        """
        self.state.apply(PodRemoved(key))
        self._storage.release(key)
        return Lost(key, reason)

    def free_storage(self, key: str) -> None:
        """Give back the storage that a placed task reserved which the driver took off its node itself."""
        self._storage.release(key)

    def filters_of(self, shape: PodShape) -> CompiledFilters:
        """Return the constraints of `shape`, caught up with the state."""
        filters = self._filters.pop(shape, None)
        if filters is None:
            filters = CompiledFilters(self.state, shape, rules=self._rules)
        else:
            filters.refresh()
        self._filters[shape] = filters  # the one used last is the last to be forgotten
        return filters

    def _plan(self, view: CycleView) -> tuple[Policy, Plan, Degraded | None]:
        try:
            return self.policy, self.policy.plan(view), None
        except Exception as error:
            if self._fallback is None:
                raise
            return self._fallback, self._fallback.plan(view), self._degraded(self.policy, error)

    def _fall_back(
        self, view: CycleView, decoded: Decoded, policy: Policy, limit: int | None, closed: list[int]
    ) -> Degraded:
        """Have the fallback decide on what is left of a cycle in which `policy` failed."""
        error = decoded.error
        if error is None:
            raise InternalError("a policy that did not fail is to be replaced")
        fallback = self._fallback
        if fallback is not None and fallback is not policy:
            left = None if limit is None else max(limit - len(decoded.placed), 1)
            rest = CycleView(
                view.state, view.now_s, decoded.deferred, view.rng, view.running, readings=view.readings
            )
            decoded.add(
                self._decoder.decode(rest, fallback.plan(rest), fallback.name, limit=left, closed=closed)
            )
            if decoded.error is None:
                return self._degraded(policy, error)
            error = decoded.error
        self._decoder.undo(decoded.placed)
        raise error

    def _degraded(self, policy: Policy, error: Exception) -> Degraded:
        reason = str(error) if isinstance(error, StowplanError) else f"{type(error).__name__}: {error}"
        return Degraded(f"policy {policy.name}", reason, self._fallback.name if self._fallback else "")
