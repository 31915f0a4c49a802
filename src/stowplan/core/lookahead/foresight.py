"""What would come of a cycle's placements: when its workflows would be complete.

A fluid estimate. Tasks are taken with the mean of their demands. On each node they share resources by the
contention law (`core.policy.prediction`); between two ends their rates are constant, so the next end is
known. When a task ends, its node's rates are worked out anew, tasks whose parents are done become ready, and
those that wait take the room that is free: waiting ones in the order of the plan, new ones before the first
whose workflow has more work left. After `horizon` ends the rest is estimated: a running task ends at its
rate, a waiting one when the work before it has passed through all cores, and after each comes the longest way
to the end of its workflow.

**Objective**: the mean over the workflows that have a task running or pending of the seconds from now until
the last of their tasks is expected to end; of two plans that are equal in this, the one whose tasks end
sooner on average (which weighs a hundredth).

Left out: constraints that only pods to come would break, phases, transfers, pods of which only the request is
known beyond the cores they ask for (they stay).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stowplan.core.constraints.filter import bit_of
from stowplan.core.decoder.greedy import Decoded
from stowplan.core.domain import PendingTask, PodShape, WorkflowProgress
from stowplan.core.lookahead.rates import Rates
from stowplan.core.physics.vocabulary import Resource
from stowplan.core.policy.demand import TaskDemand
from stowplan.core.policy.interface import CycleView

__all__ = ["Foreseen", "Foresight"]

_ROOM = bit_of("NodeResourcesFit")
_TASK_WEIGHT = 0.01
_OVERDUE_SHARE = 0.1  # of the time it has run, a task that should have ended is taken to run on


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What is foreseen: the objective in seconds, and how many ends of tasks it rests on."""

    objective_s: float
    ends: int


@dataclass(slots=True)
class _Job:
    """A task in the fluid: what is left of it, at which rate, and what comes after it."""

    task: PendingTask
    demand: TaskDemand
    left: float  # seconds of work on the reference machine
    tail_s: float  # the longest way after it
    row: int = -1
    rate: float = 0.0


@dataclass(frozen=True, slots=True)
class _Needs:
    """What a shape asks for, twice, and the rows that nothing but room keeps from it, shape (capacity,)."""

    columns: NDArray[np.intp]
    amounts: NDArray[np.int64]
    pairs: list[tuple[int, int]]
    allowed: NDArray[np.bool_]


@dataclass(slots=True)
class _NodeLoad:
    """What runs on one row: jobs of ours, and demands of pods that stay."""

    jobs: list[_Job] = field(default_factory=list[_Job])
    others: list[TaskDemand] = field(default_factory=list[TaskDemand])
    since_s: float = 0.0
    version: int = 0


class Foresight:
    """Foresees for the candidates of one cycle; what runs already is read once."""

    def __init__(self, view: CycleView, rates: Rates, horizon: int) -> None:
        """Read what runs.

        Args:
            view: the cycle.
            rates: the contention law.
            horizon: so many ends of tasks are followed.
        """
        self._view = view
        self._rates = rates
        self._horizon = horizon
        state = view.state
        self._running: list[_Job] = []
        self._others: dict[int, list[TaskDemand]] = {}
        self._cores = 0.0
        for _, row in state.rows():
            cores = float(rates.capacity(state.node(row))[Resource.CPU])
            self._cores += cores if np.isfinite(cores) else 0.0
        for key, (pod, row) in state.pods.items():
            running = view.running.get(key)
            if running is None:
                self._others.setdefault(row, []).append(rates.demand_of_pod(pod.shape))
                continue
            job = _job(running.pending, rates)
            job.row = row
            took_s = max(view.now_s - running.started_s, 0.0)
            whole_s = max(running.expected_end_s - running.started_s, 1e-9)
            left_s = max(running.expected_end_s - view.now_s, _OVERDUE_SHARE * took_s, 1e-6)
            job.left = left_s / whole_s * running.pending.task.expected_s
            self._running.append(job)

    def foresee(self, decoded: Decoded, order: Sequence[int], is_over: Callable[[], bool]) -> Foreseen | None:
        """Return what would come of `decoded`, which stands in the state; None: the time was over before.

        Args:
            decoded: placements and what waits.
            order: of the plan, over `view.pending`.
            is_over: whether to give up; asked again and again.
        """
        run = _Run(self._view, self._rates, self._others)
        for job in self._running:
            run.put(_Job(job.task, job.demand, job.left, job.tail_s), job.row)
        placed = {task.key: outcome.row for task, outcome in decoded.placed}
        never = {task.key for task, _ in decoded.infeasible}
        for index in order:
            task = self._view.pending[index]
            if task.key in placed:
                run.put(_job(task, self._rates), placed[task.key])
            elif task.key not in never:
                run.queue.append(_job(task, self._rates))
        for row in run.rows():
            if is_over():
                return None
            run.solve(row)
        ends = 0
        while ends < self._horizon and run.step():
            ends += 1
            if is_over():
                return None
        return Foreseen(run.objective_s(self._cores), ends)


