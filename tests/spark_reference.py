"""The Spark cluster once more, in plain Python objects and dictionaries, to hold the compiled kernel against.

Written from the rules, for clarity: everything is looked for anew whenever it is needed.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from stowplan.simulate.spark.decision import LEAVE, Answer
from stowplan.simulate.spark.profiles import FIRST, FRESH, LEVELS, REST, SparkProfiles
from stowplan.simulate.spark.setting import JobSequence, SparkSetting


class Sight(NamedTuple):
    """What is seen at a decision: the time, executors offered, stages to choose from, supply of the jobs."""

    now_s: float
    offered: int
    schedulable: list[int]
    supply: list[int]


COMMON = "common"
Pool = object
Choose = Callable[[list[int], int], Answer]


@dataclass(eq=False)
class StageNow:
    """A stage; as a pool it holds the executors that work on it."""

    number: int
    profile: int
    job: JobNow
    left: int
    parents: list[StageNow] = field(default_factory=list)
    running: int = 0
    moving: int = 0

    @property
    def is_done(self) -> bool:
        """Whether all its tasks are."""
        return self.left == 0 and self.running == 0

    @property
    def can_run(self) -> bool:
        """Whether all its parents are done."""
        return all(parent.is_done for parent in self.parents)


@dataclass(eq=False)
class JobNow:
    """A job; as a pool it holds the executors that are idle at it."""

    number: int
    arrival_ms: float
    stages: list[StageNow] = field(default_factory=list)
    completed_ms: float | None = None

    @property
    def has_tasks_to_begin(self) -> bool:
        """Whether any of its tasks has not begun."""
        return any(stage.left for stage in self.stages)


@dataclass(eq=False)
class ExecutorNow:
    """An executor; it is in no pool while it moves."""

    number: int
    pool: Pool = COMMON
    job: JobNow | None = None
    warm_for: StageNow | None = None
    is_busy: bool = False


class ReferenceCluster:
    """Runs an episode; `choose` gets the ids of the stages that may be chosen and how many are offered."""

    def __init__(
        self,
        profiles: SparkProfiles,
        setting: SparkSetting,
        sequence: JobSequence,
        rng: np.random.Generator,
        choose: Choose,
    ) -> None:
        self.profiles, self.setting, self.rng, self.choose = profiles, setting, rng, choose
        self.now_ms = 0.0
        self.jobs: list[JobNow] = []
        self.executors = [ExecutorNow(number) for number in range(setting.executors)]
        self.promises: dict[Pool, dict[Pool, int]] = {}
        self.source: Pool | None = COMMON
        self.chosen: list[StageNow] = []
        self.present: list[JobNow] = []
        self.runs: list[tuple[float, float, int, int]] = []
        self.seen: list[Sight] = []
        self.events: list[tuple[float, int, Callable[[], None]]] = []
        self.count = 0
        for kind, arrival_ms in zip(sequence.kinds, sequence.arrivals_ms, strict=True):
            self._add_job(int(kind), float(arrival_ms))

    def _add_job(self, kind: int, arrival_ms: float) -> None:
        job = JobNow(len(self.jobs), arrival_ms)
        first = sum(len(other.stages) for other in self.jobs)
        begin, end = self.profiles.first_stage[kind : kind + 2]
        for number, row in enumerate(range(begin, end)):
            tasks = int(self.profiles.stages["tasks"][row])
            job.stages.append(StageNow(first + number, row, job, tasks))
        for stage in job.stages:
            known = self.profiles.stages[stage.profile]
            numbers = self.profiles.neighbours[known["first_parent"] :][: known["parents"]]
            stage.parents = [job.stages[number] for number in numbers]
        self.jobs.append(job)
        self._at(arrival_ms, lambda: self._arrive(job))

    def _at(self, time_ms: float, what: Callable[[], None]) -> None:
        heapq.heappush(self.events, (time_ms, self.count, what))
        self.count += 1

    def run(self) -> None:
        """Run to the end, whether or not all jobs come to theirs."""
        while self.events:
            self.now_ms, _, what = heapq.heappop(self.events)
            what()
            together = self.events and self.events[0][0] == self.now_ms
            if together and self.events[0][1] < len(self.jobs):
                continue  # jobs that arrive at once are decided on together
            if self.offered() == 0:
                continue
            if self.schedulable():
                self._round()
            else:
                for executor in self._idle_in(self.source):
                    self._park(executor)
                self.source = None

    def offered(self) -> int:
        """Executors of the source that are not promised."""
        if self.source is None:
            return 0
        inside = sum(executor.pool is self.source for executor in self.executors)
        return inside - sum(self.promises.get(self.source, {}).values())

    def coming(self, stage: StageNow) -> int:
        """Executors on their way or promised to a stage."""
        return stage.moving + sum(given.get(stage, 0) for given in self.promises.values())

    def supply(self, job: JobNow) -> int:
        """Executors at a job, on their way to it, or promised to it from elsewhere."""
        there = sum(executor.job is job for executor in self.executors)
        moving = sum(stage.moving for stage in job.stages)
        promised = sum(
            count
            for pool, given in self.promises.items()
            if self._job_of(pool) is not job
            for stage, count in given.items()
            if isinstance(stage, StageNow) and stage.job is job
        )
        return there + moving + promised

    def _job_of(self, pool: Pool | None) -> JobNow | None:
        if isinstance(pool, StageNow):
            return pool.job
        return pool if isinstance(pool, JobNow) else None

    def _is_saturated(self, stage: StageNow) -> bool:
        return stage.left <= self.coming(stage)

    def schedulable(self, jobs: list[JobNow] | None = None, own: JobNow | None = None) -> list[StageNow]:
        """The stages that may be chosen, by arrival of their job and number."""
        if own is None or own.number == 0:  # the peculiarity of job 0
            own = self._job_of(self.source)
        return [
            stage
            for job in (self.present if jobs is None else jobs)
            if job is own or self.supply(job) < len(self.executors)
            for stage in job.stages
            if stage not in self.chosen
            and not self._is_saturated(stage)
            and all(self._is_saturated(parent) for parent in stage.parents)
        ]

    def _arrive(self, job: JobNow) -> None:
        self.present.append(job)
        if any(executor.pool is COMMON for executor in self.executors):
            self.source = COMMON

    def _round(self) -> None:
        while self.offered() and (stages := self.schedulable()):
            numbers = [stage.number for stage in stages]
            supply = [self.supply(job) for job in self.present]
            self.seen.append(Sight(self.now_ms / 1000.0, self.offered(), numbers, supply))
            answer = self.choose(numbers, self.offered())
            if answer == LEAVE:
                break
            stage = stages[numbers.index(answer.stage)]
            self._promise(stage, min(answer.executors, stage.left - self.coming(stage)))
            self.chosen.append(stage)
        if self.offered():
            self._promise(COMMON, self.offered())
        for executor in self._idle_in(self.source):
            self._keep_promise(executor)
        self.source = None
        self.chosen = []

    def _promise(self, pool: Pool, count: int) -> None:
        given = self.promises.setdefault(self.source, {})
        given[pool] = given.get(pool, 0) + count

    def _idle_in(self, pool: Pool | None) -> list[ExecutorNow]:
        return [executor for executor in self.executors if executor.pool is pool and not executor.is_busy]

    def _keep_promise(self, executor: ExecutorNow) -> bool:
        given = self.promises.get(executor.pool, {})
        if not given:
            return False
        pool = next(iter(given))
        given[pool] -= 1
        if given[pool] == 0:
            del given[pool]
        if isinstance(pool, StageNow):
            self._go(executor, pool)
        else:
            self._park(executor)
        return True

    def _park(self, executor: ExecutorNow) -> None:
        if executor.job is None:
            return
        if executor.job.has_tasks_to_begin:
            executor.pool = executor.job
        else:
            executor.pool, executor.job, executor.warm_for = COMMON, None, None

    def _go(self, executor: ExecutorNow, stage: StageNow) -> None:
        if stage.left == 0:
            assert executor.job is not None
            others = self.schedulable([executor.job], executor.job) or self.schedulable(own=executor.job)
            if not others:
                self._park(executor)
                return
            stage = others[0]
        if executor.job is not stage.job:
            stage.moving += 1
            executor.pool, executor.job, executor.warm_for = None, None, None
            self._at(self.now_ms + 1000.0 * self.setting.moving_s, lambda: self._end_move(executor, stage))
        elif stage.can_run:
            self._begin(executor, stage)
        else:
            executor.pool, executor.warm_for = stage.job, None

    def _end_move(self, executor: ExecutorNow, stage: StageNow) -> None:
        stage.moving -= 1
        executor.pool = executor.job = stage.job
        self._go(executor, stage)

    def _begin(self, executor: ExecutorNow, stage: StageNow) -> None:
        duration_ms = self._duration_ms(executor, stage)
        stage.left -= 1
        stage.running += 1
        executor.pool, executor.is_busy, executor.warm_for = stage, True, stage
        self.runs.append((self.now_ms, self.now_ms + duration_ms, stage.number, executor.number))
        self._at(self.now_ms + duration_ms, lambda: self._end_task(executor, stage))

    def _duration_ms(self, executor: ExecutorNow, stage: StageNow) -> float:
        local = sum(other.job is stage.job for other in self.executors)
        lower = max([level for level in LEVELS if level <= local], default=LEVELS[0])
        upper = min([level for level in LEVELS if level >= local], default=LEVELS[-1])
        level = lower
        if lower < upper and 1 + int(self.rng.random() * (upper - lower)) > local - lower:
            level = upper
        wave = FRESH if executor.warm_for is None else REST if executor.warm_for is stage else FIRST
        for tried in (wave, FIRST, FRESH):
            samples = self._samples(stage, tried, level)
            if len(samples):
                slow_ms = 1000.0 * self.setting.warmup_s if (wave, tried) == (FRESH, FIRST) else 0.0
                return float(samples[self.rng.integers(len(samples))]) + slow_ms
        raise AssertionError("a stage without samples")

    def _samples(self, stage: StageNow, wave: int, level: int) -> np.ndarray:
        known = self.profiles.stages[stage.profile]
        span = wave * len(LEVELS) + LEVELS.index(level)
        return self.profiles.samples_ms[known["start"][span] :][: known["count"][span]]

    def _end_task(self, executor: ExecutorNow, stage: StageNow) -> None:
        job = stage.job
        executor.is_busy = False
        stage.running -= 1
        if stage.left:
            self._begin(executor, stage)
            return
        opened = stage.is_done and any(stage in other.parents and other.can_run for other in job.stages)
        if all(other.is_done for other in job.stages):
            job.completed_ms = self.now_ms
            self.present.remove(job)
            for other in self._idle_in(job):
                self._park(other)
        was_promised = self._keep_promise(executor)
        if not was_promised:
            executor.warm_for = None
            if opened:
                self._park(executor)
        if opened:
            self.source = job
        elif not was_promised:
            self.source = stage
