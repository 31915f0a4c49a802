"""Tasks and moves of executors: what they begin, and how long it takes."""

from __future__ import annotations

import numpy as np

from stowplan.core.physics.compile import inner
from stowplan.simulate.spark.pools import leave_job, move_to_pool, stage_pool
from stowplan.simulate.spark.profiles import FIRST, FRESH, LEVELS, REST
from stowplan.simulate.spark.state import NOWHERE
from stowplan.simulate.spark.views import (
    Handle,
    brackets_of,
    counters_of,
    due_of,
    executors_of,
    jobs_of,
    profiles_of,
    runs_of,
    samples_of,
    stages_of,
)

__all__ = ["begin_task", "next_due", "send"]


@inner
def next_due(handle: Handle) -> int:
    """Return the executor whose task or move ends next, the one begun first among equals; −1: none."""
    due_ms = due_of(handle)
    executors = executors_of(handle)
    first = -1
    first_ms = np.inf
    for executor in range(due_ms.shape[0]):
        time_ms = due_ms[executor]
        if time_ms < first_ms or (
            time_ms == first_ms and first >= 0 and executors[executor].order < executors[first].order
        ):
            first = executor
            first_ms = time_ms
    return first


@inner
def _begin(handle: Handle, executor: int, duration_ms: float) -> None:
    counters = counters_of(handle)[0]
    due_of(handle)[executor] = counters.now_ms + duration_ms
    executors_of(handle)[executor].order = counters.order
    counters.order += 1


@inner
def send(handle: Handle, executor: int, stage: int) -> None:
    """Let an idle executor move to a stage of another job."""
    counters = counters_of(handle)[0]
    record = executors_of(handle)[executor]
    target = stages_of(handle)[stage]
    move_to_pool(handle, executor, NOWHERE)
    leave_job(handle, executor)
    target.moving += 1
    jobs_of(handle)[target.job].supply += 1
    record.stage = stage
    record.begun = 0
    counters.moves += 1
    _begin(handle, executor, counters.moving_ms)


@inner
def _level(handle: Handle, rng: np.random.Generator, local: int) -> int:
    """Draw one of the two levels around a number of executors.

    The public simulator takes the lower one with a probability that *grows* towards the upper. Results are
    published for that, so it stands.
    """
    below = brackets_of(handle)[local, 0]
    above = brackets_of(handle)[local, 1]
    if below == above:
        return below
    point = 1 + int(rng.random() * (LEVELS[above] - LEVELS[below]))
    return below if point <= local - LEVELS[below] else above


@inner
def begin_task(handle: Handle, rng: np.random.Generator, executor: int, stage: int) -> None:
    """Let an executor that is at the stage's job begin one of its tasks; there must be one."""
    counters = counters_of(handle)[0]
    record = executors_of(handle)[executor]
    target = stages_of(handle)[stage]
    job = jobs_of(handle)[target.job]
    profile = profiles_of(handle)[target.profile]
    target.remaining -= 1
    target.running += 1
    if target.remaining == 0:
        job.unlaunched -= 1
    level = _level(handle, rng, job.local)
    extra_ms = 0.0
    wave = FIRST
    if record.last_stage < 0:
        wave = FRESH
    elif record.last_stage == stage:
        wave = REST
    if profile.count[wave * len(LEVELS) + level] == 0:
        if wave == FRESH:
            extra_ms = counters.warmup_ms
        wave = FIRST if wave != FIRST and profile.count[FIRST * len(LEVELS) + level] > 0 else FRESH
    span = wave * len(LEVELS) + level
    sample = profile.start[span] + rng.integers(0, profile.count[span])
    duration_ms = float(samples_of(handle)[sample]) + extra_ms
    target.recent_ms = duration_ms
    run = runs_of(handle)[counters.runs]
    run.start_ms = counters.now_ms
    run.end_ms = counters.now_ms + duration_ms
    run.stage = stage
    run.executor = executor
    run.wave = wave
    run.level = level
    move_to_pool(handle, executor, stage_pool(handle, stage))
    record.stage = stage
    record.last_stage = stage
    record.begun = 1
    counters.runs += 1
    _begin(handle, executor, duration_ms)
