"""How good the network is as it would serve: nothing at random, on scenarios that training never draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stowplan.core.semantics import FrozenStatistics
from stowplan.learn.rollouts import Job, Rollers, Weights
from stowplan.learn.scenarios import Split

__all__ = ["Scores", "run_actors", "score_of"]

_LEAST_S = 1e-3


@dataclass(frozen=True, slots=True)
class Scores:
    """Results of an actor on S scenarios, (S,) each: mean and 95th percentile of completion times."""

    completion_s: NDArray[np.float64]
    tail_s: NDArray[np.float64]
    illegal: int

    @property
    def log_completion(self) -> float:
        """Mean of the logarithm over the scenarios."""
        return float(np.log(np.maximum(self.completion_s, _LEAST_S)).mean())

    @property
    def log_tail(self) -> float:
        """Mean of the logarithm over the scenarios."""
        return float(np.log(np.maximum(self.tail_s, _LEAST_S)).mean())


def run_actors(
    actors: Sequence[str],
    rollers: Rollers,
    *,
    scenarios: int,
    split: Split,
    weights: Weights | None,
    statistics: FrozenStatistics | None,
) -> dict[str, Scores]:
    """Run every actor on the first `scenarios` scenarios of a split; all meet the same.

    Raises:
        UnknownName: there is no such rule.
        StowplanError: a run failed.
    """
    jobs = [Job(number=number, split=split, actor=actor) for actor in actors for number in range(scenarios)]
    records = [outcome.record for outcome in rollers.run(jobs, weights, statistics)]
    found: dict[str, Scores] = {}
    for place, actor in enumerate(actors):
        mine = records[place * scenarios : (place + 1) * scenarios]
        found[actor] = Scores(
            np.array([record.completion_s for record in mine]),
            np.array([record.tail_s for record in mine]),
            sum(record.illegal for record in mine),
        )
    return found


def score_of(scores: Scores) -> float:
    """Return what is to be made small: mean and tail of the completion times count alike."""
    return 0.5 * (scores.log_completion + scores.log_tail)
