"""Greedy placement with live capacity.

Tasks are taken in the plan's order. Each goes to the feasible node with the highest score, and holds its
resources there before the next is looked at, so one batch never overcommits a node. Ties go to the lowest
row, or to the engine's generator when the plan says so. A shape that found no feasible node is not tried
again in the cycle, unless its pod affinity could have been met since.

The tasks of a gang are placed one after another where the first of them stands in the order, all or none: if
one finds no node, those before it are taken back. A gang that is not there as a whole waits for the rest.

A driver that must not be held up bounds how many tasks are looked at; the rest are left for its next cycle.
When a plan fails half-way, what it has placed stands, and the rest is handed back with the error.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stowplan.core.constraints import CompiledFilters
from stowplan.core.decoder.explanation import Explanation
from stowplan.core.decoder.gang_room import PREFERS_TO_WAIT, GangRoom
from stowplan.core.decoder.gpus import choose_gpus
from stowplan.core.decoder.outcomes import Infeasible, Placed, Wait
from stowplan.core.decoder.promises import promise_again, promises
from stowplan.core.decoder.root_complexes import RootComplexes
from stowplan.core.domain import (
    BoundPod,
    ClusterState,
    Gang,
    PendingTask,
    PersistentVolume,
    PersistentVolumeClaim,
    PodBound,
    PodRemoved,
    PodShape,
)
from stowplan.core.policy.interface import CycleView, Plan
from stowplan.errors import InternalError

__all__ = ["CLOSED", "Decoded", "GreedyDecoder"]

CLOSED = "Closed"
"""Stands among filters for nodes that a driver has closed for a time."""

FiltersOf = Callable[[PodShape], CompiledFilters]
ReserveStorage = Callable[[str, Sequence[PersistentVolume | PersistentVolumeClaim]], None]


@dataclass(slots=True)
class Decoded:
    """What came of the pending tasks; every task of the view is in exactly one of the four.

    `deferred` were not decided on, in the order of the plan as far as it goes: the limit was reached, or the
    plan failed with `error`.
    """

    placed: list[tuple[PendingTask, Placed]] = field(default_factory=list[tuple[PendingTask, Placed]])
    waiting: list[tuple[PendingTask, Wait]] = field(default_factory=list[tuple[PendingTask, Wait]])
    infeasible: list[tuple[PendingTask, Infeasible]] = field(
        default_factory=list[tuple[PendingTask, Infeasible]]
    )
    deferred: list[PendingTask] = field(default_factory=list[PendingTask])
    error: Exception | None = None

    def add(self, other: Decoded) -> None:
        """Take in what came of the tasks that were deferred here."""
        self.placed += other.placed
        self.waiting += other.waiting
        self.infeasible += other.infeasible
        self.deferred = other.deferred
        self.error = other.error


class GreedyDecoder:
    """Decodes plans onto one cluster state."""

    def __init__(
        self,
        state: ClusterState,
        filters_of: FiltersOf,
        reserve_storage: ReserveStorage,
        release_storage: Callable[[str], None],
        *,
        explains: bool,
        spread_factor: float = 1.0,
    ) -> None:
        """Place on `state`.

        Args:
            state: where placements are applied.
            filters_of: gives the compiled constraints of a shape, caught up with the state.
            reserve_storage: told of the volumes and claims that a pod (by key) takes with its node.
            release_storage: told that a pod (by key) does not take them after all.
            explains: whether placements carry explanations.
            spread_factor: what a node keeps of its score where it would spread GPUs (`RuleTable`).
        """
        self._state = state
        self._release_storage = release_storage
        self._spread_factor = spread_factor
        self._root_complexes = RootComplexes(state)
        self._reserve_storage = reserve_storage
        self._filters_of = filters_of
        self._explains = explains
        self._closed: NDArray[np.intp] = np.zeros(0, dtype=np.intp)

    def decode(
        self,
        view: CycleView,
        plan: Plan,
        policy_name: str,
        *,
        limit: int | None = None,
        closed: Collection[int] = (),
    ) -> Decoded:
        """Place what fits. The placements are applied to the state.

        Args:
            view: what is decided on.
            plan: in which order, and how nodes are scored.
            policy_name: whose plan it is, for messages.
            limit: how many tasks may be looked at; None: all. Tasks whose shape is known to fit nowhere cost
                nothing and do not count.
            closed: rows that take no task in this cycle.
        """
        decoded = Decoded()
        seen = bytearray(len(view.pending))
        self._closed = np.array(sorted(closed), dtype=np.intp)
        try:
            self._decode(view, plan, policy_name, decoded, seen, limit)
        except Exception as error:  # noqa: BLE001 - whatever a policy raises: a simpler one takes over, visibly
            decoded.error = error
            waits = {task.key for part in (decoded.placed, decoded.waiting) for task, _ in part}
            waits.update(task.key for task, _ in decoded.infeasible)
            decoded.deferred = [task for task in view.pending if task.key not in waits]
        return decoded

    def undo(self, placed: Sequence[tuple[PendingTask, Placed]]) -> None:
        """Take placements back: nobody will carry them out."""
        for task, _ in placed:
            self._state.apply(PodRemoved(task.key))
            self._release_storage(task.key)

    def _decode(
        self,
        view: CycleView,
        plan: Plan,
        policy_name: str,
        decoded: Decoded,
        seen: bytearray,
        limit: int | None,
    ) -> None:
        refusal_of: dict[PodShape, Wait | Infeasible] = {}
        gangs: GangRoom | None = None
        left = len(seen) if limit is None else limit
        for index in plan.order:
            if not 0 <= index < len(seen) or seen[index]:
                raise InternalError(
                    f"plan of {policy_name!r} orders task {index} of {len(seen)} twice or out of range"
                )
            seen[index] = 1
            task = view.pending[index]
            gang_key = task.gang_key
            if gang_key is not None:
                gangs = GangRoom(view.pending, plan.order) if gangs is None else gangs
                left -= self._decode_gang(
                    view, plan, gangs.take(gang_key), policy_name, decoded, gangs, left=left
                )
                continue
            shape = task.task.shape
            refusal = refusal_of.get(shape)
            if refusal is None:
                if left <= 0:
                    decoded.deferred.append(task)
                    continue
                left -= 1
                filters = self._filters_of(shape)
                row, outcome = self._choose(view, plan, index, filters)
                if row >= 0:
                    decoded.placed.append((task, self._place(task, plan, index, row, filters, policy_name)))
                    continue
                refusal = outcome
                if not shape.affinity and not self._open(filters).any():
                    refusal_of[shape] = refusal
            if isinstance(refusal, Infeasible):
                decoded.infeasible.append((task, refusal))
            else:
                decoded.waiting.append((task, refusal))
        if len(plan.order) < len(seen):
            held_back = Wait(f"{policy_name} holds the task back")
            decoded.waiting += [
                (view.pending[i], held_back) for i, was_seen in enumerate(seen) if not was_seen
            ]

    def _decode_gang(  # noqa: PLR0913  (the state of one decoding)
        self,
        view: CycleView,
        plan: Plan,
        members: Sequence[int],
        policy_name: str,
        decoded: Decoded,
        gangs: GangRoom,
        *,
        left: int,
    ) -> int:
        """Place the tasks `members` of a gang, all or none; return how many were looked at, of `left`.

        The second time that a gang is met, there are no members.
        """
        tasks = [view.pending[member] for member in members]
        if not tasks or left <= 0:
            decoded.deferred += tasks
            return 0
        gang = tasks[0].task.gang
        if gang is None:
            raise InternalError(f"task {tasks[0].key!r} was taken for one of a gang")
        refusal = gangs.known_refusal(tasks, self._state, self._filters_of)
        if refusal is None:
            refusal = self._place_gang(view, plan, members, policy_name, decoded)
            if refusal is None:
                return len(tasks)
            gangs.note_refusal(tasks, refusal)
        told = _of_gang(gang, refusal)
        if isinstance(told, Infeasible):
            decoded.infeasible += [(task, told) for task in tasks]
        else:
            decoded.waiting += [(task, told) for task in tasks]
        return len(tasks)

    def _place_gang(
        self, view: CycleView, plan: Plan, members: Sequence[int], policy_name: str, decoded: Decoded
    ) -> Wait | Infeasible | None:
        """Return None when all have a node, else why one has none; then nothing has changed."""
        promised = promises(self._state)
        placed: list[tuple[PendingTask, Placed]] = []
        is_whole = False
        outcome: Wait | Infeasible = _NO_REFUSAL
        try:
            for member in members:
                task = view.pending[member]
                filters = self._filters_of(task.task.shape)
                row, outcome = self._choose(view, plan, member, filters)
                if row < 0:
                    return outcome
                placed.append((task, self._place(task, plan, member, row, filters, policy_name)))
            is_whole = True
        finally:
            if not is_whole:
                self.undo(placed[::-1])
                promise_again(self._state, promised)
        decoded.placed += placed
        return None

    def _open(self, filters: CompiledFilters) -> NDArray[np.bool_]:
        """Return which rows no filter refuses and are not closed in this cycle."""
        if not self._closed.size:
            return filters.feasible
        is_open = filters.feasible.copy()
        is_open[self._closed] = False
        return is_open

    def _choose(
        self, view: CycleView, plan: Plan, index: int, filters: CompiledFilters
    ) -> tuple[int, Wait | Infeasible]:
        feasible = self._open(filters)
        if not feasible[feasible.argmax()]:  # as `not any()`, in a third of the time
            refused = filters.counts()
            if feasible is not filters.feasible and filters.feasible.any():
                refused[CLOSED] = int(np.count_nonzero(filters.feasible))
                return -1, Wait(_in_words(refused, self._state.node_count), refused)
            if filters.could_ever_fit():
                return -1, Wait(_in_words(refused, self._state.node_count), refused)
            return -1, Infeasible(_in_words(refused, self._state.node_count), refused)
        scores = plan.scores(index, filters)
        request = view.pending[index].task.shape.gpu
        if self._spread_factor < 1.0 and request is not None and request.count > 1:
            scores = self._root_complexes.weigh(scores, request, self._spread_factor)
        row = int(scores.argmax())
        best = scores[row]
        if not feasible[row] or not best > -np.inf:  # the best of all is often feasible: no need to mask
            scores = np.where(feasible, scores, -np.inf)
            row = int(scores.argmax())
            best = scores[row]
            if best == -np.inf:
                return -1, Wait(PREFERS_TO_WAIT, filters.counts())
        if plan.breaks_ties_randomly:
            (ties,) = ((scores == best) & feasible).nonzero()
            if ties.size > 1:
                row = int(ties[view.rng.integers(ties.size)])
        self._scores: NDArray[np.float64] = scores
        return row, _NO_REFUSAL

    def _place(
        self,
        pending: PendingTask,
        plan: Plan,
        index: int,
        row: int,
        filters: CompiledFilters,
        policy_name: str,
    ) -> Placed:
        shape = pending.task.shape
        gpus: tuple[int, ...] = ()
        if shape.gpu is not None:
            gpus = plan.choose_gpus(index, row) or choose_gpus(self._state, row, shape.gpu)
        expected_s = plan.expected_duration_s(index, row)
        node_name = self._state.node(row).name
        explanation = None
        if self._explains:
            explanation = self._explain(plan, index, row, filters, policy_name, expected_s)
        storage: tuple[PersistentVolume | PersistentVolumeClaim, ...] = ()
        if shape.volumes:
            storage = tuple(filters.storage_to_assume(row))
            self._reserve_storage(pending.key, storage)
        self._state.apply(PodBound(BoundPod(pending.key, shape, gpus), node_name))
        return Placed(pending.key, node_name, row, expected_s, gpus, explanation, storage)

    def _explain(
        self, plan: Plan, index: int, row: int, filters: CompiledFilters, policy_name: str, expected_s: float
    ) -> Explanation:
        feasible = self._open(filters)
        masked = np.where(feasible, self._scores, -np.inf)
        score = float(masked[row])
        masked[row] = -np.inf
        second = int(masked.argmax())
        has_second = masked[second] > -np.inf
        parts = sorted(plan.contributions(index, row).items(), key=lambda part: (-abs(part[1]), part[0]))
        return Explanation(
            policy=policy_name,
            candidates=int(np.count_nonzero(feasible)),
            refused=filters.counts(),
            score=score,
            runner_up=self._state.node(second).name if has_second else None,
            margin=score - float(masked[second]) if has_second else None,
            expected_duration_s=expected_s,
            contributions=tuple(parts),
        )


_NO_REFUSAL = Wait("")


def _of_gang(gang: Gang, refusal: Wait | Infeasible) -> Wait | Infeasible:
    reason = f"gang {gang.name!r} of {gang.size}: {refusal.reason}"
    if isinstance(refusal, Infeasible):
        return Infeasible(reason, refusal.refused)
    return Wait(reason, refusal.refused)


def _in_words(refused: dict[str, int], node_count: int) -> str:
    if node_count == 0:
        return "the cluster has no nodes"
    parts = ", ".join(
        f"{count} by {name}" for name, count in sorted(refused.items(), key=lambda part: (-part[1], part[0]))
    )
    return f"0/{node_count} nodes can take the pod: refused {parts}"
