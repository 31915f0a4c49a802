"""What a policy sees at a decision, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from stowplan.simulate.spark.state import COMMON_POOL, State

__all__ = ["LEAVE", "Answer", "Decision", "SparkPolicy", "decision_of"]


class Answer(NamedTuple):
    """Promise offered executors to a stage: as many as given, at most as many as it can take."""

    stage: int
    executors: int


LEAVE: Final = Answer(-1, 0)
"""Promise the rest to nobody and end the round.

Each then waits where it gets free: at its job while the job has tasks to begin, to be offered when a stage of
the job opens others; else in the common pool, to be offered when a job arrives. Whoever leaves everything
while nothing is under way is never asked again.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The cluster at a decision: J jobs that are there and not done, S of their stages that are not done.

    A round of decisions offers executors of one pool. It goes on until they are all promised, nothing can
    take them, or the policy leaves the rest.

    Attributes:
        now_s: simulated time.
        executors: of the whole cluster.
        offered: executors to decide on now; busy ones among them go when they get free.
        source: row of the job whose executors are offered; −1 when they are of none of these jobs.
        jobs: (J,) ids, by arrival.
        arrival_s: (J,) when each came.
        supply: (J,) executors at the job, on their way to it, and promised to it from elsewhere.
        local: (J,) executors at the job.
        first_row: (J + 1,) where the stages of each job begin among the S.
        stages: (S,) ids, which answers use.
        remaining: (S,) tasks not yet begun.
        running: (S,) tasks under way.
        coming: (S,) executors that move or are promised to it.
        mean_s: (S,) mean duration of its tasks, known before it runs.
        recent_s: (S,) duration of the task begun last; at first the mean.
        can_run: (S,) whether all its parents are done.
        schedulable: (S,) whether it may be chosen.
        edges: (2, n) rows of parent and child.
    """

    now_s: float
    executors: int
    offered: int
    source: int
    jobs: NDArray[np.int64]
    arrival_s: NDArray[np.float64]
    supply: NDArray[np.int64]
    local: NDArray[np.int64]
    first_row: NDArray[np.int64]
    stages: NDArray[np.int64]
    remaining: NDArray[np.int64]
    running: NDArray[np.int64]
    coming: NDArray[np.int64]
    mean_s: NDArray[np.float64]
    recent_s: NDArray[np.float64]
    can_run: NDArray[np.bool_]
    schedulable: NDArray[np.bool_]
    edges: NDArray[np.int64]


class SparkPolicy(Protocol):
    """Anything that answers decisions, in plain Python; see `rules` for compiled ones."""

    def __call__(self, decision: Decision, /) -> Answer:
        """Answer one decision."""
        ...


def decision_of(state: State, edges: NDArray[np.int64]) -> Decision:
    """Describe the present decision.

    Args:
        state: the cluster.
        edges: (2, n) ids of parent and child, of all jobs.
    """
    counters = state.counters[0]
    jobs = state.active[: counters["active"]].copy()
    of_jobs = state.jobs[jobs]
    counts = of_jobs["stages"]
    starts = np.cumsum(counts) - counts
    stages = np.repeat(of_jobs["first_stage"] - starts, counts) + np.arange(counts.sum())
    open_ones = (state.stages["remaining"] + state.stages["running"])[stages] > 0
    first_row = np.concatenate([[0], np.cumsum(np.add.reduceat(open_ones, starts))])
    stages = stages[open_ones]
    of_stages = state.stages[stages]
    row = np.full(len(state.stages), -1)
    row[stages] = np.arange(len(stages))
    parent, child = row[edges]
    inside = (parent >= 0) & (child >= 0)
    edges = np.stack([parent[inside], child[inside]])
    coming = of_stages["moving"] + of_stages["committed"]
    wanting = of_stages["remaining"] > coming
    held_back = np.zeros(len(stages), np.bool_)
    held_back[edges[1][wanting[edges[0]]]] = True
    source = _source_row(state, jobs)
    job_rows = np.repeat(np.arange(len(jobs)), np.diff(first_row))
    takes_more = (of_jobs["supply"] < counters["executors"]) | (np.arange(len(jobs)) == source)
    pool = state.pools[counters["source"]]
    return Decision(
        now_s=float(counters["now_ms"]) / 1000.0,
        executors=int(counters["executors"]),
        offered=int(pool["size"] - pool["committed"]),
        source=source,
        jobs=jobs,
        arrival_s=of_jobs["arrival_ms"] / 1000.0,
        supply=of_jobs["supply"],
        local=of_jobs["local"],
        first_row=first_row,
        stages=stages,
        remaining=of_stages["remaining"],
        running=of_stages["running"],
        coming=coming,
        mean_s=state.profiles["mean_ms"][of_stages["profile"]] / 1000.0,
        recent_s=of_stages["recent_ms"] / 1000.0,
        can_run=of_stages["waits"] == 0,
        schedulable=(
            wanting & ~held_back & (of_stages["selected"] != counters["rounds"]) & takes_more[job_rows]
        ),
        edges=edges,
    )


def _source_row(state: State, jobs: NDArray[np.int64]) -> int:
    counters = state.counters[0]
    pool = int(counters["source"])
    count = len(state.jobs)
    job = pool - 1 if COMMON_POOL < pool <= count else -1
    if pool > count:
        job = int(state.stages["job"][pool - 1 - count])
    found = np.flatnonzero(jobs == job)
    return int(found[0]) if len(found) else -1
