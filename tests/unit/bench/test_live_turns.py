"""Who is measured when, and what is made of two rates."""

import pytest

from bench.harness import MIN_SAMPLES_FOR_CI95
from bench.live.speed import kube_scheduler, stowplan
from bench.live.turns import Size, in_turns, rate_row


def test_each_is_measured_once_per_turn_and_who_begins_changes() -> None:
    ours, theirs = stowplan({}), kube_scheduler()
    assert list(in_turns([ours, theirs], 3)) == [
        (0, ours),
        (0, theirs),
        (1, theirs),
        (1, ours),
        (2, ours),
        (2, theirs),
    ]


def test_the_ratio_is_of_pairs() -> None:
    row = rate_row([100.0, 10.0, 60.0], [50.0, 20.0, 20.0], name="n", what="w", peer="p")
    assert (row.median, row.peer_median, row.unit) == (60.0, 20.0, "pods/s")
    assert row.ratio == pytest.approx(2.0)
    assert row.ratio_ci95 == pytest.approx((0.5, 3.0))


def test_sizes() -> None:
    assert str(Size.of(quick=False)) == "1,000 fake nodes, 5,000 pods"
    assert Size.of(quick=False).turns == MIN_SAMPLES_FOR_CI95
    assert Size.of(quick=True).turns == 1
