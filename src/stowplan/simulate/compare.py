"""Policies against a baseline, paired by seed: what a policy changes where everything else is the same.

Two policies under one seed meet the same arrivals, faults and drift, so the difference within a seed is the
policy's, and the spread between seeds, usually much larger, cancels. How estimate and interval come about is
told at `paired_change`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import polars as pl

from stowplan.errors import InvalidInput, UnknownName
from stowplan.simulate.statistics import Interval, paired_change

__all__ = ["METRICS", "NO_COMPARISON", "compare"]

METRICS: Final[Mapping[str, str]] = {
    "makespan_s": "makespan",
    "completion_mean_s": "mean completion time",
    "completion_p50_s": "median completion time",
    "completion_p95_s": "95th percentile of completion time",
    "scheduling_delay_mean_s": "mean scheduling delay",
    "scheduling_delay_p95_s": "95th percentile of scheduling delay",
    "backlog_peak_tasks": "backlog peak",
    "cpu_utilisation": "CPU utilisation",
    "cpu_waste_core_hours": "CPU waste",
    "memory_waste_gib_hours": "memory waste",
}
"""Columns of `summary` that are compared, in words. For all but utilisation less is better."""


_SCHEMA: Final = {
    "policy": pl.String,
    "baseline": pl.String,
    "metric": pl.String,
    "seeds": pl.Int64,
    "baseline_mean": pl.Float64,
    "mean": pl.Float64,
    "change_percent": pl.Float64,
    "low_percent": pl.Float64,
    "high_percent": pl.Float64,
    "note": pl.String,
}

NO_COMPARISON: Final = pl.DataFrame(schema=_SCHEMA)
"""A comparison without rows, for when the baseline was not reached."""


def compare(summary: pl.DataFrame, *, baseline: str, metrics: Sequence[str] = tuple(METRICS)) -> pl.DataFrame:
    """Return one row per policy (the baseline excepted) and metric.

    Columns: `policy`, `baseline`, `metric`, `seeds` (pairs used), `baseline_mean`, `mean`, `change_percent`,
    `low_percent`, `high_percent` (95 %; null when there is none) and `note`, which says why something is
    missing. Seeds that either policy did not finish are left out.

    Raises:
        UnknownName: the baseline was not run, or a metric is no column of `summary`.
        InvalidInput: there is no run.
    """
    if summary.is_empty():
        raise InvalidInput("there is no run to compare; run at least one simulation")
    policies: list[str] = summary["policy"].unique(maintain_order=True).to_list()
    if baseline not in policies:
        raise UnknownName("baseline policy", baseline, policies)
    for metric in metrics:
        if metric not in summary.columns:
            raise UnknownName("metric", metric, summary.columns)
    finished = summary.filter(~pl.col("is_partial"))
    theirs = finished.filter(pl.col("policy") == baseline)
    rows: list[dict[str, object]] = []
    for policy in policies:
        if policy == baseline:
            continue
        ours = finished.filter(pl.col("policy") == policy)
        pairs = ours.join(theirs, on="seed", suffix="_baseline", maintain_order="left")
        rows += [_row(pairs, policy, baseline, metric) for metric in metrics]
    return pl.DataFrame(rows, schema=_SCHEMA)


def _row(pairs: pl.DataFrame, policy: str, baseline: str, metric: str) -> dict[str, object]:
    both = pairs.select(
        pl.col(metric).cast(pl.Float64).alias("ours"),
        pl.col(f"{metric}_baseline").cast(pl.Float64).alias("theirs"),
    ).drop_nulls()
    ours: list[float] = both["ours"].to_list()
    theirs: list[float] = both["theirs"].to_list()
    change = paired_change(ours, theirs) if ours else Interval(math.nan, math.nan, math.nan, 0)
    return {
        "policy": policy,
        "baseline": baseline,
        "metric": metric,
        "seeds": change.samples,
        "baseline_mean": math.fsum(theirs) / len(theirs) if theirs else None,
        "mean": math.fsum(ours) / len(ours) if ours else None,
        "change_percent": _number(change.estimate),
        "low_percent": _number(change.low),
        "high_percent": _number(change.high),
        "note": _note(change),
    }


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def _note(change: Interval) -> str:
    if change.samples == 0:
        return "no seed has a value for both policies"
    if change.samples == 1:
        return "one seed: no interval; run more seeds"
    if math.isnan(change.estimate):
        return "a value is zero: no ratio"
    return ""
