"""Which node is emptied: each criterion decides only among nodes that are equal by those before it."""

import pytest

from stowplan.core.domain import BoundPod
from stowplan.core.preemption import Candidate, best_candidate
from tests.preemption_cases import bound, started

TIMES = started(a=1.0, b=5.0, c=9.0)


def on(node: str, *pods: BoundPod, violations: int = 0) -> Candidate:
    return Candidate(node, pods, violations)


def chosen(*candidates: Candidate) -> str:
    best = best_candidate(candidates, TIMES)
    assert best is not None
    return best.node_name


@pytest.mark.parametrize(
    ("worse", "better"),
    [
        (on("w", bound("a", 1, 1), violations=1), on("b", bound("a", 1, 90))),
        (on("w", bound("a", 1, 9)), on("b", bound("a", 1, 8), bound("b", 1, 8), bound("c", 1, 8))),
        # Sums, shifted: two of negative priority are more than one.
        (on("w", bound("a", 1, -5), bound("b", 1, -6)), on("b", bound("a", 1, -5))),
        (on("w", bound("a", 1, 5), bound("b", 1, 3)), on("b", bound("a", 1, 5), bound("b", 1, 2))),
        # The earliest start of the most important ones; later is better.
        (on("w", bound("a", 1, 5)), on("b", bound("b", 1, 5))),
        (on("w", bound("a", 1, 5), bound("c", 1, 5)), on("b", bound("b", 1, 5), bound("c", 1, 5))),
        (on("w", bound("b", 1, 5), bound("c", 1, 3)), on("b", bound("c", 1, 5), bound("a", 1, 3))),
        (on("w", bound("c", 1, 5)), on("b", bound("new", 1, 5))),
    ],
)
def test_the_better_is_chosen_in_any_order(worse: Candidate, better: Candidate) -> None:
    assert chosen(worse, better) == "b"
    assert chosen(better, worse) == "b"


def test_of_equal_ones_the_first() -> None:
    assert chosen(on("x", bound("a", 1)), on("y", bound("a", 2))) == "x"
    assert best_candidate([], TIMES) is None


def test_the_lowest_of_all_priorities_counts_as_nothing_but_a_victim() -> None:
    lowest = -(2**31)
    assert (
        chosen(on("two", bound("a", 1, lowest), bound("b", 1, lowest)), on("one", bound("a", 1, lowest)))
        == "one"
    )
