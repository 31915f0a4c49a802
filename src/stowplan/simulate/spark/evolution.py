"""CMA-ES: search for the numbers that make a noisy, rugged function small.

Candidates are drawn from a normal distribution; the better half of them moves its mean, and lengths and
directions of the moves its covariance. N. Hansen, "The CMA evolution strategy: a tutorial", arXiv:1604.00772,
2016, with the constants of its table 1 (positive weights only).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from stowplan.errors import InvalidInput

__all__ = ["Evolution"]


class Evolution:
    """One search; `ask` and `tell` in turns.

    Args:
        start: (n,) mean at first.
        spread: (n,) standard deviations at first, in the units of each number.
        population: candidates per generation.
        rng: draws them.

    Attributes:
        mean: (n,) the best guess so far; steadier than the best candidate where scores are noisy.
        step: overall length of steps, 1 at first.
    """

    def __init__(
        self,
        start: NDArray[np.float64],
        spread: NDArray[np.float64],
        population: int,
        rng: np.random.Generator,
    ) -> None:
        count = len(start)
        if population < 4 or len(spread) != count or not (spread > 0.0).all():
            raise InvalidInput(
                f"a search of {count} numbers with {len(spread)} spreads and {population} candidates; give a "
                "spread above 0 for each number, and at least 4 candidates"
            )
        self.mean = start.copy()
        self.step = 1.0
        self._spread = spread
        self._population = population
        self._rng = rng
        ranks = np.arange(1, population // 2 + 1)
        weights = math.log((population + 1) / 2) - np.log(ranks)
        self._weights = weights / weights.sum()
        mass = self._mass = float(1.0 / (self._weights**2).sum())
        self._path_rate = (4 + mass / count) / (count + 4 + 2 * mass / count)
        self._step_rate = (mass + 2) / (count + mass + 5)
        self._rank_one = 2 / ((count + 1.3) ** 2 + mass)
        self._rank_many = min(1 - self._rank_one, 2 * (mass - 2 + 1 / mass) / ((count + 2) ** 2 + mass))
        self._damping = 1 + 2 * max(0.0, math.sqrt((mass - 1) / (count + 1)) - 1) + self._step_rate
        self._normal_length = math.sqrt(count) * (1 - 1 / (4 * count) + 1 / (21 * count**2))
        self._path = np.zeros(count)
        self._step_path = np.zeros(count)
        self._covariance = np.eye(count)
        self._basis = np.eye(count)
        self._lengths = np.ones(count)
        self._moves = np.zeros((population, count))
        self._generation = 0

    def ask(self) -> NDArray[np.float64]:
        """Draw the candidates of a generation, (population, n)."""
        variances, self._basis = np.linalg.eigh(self._covariance)
        self._lengths = np.sqrt(np.maximum(variances, 1e-20))
        normal = self._rng.standard_normal((self._population, len(self.mean)))
        self._moves = (normal * self._lengths) @ self._basis.T
        return self.mean + self.step * self._moves * self._spread

    def tell(self, scores: NDArray[np.float64]) -> None:
        """Learn from the candidates asked for last.

        Args:
            scores: (population,) of each; less is better.
        """
        self._generation += 1
        best = self._moves[np.argsort(scores, kind="stable")[: len(self._weights)]]
        move = self._weights @ best
        self.mean = self.mean + self.step * move * self._spread
        whitened = self._basis @ ((self._basis.T @ move) / self._lengths)
        rate = self._step_rate
        self._step_path = (1 - rate) * self._step_path + math.sqrt(rate * (2 - rate) * self._mass) * whitened
        length = float(np.linalg.norm(self._step_path))
        expected = self._normal_length * math.sqrt(1 - (1 - rate) ** (2 * self._generation))
        stalls = length >= (1.4 + 2 / (len(move) + 1)) * expected
        keep = self._path_rate * (2 - self._path_rate)
        self._path = (1 - self._path_rate) * self._path
        if not stalls:
            self._path += math.sqrt(keep * self._mass) * move
        lost = self._rank_one * keep if stalls else 0.0
        self._covariance = (
            (1 - self._rank_one - self._rank_many + lost) * self._covariance
            + self._rank_one * np.outer(self._path, self._path)
            + self._rank_many * (best.T * self._weights) @ best
        )
        self.step *= math.exp(rate / self._damping * (length / self._normal_length - 1))
