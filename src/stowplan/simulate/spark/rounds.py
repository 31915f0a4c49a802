"""Rounds of decisions: which stages may be chosen, what an answer does, and where executors then go."""

from __future__ import annotations

import numpy as np

from stowplan.core.physics.compile import inner
from stowplan.simulate.spark.pools import (
    commit,
    first_commitment,
    job_of_pool,
    job_pool,
    move_to_pool,
    offered,
    park,
    take_commitment,
)
from stowplan.simulate.spark.state import NOWHERE
from stowplan.simulate.spark.tasks import begin_task, send
from stowplan.simulate.spark.views import (
    Handle,
    active_of,
    counters_of,
    due_of,
    executors_of,
    jobs_of,
    neighbours_of,
    profiles_of,
    stages_of,
)

__all__ = [
    "answer",
    "demand",
    "first_schedulable",
    "fulfil",
    "go_to_stage",
    "is_legal",
    "schedulable",
    "source_job",
    "takes_more",
]


@inner
def demand(handle: Handle, stage: int) -> int:
    """Count the executors that a stage can take beyond those that come to it; 0 or less: it is saturated."""
    record = stages_of(handle)[stage]
    return record.remaining - record.moving - record.committed


@inner
def source_job(handle: Handle) -> int:
    """Return the job whose executors are offered; −1 when they are of the common pool."""
    return job_of_pool(handle, counters_of(handle)[0].source)


@inner
def takes_more(handle: Handle, job: int, own: int) -> bool:
    """Tell whether a job may be given executors: it has not all there are, or they are its own already."""
    return job == own or jobs_of(handle)[job].supply < counters_of(handle)[0].executors


@inner
def schedulable(handle: Handle, stage: int) -> bool:
    """Tell whether a stage of a job that takes more may be chosen.

    It must not be saturated nor have been chosen in this round, and all its parents must be saturated: they
    need not be done, so that executors can be promised to it ahead.
    """
    stages = stages_of(handle)
    record = stages[stage]
    if record.selected == counters_of(handle)[0].rounds or demand(handle, stage) <= 0:
        return False
    if record.waits == 0:
        return True
    first = jobs_of(handle)[record.job].first_stage
    neighbours = neighbours_of(handle)
    profile = profiles_of(handle)[record.profile]
    for index in range(profile.first_parent, profile.first_parent + profile.parents):
        if demand(handle, first + neighbours[index]) > 0:
            return False
    return True


@inner
def _first_of_job(handle: Handle, job: int) -> int:
    record = jobs_of(handle)[job]
    for stage in range(record.first_stage, record.first_stage + record.stages):
        if schedulable(handle, stage):
            return stage
    return -1


@inner
def first_schedulable(handle: Handle, own: int) -> int:
    """Return the first stage that may be chosen, by arrival of the job and number; −1: there is none."""
    active = active_of(handle)
    for place in range(counters_of(handle)[0].active):
        job = active[place]
        if takes_more(handle, job, own):
            stage = _first_of_job(handle, job)
            if stage >= 0:
                return stage
    return -1


@inner
def _backup_stage(handle: Handle, executor: int) -> int:
    """Return the stage for an executor whose own needs it no longer: of its job first, else of any; or −1."""
    job = executors_of(handle)[executor].job
    # Job 0 counts as no job here; the public simulator's results have it so.
    own = job if job > 0 else source_job(handle)
    if takes_more(handle, job, own):
        stage = _first_of_job(handle, job)
        if stage >= 0:
            return stage
    return first_schedulable(handle, own)


@inner
def go_to_stage(handle: Handle, rng: np.random.Generator, executor: int, stage: int) -> None:
    """Let an idle executor work on a stage, move to its job, or wait there for the stage's parents."""
    record = executors_of(handle)[executor]
    if stages_of(handle)[stage].remaining == 0:
        stage = _backup_stage(handle, executor)
        if stage < 0:
            park(handle, executor)
            return
    target = stages_of(handle)[stage]
    if record.job != target.job:
        send(handle, executor, stage)
    elif target.waits > 0:
        record.last_stage = -1
        move_to_pool(handle, executor, job_pool(record.job))
    else:
        begin_task(handle, rng, executor, stage)


@inner
def fulfil(handle: Handle, rng: np.random.Generator, executor: int, promise: int) -> None:
    """Send an idle executor where a promise of its pool says."""
    stage = take_commitment(handle, promise)
    if stage < 0:
        park(handle, executor)
    else:
        go_to_stage(handle, rng, executor, stage)


@inner
def is_legal(handle: Handle, stage: int, executors: int) -> bool:
    """Tell whether an answer may be given: −1 leaves what is offered where it is."""
    if stage < 0:
        return stage == -1
    if stage >= stages_of(handle).shape[0] or not 1 <= executors <= offered(handle):
        return False
    job = stages_of(handle)[stage].job
    if job >= counters_of(handle)[0].arrived:
        return False
    return takes_more(handle, job, source_job(handle)) and schedulable(handle, stage)


@inner
def answer(handle: Handle, rng: np.random.Generator, stage: int, executors: int) -> bool:
    """Promise executors of the source to a stage, as many as it takes; −1: leave the rest.

    Returns True when the round goes on: executors are still offered and a stage may be chosen. Else the
    round is closed and the executors are sent.
    """
    counters = counters_of(handle)[0]
    counters.decisions += 1
    if stage < 0:
        commit(handle, -1, offered(handle))
    else:
        commit(handle, stage, min(executors, demand(handle, stage)))
        stages_of(handle)[stage].selected = counters.rounds
    if offered(handle) > 0 and first_schedulable(handle, source_job(handle)) >= 0:
        return True
    _close_round(handle, rng)
    return False


@inner
def _close_round(handle: Handle, rng: np.random.Generator) -> None:
    """Promise what is left to the common pool, send the idle executors of the source, and offer no more."""
    counters = counters_of(handle)[0]
    executors = executors_of(handle)
    due_ms = due_of(handle)
    source = counters.source
    left = offered(handle)
    if left > 0:
        commit(handle, -1, left)
    for executor in range(executors.shape[0]):
        if executors[executor].pool == source and due_ms[executor] == np.inf:
            fulfil(handle, rng, executor, first_commitment(handle, source))
    counters.source = NOWHERE
    counters.rounds += 1
