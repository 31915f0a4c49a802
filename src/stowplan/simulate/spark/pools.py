"""Pools of executors, and promises from one to another."""

from __future__ import annotations

from stowplan.core.physics.compile import inner
from stowplan.simulate.spark.state import COMMON_POOL, NOWHERE
from stowplan.simulate.spark.views import (
    Handle,
    commitments_of,
    counters_of,
    executors_of,
    jobs_of,
    pools_of,
    stages_of,
)

__all__ = [
    "commit",
    "first_commitment",
    "job_of_pool",
    "job_pool",
    "leave_job",
    "move_to_pool",
    "offered",
    "park",
    "stage_pool",
    "take_commitment",
]


@inner
def job_pool(job: int) -> int:
    """Return the pool of a job."""
    return 1 + job


@inner
def stage_pool(handle: Handle, stage: int) -> int:
    """Return the pool of a stage."""
    return 1 + counters_of(handle)[0].jobs + stage


@inner
def job_of_pool(handle: Handle, pool: int) -> int:
    """Return the job that a pool belongs to; −1 for the common pool, and for none."""
    count = counters_of(handle)[0].jobs
    if pool <= count:
        return pool - 1 if pool > COMMON_POOL else -1
    return stages_of(handle)[pool - 1 - count].job


@inner
def offered(handle: Handle) -> int:
    """Count the executors of the source that are not promised yet, busy ones included."""
    source = counters_of(handle)[0].source
    if source == NOWHERE:
        return 0
    pool = pools_of(handle)[source]
    return pool.size - pool.committed


@inner
def move_to_pool(handle: Handle, executor: int, pool: int) -> None:
    """Take the executor out of its pool and into another, or (NOWHERE) into none."""
    pools = pools_of(handle)
    record = executors_of(handle)[executor]
    if record.pool != NOWHERE:
        pools[record.pool].size -= 1
    if pool != NOWHERE:
        pools[pool].size += 1
    record.pool = pool


@inner
def leave_job(handle: Handle, executor: int) -> None:
    """Undo the executor's bond with its job, if it has one."""
    record = executors_of(handle)[executor]
    if record.job >= 0:
        job = jobs_of(handle)[record.job]
        job.local -= 1
        job.supply -= 1
        record.job = -1
    record.last_stage = -1


@inner
def park(handle: Handle, executor: int) -> None:
    """Let an idle executor wait: at its job while that has tasks to begin, else in the common pool."""
    record = executors_of(handle)[executor]
    if record.pool == COMMON_POOL:
        return
    if jobs_of(handle)[record.job].unlaunched > 0:
        move_to_pool(handle, executor, job_pool(record.job))
    else:
        move_to_pool(handle, executor, COMMON_POOL)
        leave_job(handle, executor)


@inner
def commit(handle: Handle, stage: int, executors: int) -> None:
    """Promise executors of the source to a stage, or (−1) to the common pool."""
    counters = counters_of(handle)[0]
    commitments = commitments_of(handle)
    source = counters.source
    destination = COMMON_POOL
    if stage >= 0:
        record = stages_of(handle)[stage]
        record.committed += executors
        destination = stage_pool(handle, stage)
        if record.job != job_of_pool(handle, source):
            jobs_of(handle)[record.job].supply += executors
    pools_of(handle)[source].committed += executors
    for index in range(counters.commitments):
        promise = commitments[index]
        if promise.source == source and promise.destination == destination:
            promise.executors += executors
            return
    promise = commitments[counters.commitments]
    promise.source = source
    promise.destination = destination
    promise.executors = executors
    counters.commitments += 1


@inner
def first_commitment(handle: Handle, pool: int) -> int:
    """Return the first promise from a pool that is still open; −1: there is none."""
    if pools_of(handle)[pool].committed == 0:
        return -1
    commitments = commitments_of(handle)
    index = 0
    while commitments[index].source != pool:
        index += 1
    return index


@inner
def take_commitment(handle: Handle, index: int) -> int:
    """Use up one executor of a promise; returns the stage that it was given to, −1 for the common pool."""
    counters = counters_of(handle)[0]
    commitments = commitments_of(handle)
    source = commitments[index].source
    destination = commitments[index].destination
    pools_of(handle)[source].committed -= 1
    commitments[index].executors -= 1
    if commitments[index].executors == 0:
        counters.commitments -= 1
        for later in range(index, counters.commitments):
            commitments[later].source = commitments[later + 1].source
            commitments[later].destination = commitments[later + 1].destination
            commitments[later].executors = commitments[later + 1].executors
    if destination == COMMON_POOL:
        return -1
    stage = destination - 1 - counters.jobs
    record = stages_of(handle)[stage]
    record.committed -= 1
    if record.job != job_of_pool(handle, source):
        jobs_of(handle)[record.job].supply -= 1
    return stage
