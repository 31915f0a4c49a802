"""Known rules, compiled: jobs in an order, each up to a share of the executors.

* `fair`: equal shares, the oldest job below its share first; executors stay with their job while it can use
  them. This is the public simulator's fair scheduler, decision by decision.
* `fifo`: the oldest job first, without shares.
* `weighted-fair`: as fair, but shares go with remaining work to the power of `exponent`. Decima's authors
  found −1 best (H. Mao et al., SIGCOMM 2019, section 7.1): then small jobs get more.
* `srpt`: the job with the least remaining work first, without shares.
* `critical-path`: the stage with the longest path to the end of its job first.

All know of a stage only its mean duration.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.physics.compile import compiled, inner
from stowplan.simulate.spark.episode import CompiledRule
from stowplan.simulate.spark.loop import player
from stowplan.simulate.spark.pools import offered
from stowplan.simulate.spark.rounds import schedulable, source_job, takes_more
from stowplan.simulate.spark.views import Handle, active_of, counters_of, jobs_of, profiles_of, stages_of

__all__ = ["critical_path", "fair", "fifo", "srpt", "stage_of_job", "weighted_fair"]

_BY_ARRIVAL: Final = 0.0
_BY_WORK: Final = 1.0
_BY_PATH: Final = 2.0

_ORDER: Final = 0
_KEEPS_OWN: Final = 1
_HAS_SHARES: Final = 2
_EXPONENT: Final = 3
_FILLS: Final = 4
_FOLLOWS_PATH: Final = 5


@inner
def stage_of_job(handle: Handle, job: int, own: int, follows_path: bool) -> int:
    """Return the stage of a job to give executors to; −1: there is none.

    A stage that can run now goes before one that waits for parents; then the longest path to the end of the
    job decides, or the number of the stage.
    """
    if not takes_more(handle, job, own):
        return -1
    stages = stages_of(handle)
    profiles = profiles_of(handle)
    record = jobs_of(handle)[job]
    best = -1
    for stage in range(record.first_stage, record.first_stage + record.stages):
        if not schedulable(handle, stage):
            continue
        if best >= 0:
            can_run = stages[stage].waits == 0
            if can_run == (stages[best].waits == 0):
                tail_ms = profiles[stages[stage].profile].tail_ms
                if not follows_path or tail_ms <= profiles[stages[best].profile].tail_ms:
                    continue
            elif not can_run:
                continue
        best = stage
    return best


@inner
def _remaining_work_ms(handle: Handle, job: int) -> float:
    stages = stages_of(handle)
    profiles = profiles_of(handle)
    record = jobs_of(handle)[job]
    work_ms = 0.0
    for stage in range(record.first_stage, record.first_stage + record.stages):
        tasks = stages[stage].remaining + stages[stage].running
        work_ms += tasks * profiles[stages[stage].profile].mean_ms
    return work_ms


@inner
def _weight(handle: Handle, job: int, exponent: float) -> float:
    return _remaining_work_ms(handle, job) ** exponent if exponent != 0.0 else 1.0


@inner
def _share(handle: Handle, job: int, exponent: float) -> int:
    """Return how many executors a job may have."""
    counters = counters_of(handle)[0]
    total = 0.0
    for place in range(counters.active):
        total += _weight(handle, active_of(handle)[place], exponent)
    return int(np.ceil(counters.executors * _weight(handle, job, exponent) / total))


@inner
def _next_by_order(
    handle: Handle, parameters: NDArray[np.float64], own: int, has_shares: bool
) -> tuple[int, int]:
    """Return the stage of the first job in order that may have more, and how much more; −1: there is none."""
    best = -1
    best_key = np.inf
    best_room = 0
    for place in range(counters_of(handle)[0].active):
        job = active_of(handle)[place]
        share = counters_of(handle)[0].executors
        if has_shares:
            share = _share(handle, job, parameters[_EXPONENT])
        if job == own:
            share += offered(handle)
        room = share - jobs_of(handle)[job].supply
        stage = stage_of_job(handle, job, own, parameters[_FOLLOWS_PATH] > 0.0)
        if room <= 0 or stage < 0:
            continue
        key = float(place)
        if parameters[_ORDER] == _BY_WORK:
            key = _remaining_work_ms(handle, job)
        elif parameters[_ORDER] == _BY_PATH:
            key = -profiles_of(handle)[stages_of(handle)[stage].profile].tail_ms
        if key < best_key:
            best, best_key, best_room = stage, key, room
    return best, best_room


@inner
def _by_order(handle: Handle, parameters: NDArray[np.float64]) -> tuple[int, int]:
    own = source_job(handle)
    free = offered(handle)
    if parameters[_KEEPS_OWN] > 0.0 and own >= 0:
        stage = stage_of_job(handle, own, own, parameters[_FOLLOWS_PATH] > 0.0)
        if stage >= 0:
            return stage, free
    has_shares = parameters[_HAS_SHARES] > 0.0
    stage, room = _next_by_order(handle, parameters, own, has_shares)
    if stage < 0 and has_shares and parameters[_FILLS] > 0.0:
        stage, room = _next_by_order(handle, parameters, own, False)
    return stage, min(free, room)


_play = player(_by_order)


@compiled
def _play_by_order(handle: Handle, rng: np.random.Generator, parameters: NDArray[np.float64]) -> int:
    return _play(handle, rng, parameters)


def fair() -> CompiledRule:
    """Return the fair scheduler."""
    return CompiledRule("fair", _play_by_order, (_BY_ARRIVAL, 1.0, 1.0, 0.0, 0.0, 0.0))


def fifo() -> CompiledRule:
    """Return first come, first served."""
    return CompiledRule("fifo", _play_by_order, (_BY_ARRIVAL, 1.0, 0.0, 0.0, 0.0, 0.0))


def weighted_fair(exponent: float = -1.0) -> CompiledRule:
    """Return fair shares in proportion to remaining work to the power of `exponent`."""
    return CompiledRule("weighted-fair", _play_by_order, (_BY_ARRIVAL, 1.0, 1.0, exponent, 1.0, 0.0))


def srpt() -> CompiledRule:
    """Return shortest remaining work first."""
    return CompiledRule("srpt", _play_by_order, (_BY_WORK, 0.0, 0.0, 0.0, 0.0, 1.0))


def critical_path() -> CompiledRule:
    """Return longest path first."""
    return CompiledRule("critical-path", _play_by_order, (_BY_PATH, 0.0, 0.0, 0.0, 0.0, 1.0))
