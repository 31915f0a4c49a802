"""The state of a Spark cluster as flat records: what the compiled loop works on.

An executor is in one *pool*: the common pool (of no job), the pool of a job (idle there), the pool of a stage
(at work on it, or just done with it), or none while it moves. A *commitment* promises executors of one pool
to another. It is a count, not a list of executors: whoever gets free first in the pool goes.

Times are milliseconds, the unit of the measured durations, so that sums are exact.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stowplan.errors import InvalidInput
from stowplan.simulate.spark.profiles import LEVELS, SparkProfiles
from stowplan.simulate.spark.setting import JobSequence, SparkSetting

__all__ = [
    "COMMITMENT_DTYPE",
    "COMMON_POOL",
    "COUNTER_DTYPE",
    "EXECUTOR_DTYPE",
    "JOB_DTYPE",
    "NOWHERE",
    "POOL_DTYPE",
    "RUN_DTYPE",
    "STAGE_DTYPE",
    "State",
    "fresh_state",
]

NOWHERE: Final = -1
"""The pool of an executor on its way; the source when no executors are offered."""
COMMON_POOL: Final = 0
"""Pools count on: one per job, then one per stage of each job."""


def _record(floats: str, whole: str) -> np.dtype[np.void]:
    fields: list[Any] = [(name, "f8") for name in floats.split()] + [(name, "i8") for name in whole.split()]
    return np.dtype(fields, align=True)


JOB_DTYPE: Final = _record(
    "arrival_ms completed_ms", "kind first_stage stages supply local unlaunched unfinished"
)
"""A job. `completed_ms` is NaN until then. `supply`: executors at it, on their way to it, and promised to it
from elsewhere; `local`: executors at it. `unlaunched`, `unfinished`: stages with tasks not yet begun, not
yet done."""

STAGE_DTYPE: Final = _record("recent_ms", "profile job remaining running moving committed waits selected")
"""A stage. `recent_ms` is the duration of the task begun last (at first the mean of its profile);
`remaining` tasks are not begun; `moving` and `committed` executors come; `waits` for that many parents;
`selected`: the last round that it was chosen in."""

EXECUTOR_DTYPE: Final = _record("", "pool job stage last_stage begun order")
"""An executor. `job` it is at (−1: none); `stage` it works on or moves to; `last_stage` it worked on
(−1: idle since, so its next task is fresh); `begun` tells a task (1) from a move (0); `order` of what it
does among all that was begun."""

POOL_DTYPE: Final = _record("", "size committed")
"""Executors in a pool, and how many of them are promised to other pools."""

COMMITMENT_DTYPE: Final = _record("", "source destination executors")
"""Promises in the order they were given."""

RUN_DTYPE: Final = _record("start_ms end_ms", "stage executor wave level")
"""A task that was run, in the order of the starts."""

COUNTER_DTYPE: Final = _record(
    "now_ms moving_ms warmup_ms",
    "executors jobs arrived active completed commitments source order runs moves decisions rounds",
)
"""Everything that is one number. `source` is the pool whose executors are offered."""


class State(NamedTuple):
    """All tables, handed to compiled functions as one handle."""

    profiles: NDArray[np.void]
    neighbours: NDArray[np.int64]
    samples_ms: NDArray[np.float64]
    brackets: NDArray[np.int64]
    jobs: NDArray[np.void]
    stages: NDArray[np.void]
    executors: NDArray[np.void]
    due_ms: NDArray[np.float64]
    pools: NDArray[np.void]
    commitments: NDArray[np.void]
    active: NDArray[np.int64]
    runs: NDArray[np.void]
    counters: NDArray[np.void]


def fresh_state(setting: SparkSetting, profiles: SparkProfiles, sequence: JobSequence) -> State:
    """Make the tables of a cluster before its first job.

    Raises:
        InvalidInput: a job is of a kind that the profiles do not have.
    """
    kinds = sequence.kinds
    if not ((kinds >= 0) & (kinds < profiles.kinds)).all():
        raise InvalidInput(f"kinds of jobs must lie in 0 … {profiles.kinds - 1}; {kinds.tolist()} do not")
    count = len(kinds)
    sizes = (profiles.first_stage[1:] - profiles.first_stage[:-1])[kinds]
    jobs = np.zeros(count, JOB_DTYPE)
    jobs["arrival_ms"] = sequence.arrivals_ms
    jobs["completed_ms"] = np.nan
    jobs["kind"] = kinds
    jobs["first_stage"] = np.cumsum(sizes) - sizes
    for name in ("stages", "unlaunched", "unfinished"):
        jobs[name] = sizes
    stages = np.zeros(int(sizes.sum()), STAGE_DTYPE)
    stages["job"] = np.repeat(np.arange(count), sizes)
    within = np.arange(len(stages)) - jobs["first_stage"][stages["job"]]
    stages["profile"] = profiles.first_stage[kinds][stages["job"]] + within
    known = profiles.stages[stages["profile"]]
    stages["recent_ms"] = known["mean_ms"]
    stages["remaining"] = known["tasks"]
    stages["waits"] = known["parents"]
    stages["selected"] = -1
    executors = np.zeros(setting.executors, EXECUTOR_DTYPE)
    for name in ("job", "stage", "last_stage"):
        executors[name] = -1
    pools = np.zeros(1 + count + len(stages), POOL_DTYPE)
    pools["size"][COMMON_POOL] = setting.executors
    counters = np.zeros(1, COUNTER_DTYPE)
    counters["moving_ms"] = 1000.0 * setting.moving_s
    counters["warmup_ms"] = 1000.0 * setting.warmup_s
    counters["executors"], counters["jobs"], counters["source"] = setting.executors, count, COMMON_POOL
    return State(
        profiles.stages,
        profiles.neighbours,
        profiles.samples_ms,
        _brackets(setting.executors),
        jobs,
        stages,
        executors,
        np.full(setting.executors, np.inf),
        pools,
        # Each promise is of one executor at least, and one that is promised is promised once.
        np.zeros(setting.executors + 1, COMMITMENT_DTYPE),
        np.zeros(count, np.int64),
        np.zeros(int(known["tasks"].sum()), RUN_DTYPE),
        counters,
    )


def _brackets(executors: int) -> NDArray[np.int64]:
    """Between which two of `LEVELS` (by number) each number of executors lies; (executors + 1, 2)."""
    levels = np.array(LEVELS)
    counts = np.arange(executors + 1)
    above = np.minimum(np.searchsorted(levels, counts), len(levels) - 1)
    exact = (levels[above] == counts) | (counts < levels[0]) | (counts > levels[-1])
    return np.stack([np.where(exact, above, above - 1), above], axis=1)
