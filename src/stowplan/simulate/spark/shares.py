"""Shares by size: small jobs get most of the executors, large ones no more than they can use well.

The jobs that are there are put in order of what they have left. In that order each gets its share of the
executors by *heSRPT* (B. Berg, R. Vesilo, M. Harchol-Balter, "heSRPT: parallel scheduling to minimize mean
slowdown", Performance Evaluation 144, 2020). It is optimal for jobs that are all there and run k^p times as
fast on k executors as on one: of m jobs the i-th largest gets (i/m)^q − ((i − 1)/m)^q of the executors,
q = 1/(1 − p). With p = 0 these are equal shares, with p → 1 the smallest job gets all. Spark jobs differ from
that in four ways, and each has its parameters:

* Tasks get slower the more executors a job has, and small jobs lose most by that: no job gets more than a
  power law of its work and the number of jobs says. What it leaves goes to the next larger.
* Moving costs seconds: executors stay at a job that has some more than its share, a job that lacks little
  gets none, and no more go to a stage than find `grain_s` of work each.
* Executors stay with a stage until it has no tasks left. Those that no job wants are left in the common pool,
  where the next job to arrive finds them.
* A stage whose parents are not done makes executors wait.

Of a stage nothing is known but its mean duration, as everywhere here. The parameters were learned (`tuning`);
no job sequence that they were learned on is one of those that results are published for.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Final, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from stowplan.core.physics.compile import compiled, inner
from stowplan.errors import InvalidInput
from stowplan.simulate.spark.episode import CompiledRule
from stowplan.simulate.spark.loop import player
from stowplan.simulate.spark.pools import offered
from stowplan.simulate.spark.rounds import demand, source_job
from stowplan.simulate.spark.rules import stage_of_job
from stowplan.simulate.spark.views import Handle, active_of, counters_of, jobs_of, profiles_of, stages_of

__all__ = ["BOUNDS", "LearnedShares", "ShareParameters", "learned_shares", "size_shares"]

LEARNED_FILE: Final = Path(__file__).with_name("shares.json")

TYPICAL_WORK_MS: Final = 500_000.0
"""About the median of the TPC-H queries; it only makes the limit readable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareParameters:
    """The rule's numbers; `BOUNDS` tells their ranges.

    Attributes:
        speedup: p of heSRPT.
        most: executors for a job that is alone and has 500 executor-seconds left, at most.
        most_by_work: exponent of that limit, by work left.
        most_by_jobs: exponent of that limit, by the number of jobs.
        keep_share: a job keeps executors beyond its share up to this much of it
        keep_executors: and up to this many more.
        lack_share: a job that lacks no more than this much of its share gets none from other jobs.
        spill: executors that nobody lacks go to jobs that have less than this much of their limit.
        grain_s: of work that each executor must find that moves to a stage.
        ahead: a stage that cannot run yet holds this much of what its job may keep.
    """

    speedup: float
    most: float
    most_by_work: float
    most_by_jobs: float
    keep_share: float
    keep_executors: float
    lack_share: float
    spill: float
    grain_s: float
    ahead: float

    def __post_init__(self) -> None:
        """Refuse numbers that the rule has no meaning for."""
        for field, value in zip(fields(self), astuple(self), strict=True):
            low, high = BOUNDS[field.name]
            if not low <= value <= high:
                raise InvalidInput(f"{field.name} is {value}; it must lie in {low} … {high}")

    @classmethod
    def of(cls, numbers: NDArray[np.float64]) -> Self:
        """Make them of numbers in the order of the fields; what lies out of range is taken to its end."""
        names = [field.name for field in fields(cls)]
        low, high = np.array([BOUNDS[name] for name in names]).T
        return cls(**dict(zip(names, np.clip(numbers, low, high).tolist(), strict=True)))


BOUNDS: Final = {
    "speedup": (0.0, 0.99),
    "most": (1.0, 1000.0),
    "most_by_work": (-2.0, 2.0),
    "most_by_jobs": (-2.0, 2.0),
    "keep_share": (0.0, 10.0),
    "keep_executors": (0.0, 100.0),
    "lack_share": (0.0, 1.0),
    "spill": (0.0, 10.0),
    "grain_s": (0.0, 100.0),
    "ahead": (0.0, 1.0),
}

_SPEEDUP: Final = 0
_MOST: Final = 1
_MOST_BY_WORK: Final = 2
_MOST_BY_JOBS: Final = 3
_KEEP_SHARE: Final = 4
_KEEP_EXECUTORS: Final = 5
_LACK_SHARE: Final = 6
_SPILL: Final = 7
_GRAIN_S: Final = 8
_AHEAD: Final = 9


@inner
def _left_ms(handle: Handle, job: int) -> float:
    """Return the work that a job has left; tasks under way are taken to be half done."""
    stages = stages_of(handle)
    profiles = profiles_of(handle)
    record = jobs_of(handle)[job]
    work_ms = 0.0
    for stage in range(record.first_stage, record.first_stage + record.stages):
        tasks = stages[stage].remaining + 0.5 * stages[stage].running
        work_ms += tasks * profiles[stages[stage].profile].mean_ms
    return work_ms