class _Run:
    """One fluid, from now on."""

    def __init__(
        self,
        view: CycleView,
        rates: Rates,
        others: dict[int, list[TaskDemand]],
    ) -> None:
        self.queue: list[_Job] = []
        self._view = view
        self._rates = rates
        state = view.state
        self._free = state.allocatable - state.requested
        self._needs_of: dict[PodShape, _Needs] = {}
        self._nodes: dict[int, _NodeLoad] = {}
        self._others = others
        self._ends: list[tuple[float, int, int, int]] = []  # time, sequence, row, version of the row
        self._sequence = 0
        self._now_s = 0.0
        self._unfinished: dict[int, NDArray[np.int32]] = {}
        self._complete_s: dict[int, float] = {}
        self._ended_s = 0.0
        self._ended = 0

    def put(self, job: _Job, row: int) -> None:
        """Have a job run on a row whose room it holds already."""
        node = self._nodes.get(row)
        if node is None:
            node = self._nodes[row] = _NodeLoad(others=self._others.get(row, []))
        job.row = row
        node.jobs.append(job)

    def rows(self) -> list[int]:
        """Return the rows with tasks of ours."""
        return list(self._nodes)

    def step(self) -> bool:
        """Go to the next end of a task and let follow what follows; tell whether there was one."""
        while self._ends:
            end_s, _, row, version = heapq.heappop(self._ends)
            node = self._nodes[row]
            if node.version == version:
                break
        else:
            return False
        self._now_s = end_s
        self._progress(node)
        job = min(node.jobs, key=lambda one: one.left)
        node.jobs.remove(job)
        self._ended_s += end_s
        self._ended += 1
        self._give_back(job.task.task.shape, row)
        key = id(job.task.progress)
        self._complete_s[key] = max(self._complete_s.get(key, 0.0), end_s)
        changed = {row}
        for child in self._ready_after(job.task):
            at = self._find_row(child.task.task.shape, child.demand)
            if at >= 0:
                self._start(child, at)
                changed.add(at)
            else:
                self._enqueue(child)
        self._fill(row)
        for each in sorted(changed):
            self.solve(each)
        return True

    def _fill(self, row: int) -> None:
        """Start on a row what waits and fits there, in order; one that does not speaks for its shape."""
        if not self.queue:
            return
        waiting: list[_Job] = []
        refused: set[PodShape] = set()
        room: list[int] = self._free[row].tolist()
        for one in self.queue:
            shape = one.task.task.shape
            if shape not in refused:
                needs = self._needs(shape)
                if len(room) < self._free.shape[1]:  # it asks for what no node has, as nobody did before
                    room = self._free[row].tolist()
                if needs.allowed[row] and all(room[column] >= amount for column, amount in needs.pairs):
                    self._start(one, row)
                    room = self._free[row].tolist()
                    continue
                refused.add(shape)
            waiting.append(one)
        self.queue = waiting

    def objective_s(self, cores: float) -> float:
        """Return what the module calls the objective, with the rest estimated."""
        complete_s, total_s, tasks = dict(self._complete_s), self._ended_s, self._ended

        def ends(job: _Job, end_s: float) -> None:
            nonlocal total_s, tasks
            key = id(job.task.progress)
            complete_s[key] = max(complete_s.get(key, 0.0), end_s + job.tail_s)
            total_s += end_s
            tasks += 1

        for node in self._nodes.values():
            for job in node.jobs:
                ends(job, node.since_s + job.left / max(job.rate, 1e-9))
        ahead_core_s = 0.0
        for job in self.queue:
            ahead_core_s += job.left * max(float(job.demand.per_s[Resource.CPU]), 0.1)
            ends(job, self._now_s + ahead_core_s / max(cores, 1.0) + job.left)
        if not tasks:
            return 0.0
        mean_s = sum(complete_s.values()) / len(complete_s)
        return mean_s + _TASK_WEIGHT * total_s / tasks

    # ---- nodes ----

    def _progress(self, node: _NodeLoad) -> None:
        passed_s = self._now_s - node.since_s
        for job in node.jobs:
            job.left = max(job.left - passed_s * job.rate, 0.0)
        node.since_s = self._now_s

    def solve(self, row: int) -> None:
        """Work out the rates on a row anew, and when the next of its tasks ends."""
        node = self._nodes[row]
        node.version += 1
        if not node.jobs:
            return
        company = [job.demand for job in node.jobs] + node.others
        rates = self._rates.of(self._view.state.node(row), company)
        end_s = np.inf
        for job, rate in zip(node.jobs, rates, strict=False):
            job.rate = max(rate, 1e-9)
            end_s = min(end_s, node.since_s + job.left / job.rate)
        self._sequence += 1
        heapq.heappush(self._ends, (end_s, self._sequence, row, node.version))

    def _start(self, job: _Job, row: int) -> None:
        needs = self._needs(job.task.task.shape)
        self._free[row, needs.columns] -= needs.amounts
        node = self._nodes.get(row)
        if node is not None:
            self._progress(node)
        self.put(job, row)
        self._nodes[row].since_s = self._now_s

    def _give_back(self, shape: PodShape, row: int) -> None:
        needs = self._needs(shape)
        self._free[row, needs.columns] += needs.amounts

    def _needs(self, shape: PodShape) -> _Needs:
        needs = self._needs_of.get(shape)
        if needs is not None:
            return needs
        columns, amounts = self._view.state.request_vector(shape.requests)
        if columns.max() >= self._free.shape[1]:  # a resource that no node has
            missing = int(columns.max()) + 1 - self._free.shape[1]
            self._free = np.pad(self._free, ((0, 0), (0, missing)))
        filters_of = self._view.filters_of
        assert filters_of is not None  # noqa: S101  (a what-if has asked before)
        allowed = (filters_of(shape).refusing_bits() & ~np.int32(_ROOM)) == 0
        pairs = list(zip(columns.tolist(), amounts.tolist(), strict=True))
        needs = self._needs_of[shape] = _Needs(columns, amounts, pairs, allowed)
        return needs

    # ---- what waits ----

    def _ready_after(self, task: PendingTask) -> list[_Job]:
        progress, workflow = task.progress, task.progress.workflow
        unfinished = self._unfinished.get(id(progress))
        if unfinished is None:
            unfinished = self._unfinished[id(progress)] = progress.unfinished_parents.copy()
        ready: list[_Job] = []
        for child in workflow.children[task.index]:
            unfinished[child] -= 1
            if unfinished[child] == 0:
                child_task = PendingTask(f"{progress.key}/{child}", progress, child, self._now_s)
                ready.append(_job(child_task, self._rates))
        return ready

    def _enqueue(self, job: _Job) -> None:
        left_s = job.task.progress.remaining_work_s
        for at, other in enumerate(self.queue):
            if other.task.progress.remaining_work_s > left_s:
                self.queue.insert(at, job)
                return
        self.queue.append(job)

    def _find_row(self, shape: PodShape, demand: TaskDemand) -> int:
        """Return the row with room where the task runs fastest by the cores that are asked for, −1: none."""
        state = self._view.state
        needs = self._needs(shape)
        fits = state.is_node & needs.allowed & (self._free[:, needs.columns] >= needs.amounts).all(axis=1)
        rows = np.flatnonzero(fits).tolist()
        best, best_s = -1, np.inf
        for row in rows:
            node = self._nodes.get(row)
            kind = state.node(row).hardware.machine_type
            busy = float(demand.per_s[Resource.CPU])
            if node is not None:
                busy += sum(float(job.demand.per_s[Resource.CPU]) for job in node.jobs)
            cores = float(self._rates.capacity(state.node(row))[Resource.CPU])
            stretch = max(busy / cores, 1.0)
            takes_s = stretch * demand.factor_on(kind)
            if takes_s < best_s:
                best, best_s = row, takes_s
        return best


def _job(pending: PendingTask, rates: Rates) -> _Job:
    task = pending.task
    tail_s = _tail_s(pending.progress, pending.index)
    return _Job(pending, rates.demand_of(task), max(task.expected_s, 1e-6), tail_s)


def _tail_s(progress: WorkflowProgress, index: int) -> float:
    return max(float(progress.upward_rank_s[index]) - progress.workflow.tasks[index].expected_s, 0.0)
