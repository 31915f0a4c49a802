"""The event loop: arrivals, ends of tasks and ends of moves, up to the next decision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.physics.compile import compiled, inner
from stowplan.simulate.spark.pools import (
    first_commitment,
    job_pool,
    move_to_pool,
    offered,
    park,
    stage_pool,
)
from stowplan.simulate.spark.rounds import (
    answer,
    first_schedulable,
    fulfil,
    go_to_stage,
    is_legal,
    source_job,
)
from stowplan.simulate.spark.state import COMMON_POOL, NOWHERE
from stowplan.simulate.spark.tasks import begin_task, next_due
from stowplan.simulate.spark.views import (
    Handle,
    active_of,
    counters_of,
    due_of,
    executors_of,
    jobs_of,
    neighbours_of,
    pools_of,
    profiles_of,
    stages_of,
)

__all__ = ["ENDED", "ILLEGAL", "Player", "Rule", "advance", "begin", "may_answer", "player", "step"]

ENDED: Final = -1
"""The end of the episode."""
ILLEGAL: Final = -2
"""The rule gave an answer that is not allowed."""

Rule = Callable[[Handle, NDArray[np.float64]], tuple[int, int]]
"""A compiled rule: the cluster's handle and the rule's own numbers → stage (−1: leave the rest) and number of
executors."""

Player = Callable[[Handle, np.random.Generator, NDArray[np.float64]], int]
"""Plays on from the present decision to the end; returns ENDED or ILLEGAL."""


@inner
def _arrive(handle: Handle) -> None:
    """Let the jobs that are due come in; offers the common pool."""
    counters = counters_of(handle)[0]
    jobs = jobs_of(handle)
    counters.now_ms = jobs[counters.arrived].arrival_ms
    while counters.arrived < counters.jobs and jobs[counters.arrived].arrival_ms == counters.now_ms:
        active_of(handle)[counters.active] = counters.arrived
        counters.active += 1
        counters.arrived += 1
    if pools_of(handle)[COMMON_POOL].size > 0:
        counters.source = COMMON_POOL


@inner
def _end_move(handle: Handle, rng: np.random.Generator, executor: int) -> None:
    record = executors_of(handle)[executor]
    target = stages_of(handle)[record.stage]
    target.moving -= 1
    record.job = target.job
    jobs_of(handle)[target.job].local += 1
    move_to_pool(handle, executor, job_pool(target.job))
    go_to_stage(handle, rng, executor, record.stage)


@inner
def _complete_job(handle: Handle, job: int) -> None:
    counters = counters_of(handle)[0]
    executors = executors_of(handle)
    active = active_of(handle)
    for executor in range(executors.shape[0]):
        if executors[executor].pool == job_pool(job):
            park(handle, executor)
    jobs_of(handle)[job].completed_ms = counters.now_ms
    counters.completed += 1
    counters.active -= 1
    place = 0
    while active[place] != job:
        place += 1
    for later in range(place, counters.active):
        active[later] = active[later + 1]


@inner
def _complete_stage(handle: Handle, stage: int) -> bool:
    """Let the children of a stage that is done know; returns True when one of them can run now."""
    stages = stages_of(handle)
    neighbours = neighbours_of(handle)
    record = stages[stage]
    job = jobs_of(handle)[record.job]
    profile = profiles_of(handle)[record.profile]
    opened = False
    for index in range(profile.first_child, profile.first_child + profile.children):
        child = stages[job.first_stage + neighbours[index]]
        child.waits -= 1
        if child.waits == 0:
            opened = True
    job.unfinished -= 1
    if job.unfinished == 0:
        _complete_job(handle, record.job)
    return opened


@inner
def _end_task(handle: Handle, rng: np.random.Generator, executor: int) -> None:
    """Go on with the stage while it has tasks; else release the executor and offer what is free.

    A stage that opens others offers the idle executors of the job. Else the first executor without a promise
    offers its whole stage, the busy ones too: they are promised ahead.
    """
    counters = counters_of(handle)[0]
    record = executors_of(handle)[executor]
    stage = record.stage
    target = stages_of(handle)[stage]
    target.running -= 1
    if target.remaining > 0:
        begin_task(handle, rng, executor, stage)
        return
    opened = target.running == 0 and _complete_stage(handle, stage)
    pool = stage_pool(handle, stage)
    promise = first_commitment(handle, pool)
    if promise >= 0:
        fulfil(handle, rng, executor, promise)
    else:
        record.last_stage = -1
        if opened:
            park(handle, executor)
    if opened:
        counters.source = job_pool(target.job)
    elif promise < 0:
        counters.source = pool


@inner
def advance(handle: Handle, rng: np.random.Generator) -> bool:
    """Let time go on to the next decision; returns False when nothing is left to happen."""
    counters = counters_of(handle)[0]
    due_ms = due_of(handle)
    executors = executors_of(handle)
    jobs = jobs_of(handle)
    while True:
        executor = next_due(handle)
        time_ms = due_ms[executor] if executor >= 0 else np.inf
        if counters.arrived < counters.jobs and jobs[counters.arrived].arrival_ms <= time_ms:
            _arrive(handle)
        elif executor < 0:
            return False
        else:
            counters.now_ms = time_ms
            due_ms[executor] = np.inf
            if executors[executor].begun == 1:
                _end_task(handle, rng, executor)
            else:
                _end_move(handle, rng, executor)
        if offered(handle) > 0:
            if first_schedulable(handle, source_job(handle)) >= 0:
                return True
            for other in range(executors.shape[0]):
                if executors[other].pool == counters.source and due_ms[other] == np.inf:
                    park(handle, other)
            counters.source = NOWHERE


def player(rule: Rule) -> Player:
    """Build a rule into the loop: what is returned is to be called from a `compiled` function of three lines.

    (numba keeps on disk only functions that get no function as an argument.)
    """

    @inner
    def play(handle: Handle, rng: np.random.Generator, parameters: NDArray[np.float64]) -> int:
        while True:
            stage, executors = rule(handle, parameters)
            if not is_legal(handle, stage, executors):
                return ILLEGAL
            if not answer(handle, rng, stage, executors) and not advance(handle, rng):
                return ENDED

    return play


@compiled
def begin(handle: Handle, rng: np.random.Generator) -> bool:
    """Go to the first decision; returns False when there is none."""
    return advance(handle, rng)


@compiled
def may_answer(handle: Handle, stage: int, executors: int) -> bool:
    """Tell whether an answer is allowed now."""
    return is_legal(handle, stage, executors)


@compiled
def step(handle: Handle, rng: np.random.Generator, stage: int, executors: int) -> bool:
    """Give an allowed answer and go to the next decision; returns False when there is none."""
    return answer(handle, rng, stage, executors) or advance(handle, rng)
