"""How the parameters of shares by size are learned: by playing episodes, none of them of a published seed.

A candidate's score is its mean completion time in units of the fair scheduler's, both settings weighing the
same. Each generation meets new sequences, so that none is learned by heart; all
candidates of a generation meet the same, so that they are compared in pairs. What comes out is a function of
the arguments (and, in its last digits, of the machine's linear algebra).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from typing import Final

import numpy as np

from stowplan.errors import InvalidInput
from stowplan.simulate.spark.episode import CompiledRule, run_episode
from stowplan.simulate.spark.evolution import Evolution
from stowplan.simulate.spark.profiles import SparkProfiles
from stowplan.simulate.spark.setting import OVERLOADED, STREAMING, SparkSetting
from stowplan.simulate.spark.shares import LearnedShares, ShareParameters, size_shares

__all__ = ["START", "Generation", "Training", "learn", "mean_completion_s"]

START: Final = ShareParameters(
    speedup=0.8,
    most=40.0,
    most_by_work=0.53,
    most_by_jobs=-0.55,
    keep_share=0.1,
    keep_executors=4.0,
    lack_share=0.1,
    spill=1.4,
    grain_s=2.0,
    ahead=0.7,
)
"""Proposals to begin with, the best of about a hundred tried by hand on job sequences 1000 to 1027."""
SPREAD: Final = (0.05, 3.0, 0.05, 0.06, 0.08, 1.5, 0.08, 0.25, 1.0, 0.12)
"""How far from these the search begins: as far as a change of one alone makes a difference of about 1 %."""
FAIR_S: Final = (60.3, 981.6)
"""Published mean completion times of the fair scheduler in both settings: what scores are measured in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """What is learned on.

    Attributes:
        seed: of the search.
        generations: of it.
        population: candidates per generation.
        streaming: job sequences of `STREAMING` that each is scored on,
        overloaded: and of `OVERLOADED`, which take a sixth of the time.
        first_seed: job sequences are drawn from this seed
        last_seed: to this one.
    """

    seed: int
    generations: int
    population: int = 10
    streaming: int = 16
    overloaded: int = 6
    first_seed: int = 1000
    last_seed: int = 8999

    def __post_init__(self) -> None:
        """Refuse a search that could learn nothing."""
        if min(self.generations, self.streaming, self.overloaded) < 1 or self.last_seed < self.first_seed:
            raise InvalidInput(f"{self} learns nothing; give one of each at least, and ascending seeds")


@dataclass(frozen=True, slots=True)
class Generation:
    """One generation: what is learned so far, its best candidate's score, and the length of steps."""

    learned: LearnedShares
    best: float
    step: float


def mean_completion_s(
    profiles: SparkProfiles, setting: SparkSetting, rule: CompiledRule, seeds: Sequence[int]
) -> float:
    """Return the mean completion time over the episodes of `seeds`."""
    return float(np.mean([run_episode(profiles, setting, rule, seed).mean_completion_s for seed in seeds]))


def learn(profiles: SparkProfiles, training: Training) -> Iterator[Generation]:
    """Search, and yield after each generation."""
    rng = np.random.default_rng(training.seed)
    search = Evolution(np.array(astuple(START)), np.array(SPREAD), training.population, rng)
    for number in range(1, training.generations + 1):
        seeds = rng.integers(
            training.first_seed, training.last_seed + 1, training.streaming + training.overloaded
        ).tolist()
        batches = (
            (STREAMING, seeds[: training.streaming]),
            (OVERLOADED, seeds[training.streaming :]),
        )
        rules = [size_shares(ShareParameters.of(candidate)) for candidate in search.ask()]
        scores = np.array(
            [[mean_completion_s(profiles, setting, rule, one) for setting, one in batches] for rule in rules]
        )
        relative = (scores / np.array(FAIR_S)).mean(axis=1)
        search.tell(relative)
        yield Generation(
            LearnedShares(
                ShareParameters.of(search.mean),
                training.seed,
                number,
                training.first_seed,
                training.last_seed,
            ),
            float(relative.min()),
            search.step,
        )
