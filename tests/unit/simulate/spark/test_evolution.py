"""The search finds the least of functions whose least is known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from stowplan.errors import InvalidInput
from stowplan.simulate.spark.evolution import Evolution

GOAL = np.array([3.0, -1.0, 0.5, 2.0])


def sphere(points: NDArray[np.float64]) -> NDArray[np.float64]:
    return ((points - GOAL) ** 2).sum(axis=1)


def narrow_valley(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """Axes 1,000 times as long as others, and turned."""
    turn = np.linalg.qr(np.arange(16.0).reshape(4, 4) ** 1.5 + np.eye(4))[0]
    return (((points - GOAL) @ turn) ** 2 * np.array([1.0, 1e2, 1e4, 1e6])).sum(axis=1)


def search(function: Callable[[NDArray[np.float64]], NDArray[np.float64]], generations: int) -> Evolution:
    evolution = Evolution(np.zeros(4), np.array([1.0, 2.0, 0.5, 1.0]), 10, np.random.default_rng(1))
    for _ in range(generations):
        evolution.tell(function(evolution.ask()))
    return evolution


@pytest.mark.parametrize(("function", "generations"), [(sphere, 120), (narrow_valley, 500)])
def test_it_finds_the_least(
    function: Callable[[NDArray[np.float64]], NDArray[np.float64]], generations: int
) -> None:
    found = search(function, generations)
    assert found.mean == pytest.approx(GOAL, abs=1e-4)
    assert found.step < 1.0


def test_steps_grow_on_a_slope_and_only_ranks_matter() -> None:
    slope = search(lambda points: points.sum(axis=1), 30)
    assert slope.step > 3.0
    steeper = search(lambda points: np.exp(points.sum(axis=1) / 100.0), 30)
    assert steeper.mean.tolist() == slope.mean.tolist()


def test_a_search_that_cannot_go_on_is_refused() -> None:
    rng = np.random.default_rng(1)
    for spread, population in ((np.ones(2), 10), (np.zeros(3), 10), (np.ones(3), 3)):
        with pytest.raises(InvalidInput, match="give a spread above 0 for each number"):
            Evolution(np.zeros(3), spread, population, rng)
