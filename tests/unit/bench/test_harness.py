"""The measuring itself: intervals from order statistics, turns, and programs built once."""

import math
import sys
from pathlib import Path

import numpy as np
import pytest

from bench.harness import Paired, Row, build_cached, compare, interleave, measure, median_ci95


@pytest.mark.parametrize(
    ("samples", "low_rank", "high_rank"),
    # Ranks as in the published tables for the median (for example, 10 to 21 of 30 samples hold 95.7 %).
    [(6, 1, 6), (8, 1, 8), (9, 2, 8), (15, 4, 12), (20, 6, 15), (30, 10, 21)],
)
def test_interval_has_the_tabulated_ranks(samples: int, low_rank: int, high_rank: int) -> None:
    estimate = median_ci95([float(rank) for rank in range(samples, 0, -1)])
    assert (estimate.low, estimate.high) == (low_rank, high_rank)
    assert estimate.median == (samples + 1) / 2


def test_interval_covers_the_true_median_as_often_as_it_says() -> None:
    rng = np.random.default_rng(20261130)
    true_median = math.log(2.0)
    hits = 0
    for _ in range(2000):
        estimate = median_ci95(rng.exponential(size=21).tolist())
        hits += estimate.low <= true_median <= estimate.high
    assert 0.94 <= hits / 2000 <= 0.99  # the exact coverage at n = 21 is 97.3 %


def test_few_samples_give_the_range() -> None:
    estimate = median_ci95([3.0, 1.0, 2.0])
    assert (estimate.low, estimate.median, estimate.high, estimate.samples) == (1.0, 2.0, 3.0, 3)


@pytest.mark.parametrize("samples", [[], [1.0, math.nan], [math.inf]])
def test_unusable_samples_are_refused(samples: list[float]) -> None:
    with pytest.raises(ValueError, match="samples"):
        median_ci95(samples)


def test_programs_run_in_turns_and_the_first_changes() -> None:
    calls: list[str] = []
    paired = interleave(lambda: calls.append("ours"), lambda: calls.append("peer"), repeats=3, warmups=1)
    assert calls == ["ours", "peer", "ours", "peer", "peer", "ours", "ours", "peer"]
    assert len(paired.ours_s) == len(paired.peer_s) == 3


def test_measure_counts_only_what_follows_the_warmups() -> None:
    calls: list[int] = []
    estimate = measure(lambda: calls.append(1), repeats=4, warmups=2)
    assert (len(calls), estimate.samples) == (6, 4)


def test_ratio_is_taken_pair_by_pair() -> None:
    # The machine slows down threefold halfway: the pairs still agree that ours is twice as fast.
    paired = Paired(ours_s=(1.0, 1.0, 3.0, 3.0, 3.0, 1.0), peer_s=(2.0, 2.0, 6.0, 6.0, 6.0, 2.0))
    row = compare(paired, name="a/b", what="w", peer="p")
    assert (row.ratio, row.ratio_ci95) == (2.0, (2.0, 2.0))
    assert (row.unit, row.median, row.peer_median) == ("s", 2.0, 4.0)


def test_exact_number_has_no_spread() -> None:
    row = Row.exact(0.25, name="a/b", what="w", unit="%")
    assert (row.median, row.ci95_low, row.ci95_high, row.samples) == (0.25, 0.25, 0.25, 1)


def test_program_is_built_once_and_again_when_its_source_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    builds = tmp_path / "builds"
    copy = "import shutil, sys; shutil.copy(sys.argv[1], sys.argv[2]); open(sys.argv[3], 'a').write('x')"
    command = [sys.executable, "-c", copy, "{source}", "{output}", str(builds)]
    source = tmp_path / "peer.cpp"
    source.write_text("one", encoding="utf-8")
    first = build_cached(source, command)
    assert build_cached(source, command) == first
    assert (first.read_text(encoding="utf-8"), builds.read_text(encoding="utf-8")) == ("one", "x")
    source.write_text("two", encoding="utf-8")
    second = build_cached(source, command)
    assert second != first
    assert second.read_text(encoding="utf-8") == "two"
