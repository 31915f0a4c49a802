"""The benchmark's settings and its random job sequences.

Jobs arrive in a Poisson stream, the first at time zero; query and scale of each are drawn evenly. Draws come
in the order of the public simulator (query, scale, gap), so that a seed of NumPy's default generator gives
the very arrivals that results with that simulator were published for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan.errors import InvalidInput
from stowplan.simulate.spark.profiles import SparkProfiles

__all__ = ["OVERLOADED", "STREAMING", "JobSequence", "SparkSetting"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSetting:
    """How many executors serve how many jobs, and what moving costs.

    Attributes:
        executors: there are, all the time.
        jobs: arrive, until none is left an episode goes on.
        mean_gap_s: between two arrivals.
        moving_s: an executor is on its way from one job to another.
        warmup_s: a task takes longer on an executor that is new to its job, where no such task was measured.
    """

    executors: int
    jobs: int
    mean_gap_s: float = 25.0
    moving_s: float = 2.0
    warmup_s: float = 1.0

    def __post_init__(self) -> None:
        """Refuse numbers that describe no cluster."""
        if self.executors < 1 or self.jobs < 1:
            raise InvalidInput(
                f"{self.executors} executors for {self.jobs} jobs; there must be at least 1 of each"
            )
        if not (math.isfinite(self.mean_gap_s) and self.mean_gap_s > 0.0):
            raise InvalidInput(f"mean gap between jobs is {self.mean_gap_s} s; it must be above 0")
        for name, value in (("moving delay", self.moving_s), ("warm-up", self.warmup_s)):
            if not (math.isfinite(value) and value >= 0.0):
                raise InvalidInput(f"{name} is {value} s; it must be 0 or above")


STREAMING: Final = SparkSetting(executors=50, jobs=200)
"""Where Decima was trained: a stream that 50 executors can serve."""
OVERLOADED: Final = SparkSetting(executors=10, jobs=50)
"""The same stream for 10 executors, which fall far behind: who comes first decides."""


@dataclass(frozen=True, slots=True)
class JobSequence:
    """Which jobs arrive when.

    Attributes:
        kinds: (n,) kind of each job in its `SparkProfiles`.
        arrivals_ms: (n,) ascending, the first 0.
    """

    kinds: NDArray[np.int64]
    arrivals_ms: NDArray[np.float64]

    def __post_init__(self) -> None:
        """Refuse arrivals out of order."""
        if len(self.kinds) != len(self.arrivals_ms) or not len(self.kinds):
            raise InvalidInput(
                f"{len(self.kinds)} kinds of jobs for {len(self.arrivals_ms)} arrivals; give one pair or more"
            )
        gaps = np.diff(self.arrivals_ms, prepend=0.0)
        if self.arrivals_ms[0] != 0.0 or not (np.isfinite(gaps) & (gaps >= 0.0)).all():
            raise InvalidInput("arrivals must begin at 0 and ascend; sort them and take the first from all")

    @classmethod
    def draw(cls, setting: SparkSetting, profiles: SparkProfiles, rng: np.random.Generator) -> JobSequence:
        """Draw `setting.jobs` jobs."""
        kinds: list[int] = []
        arrivals_ms: list[float] = []
        now_ms = 0.0
        for _ in range(setting.jobs):
            query = int(rng.integers(profiles.queries))
            scale = int(rng.integers(len(profiles.scales)))
            kinds.append(scale * profiles.queries + query)
            arrivals_ms.append(now_ms)
            now_ms += rng.exponential(1000.0 * setting.mean_gap_s)
        return cls(np.array(kinds, np.int64), np.array(arrivals_ms))
