"""Eleven levels, spent where kube-scheduler chooses: at the top."""

import numpy as np
import pytest

from stowplan.serve.extender.levels import levels_of

INF = float("inf")


def levels(
    scores: list[float], *, draws_lots: bool = True, rows: list[int] | None = None
) -> list[int] | None:
    found, _ = levels_of(
        np.array(scores),
        np.array(rows if rows is not None else range(len(scores)), dtype=np.intp),
        draws_lots=draws_lots,
    )
    return None if found is None else found.tolist()


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([3.0, 1.0, 2.0], [10, 8, 9]),
        ([1.0, 1.0, 0.5], [10, 10, 9]),
        ([-5.0, -INF, -7.0], [10, 0, 9]),
        ([float(score) for score in range(12)], [0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]),
        ([INF, 1.0, -1e308], [10, 9, 8]),
        ([float("nan"), 1.0, 0.0], [0, 10, 9]),
        ([-100.0, -100.0 * (1 + 1e-15), -101.0], [10, 10, 9]),  # they differ by rounding
    ],
)
def test_the_best_score_has_the_highest_level(scores: list[float], expected: list[int]) -> None:
    assert levels(scores) == expected


def test_among_equals_the_lowest_row_is_first_unless_lots_are_drawn() -> None:
    assert levels([1.0, 1.0, 1.0], draws_lots=False, rows=[7, 2, 5]) == [8, 10, 9]
    assert levels([1.0, 2.0, 1.0], draws_lots=False, rows=[7, 2, 5]) == [8, 10, 9]
    assert levels([1.0, 1.0 + 1e-15, 1.0], draws_lots=False, rows=[7, 2, 5]) == [8, 10, 9]


@pytest.mark.parametrize("scores", [[], [-INF, -INF], [2.0, 2.0, 2.0], [float("nan")]])
def test_scores_that_tell_no_node_from_another_are_no_preference(scores: list[float]) -> None:
    assert levels(scores) is None


def test_equals_are_told_from_what_cannot_be_taken() -> None:
    assert levels([4.0, -INF, 4.0]) == [10, 0, 10]
