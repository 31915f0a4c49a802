import polars as pl
import pytest

from stowplan.errors import InvalidInput, UnknownName
from stowplan.simulate.compare import compare


def summary(**makespans_s: list[float | None]) -> pl.DataFrame:
    rows = [
        {"policy": policy, "seed": seed, "is_partial": False, "makespan_s": value}
        for policy, values in makespans_s.items()
        for seed, value in enumerate(values)
    ]
    return pl.DataFrame(
        rows,
        schema={"policy": pl.String, "seed": pl.Int64, "is_partial": pl.Boolean, "makespan_s": pl.Float64},
    )


def test_policies_are_paired_by_seed() -> None:
    # Seeds differ tenfold; within each, b is half of a. Unpaired, nothing could be said.
    frame = compare(
        summary(a=[10.0, 100.0, 1000.0], b=[5.0, 50.0, 500.0]), baseline="a", metrics=["makespan_s"]
    )
    row = frame.to_dicts()[0]
    assert (row["policy"], row["baseline"], row["seeds"]) == ("b", "a", 3)
    assert row["change_percent"] == pytest.approx(-50.0)
    assert row["low_percent"] == pytest.approx(-50.0)
    assert row["high_percent"] == pytest.approx(-50.0)
    assert row["note"] == ""


def test_pairs_do_not_depend_on_the_order_of_rows() -> None:
    frame = summary(a=[10.0, 100.0, 30.0], b=[7.0, 90.0, 30.0])
    one = compare(frame, baseline="a", metrics=["makespan_s"])
    other = compare(
        frame.sort("policy", "seed", descending=[False, True]), baseline="a", metrics=["makespan_s"]
    )
    assert one["change_percent"][0] == pytest.approx(other["change_percent"][0])


def test_one_seed_says_that_it_has_no_interval() -> None:
    row = compare(summary(a=[10.0], b=[9.0]), baseline="a", metrics=["makespan_s"]).to_dicts()[0]
    assert row["change_percent"] == pytest.approx(-10.0)
    assert row["low_percent"] is None
    assert "one seed" in row["note"]


def test_unfinished_runs_and_missing_values_are_left_out() -> None:
    frame = summary(a=[10.0, 20.0, 30.0], b=[5.0, None, 1.0]).with_columns(
        is_partial=(pl.col("policy") == "b") & (pl.col("seed") == 2)
    )
    row = compare(frame, baseline="a", metrics=["makespan_s"]).to_dicts()[0]
    assert row["seeds"] == 1
    assert row["change_percent"] == pytest.approx(-50.0)


def test_nothing_in_common_is_said() -> None:
    row = compare(summary(a=[10.0], b=[None]), baseline="a", metrics=["makespan_s"]).to_dicts()[0]
    assert row["seeds"] == 0
    assert row["change_percent"] is None
    assert "no seed" in row["note"]


def test_unknown_baseline_metric_and_no_runs_are_refused() -> None:
    with pytest.raises(UnknownName, match="did you mean 'kube'"):
        compare(summary(kube=[1.0]), baseline="cube")
    with pytest.raises(UnknownName, match="did you mean 'makespan_s'"):
        compare(summary(a=[1.0]), baseline="a", metrics=["makespan"])
    with pytest.raises(InvalidInput, match="no run"):
        compare(summary(), baseline="a")