@inner
def _rank(
    handle: Handle,
    parameters: NDArray[np.float64],
    left_ms: NDArray[np.float64],
    limits: NDArray[np.float64],
    order: NDArray[np.int64],
) -> None:
    """Fill in what each job that is there has left, its limit, and their places from the smallest on."""
    executors = float(counters_of(handle)[0].executors)
    active = active_of(handle)
    count = order.shape[0]
    for place in range(count):
        left_ms[place] = _left_ms(handle, active[place])
        limit = parameters[_MOST] * (left_ms[place] / TYPICAL_WORK_MS) ** parameters[_MOST_BY_WORK]
        limits[place] = min(executors, max(1.0, limit * count ** parameters[_MOST_BY_JOBS]))
        behind = place
        while behind > 0 and left_ms[order[behind - 1]] > left_ms[place]:
            order[behind] = order[behind - 1]
            behind -= 1
        order[behind] = place


@inner
def _divide(
    executors: int,
    speedup: float,
    limits: NDArray[np.float64],
    order: NDArray[np.int64],
    shares: NDArray[np.float64],
) -> None:
    """Divide the executors among the jobs, in whole numbers."""
    count = order.shape[0]
    power = 1.0 / (1.0 - speedup)
    over = 0.0
    for rank in range(count):
        place = order[rank]
        upper = ((count - rank) / count) ** power
        lower = ((count - rank - 1) / count) ** power
        wanted = executors * (upper - lower) + over
        shares[place] = min(limits[place], wanted)
        over = wanted - shares[place]
    for rank in range(count):
        place = order[rank]
        more = min(limits[place] - shares[place], over)
        shares[place] += more
        over -= more
    total = 0.0
    given = 0.0
    for rank in range(count):
        total += shares[order[rank]]
        shares[order[rank]] = np.floor(total + 0.5) - given
        given += shares[order[rank]]


@inner
def _worth(handle: Handle, stage: int, grain_s: float) -> int:
    """Count the executors that find so many seconds of work each at a stage; one at least."""
    work_ms = demand(handle, stage) * profiles_of(handle)[stages_of(handle)[stage].profile].mean_ms
    most = counters_of(handle)[0].executors
    if work_ms >= 1000.0 * grain_s * most:
        return most
    return int(np.ceil(work_ms / (1000.0 * grain_s)))


@inner
def _kept(
    handle: Handle, parameters: NDArray[np.float64], share: float, supply: int, free: int, stage: int
) -> int:
    """Count the offered executors that their job keeps for its stage before other jobs get any."""
    room = share * (1.0 + parameters[_KEEP_SHARE]) + parameters[_KEEP_EXECUTORS]
    if stages_of(handle)[stage].waits > 0:
        room *= parameters[_AHEAD]
    spare = max(0, int(np.floor(supply - room)))
    return max(0, free - spare)


@inner
def _by_shares(handle: Handle, parameters: NDArray[np.float64]) -> tuple[int, int]:
    """Serve first the own job up to its share, then those that lack some of theirs, then who can use more."""
    jobs = jobs_of(handle)
    active = active_of(handle)
    count = counters_of(handle)[0].active
    own = source_job(handle)
    free = offered(handle)
    left_ms = np.empty(count)
    limits = np.empty(count)
    shares = np.empty(count)
    order = np.empty(count, np.int64)
    _rank(handle, parameters, left_ms, limits, order)
    _divide(counters_of(handle)[0].executors, parameters[_SPEEDUP], limits, order, shares)
    own_stage = -1
    for place in range(count):
        if active[place] == own:
            own_stage = stage_of_job(handle, own, own, True)
            if own_stage >= 0:
                kept = _kept(handle, parameters, shares[place], jobs[own].supply, free, own_stage)
                if kept > 0:
                    return own_stage, kept
    for spills in range(2):
        if spills == 1 and own_stage >= 0:
            return own_stage, free
        for rank in range(count):
            place = order[rank]
            job = int(active[place])
            lacks = int(shares[place]) - jobs[job].supply
            enough = parameters[_LACK_SHARE] * shares[place]
            if spills == 1:
                # A job without any gets one, so that not all of them wait.
                lacks = max(1, int(limits[place] * parameters[_SPILL])) - jobs[job].supply
                enough = 0.0
            if job == own or lacks <= enough:
                continue
            stage = stage_of_job(handle, job, own, True)
            if stage >= 0:
                return stage, min(free, lacks, _worth(handle, stage, parameters[_GRAIN_S]))
    return -1, 0


_play = player(_by_shares)


@compiled
def _play_by_shares(handle: Handle, rng: np.random.Generator, parameters: NDArray[np.float64]) -> int:
    return _play(handle, rng, parameters)


def size_shares(parameters: ShareParameters | None = None) -> CompiledRule:
    """Return shares by size; without parameters, with the learned ones."""
    chosen = learned_shares().parameters if parameters is None else parameters
    return CompiledRule("size-shares", _play_by_shares, astuple(chosen))


class LearnedShares(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What was learned, and how: enough to learn it again.

    Attributes:
        parameters: the mean of the search at its end.
        seed: of the search.
        generations: that it went on for.
        first_seed: of the job sequences it was scored on, and
        last_seed: the last of them.
    """

    parameters: ShareParameters
    seed: int
    generations: int
    first_seed: int
    last_seed: int


@cache
def learned_shares() -> LearnedShares:
    """Read the parameters that come with the package."""
    return msgspec.json.decode(LEARNED_FILE.read_bytes(), type=LearnedShares)
