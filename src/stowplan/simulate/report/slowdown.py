"""What slowed what: the time that each physical cause took, by policy and by family of workflows.

The measure is time lost per time of undisturbed work (both summed over tasks), in percent, so that policies
and families of different size compare. A machine that is faster than the reference gives time back: its share
points left of zero.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from stowplan.core.physics.vocabulary import Cause
from stowplan.simulate.report.chart import Chart, Figure, series_colour
from stowplan.simulate.report.model import CAUSE_WORDS, SLOWDOWN_COLUMNS, ReportData

__all__ = ["family_slowdown_chart", "lost_shares", "policy_slowdown_chart"]

_MOST_FAMILIES: Final = 14
_NEGLIGIBLE_PERCENT: Final = 0.05


def lost_shares(tasks: pl.DataFrame, by: str) -> pl.DataFrame:
    """Return `by` (in order of appearance), `alone_s`, and the percentage of it lost to each cause."""
    return (
        tasks.filter(pl.col("status") == "done")
        .group_by(by, maintain_order=True)
        .agg(pl.col("alone_s").sum(), *(pl.col(column).sum() for column in SLOWDOWN_COLUMNS.values()))
        .with_columns(
            pl.when(pl.col("alone_s") > 0)
            .then(100.0 * pl.col(column) / pl.col("alone_s"))
            .otherwise(0.0)
            .alias(column)
            for column in SLOWDOWN_COLUMNS.values()
        )
    )


def policy_slowdown_chart(data: ReportData) -> Chart:
    """Return the causes per policy, over all seeds."""
    shares = lost_shares(data.tasks, "policy")
    note = "Time lost per time of undisturbed work, over all tasks and seeds; shorter is better."
    return _stacked(shares, "policy", note)


def family_slowdown_chart(data: ReportData, policy: str) -> Chart:
    """Return the causes per family under `policy`, over all seeds; the largest families by work."""
    tasks = data.tasks.filter(pl.col("policy") == policy)
    largest = (
        data.tasks.group_by("family")
        .agg(pl.col("alone_s").sum())
        .sort(["alone_s", "family"], descending=[True, False])
    )
    order = {family: index for index, family in enumerate(largest["family"].head(_MOST_FAMILIES).to_list())}
    shares = lost_shares(tasks.filter(pl.col("family").is_in(list(order))), "family")
    shares = shares.sort(pl.col("family").replace_strict(order, return_dtype=pl.Int64))
    note = "Time lost per time of undisturbed work, over all seeds; families in order of size."
    if len(largest) > _MOST_FAMILIES:
        note += f" The {_MOST_FAMILIES} largest of {len(largest)} families are shown."
    chart = _stacked(shares, "family", note)
    return Chart(chart.figure, f"{policy}. {chart.words}", chart.note)


def _stacked(shares: pl.DataFrame, by: str, note: str) -> Chart:
    names = [name or "no family" for name in shares[by].to_list()]
    traces: list[Figure] = []
    for cause, column in SLOWDOWN_COLUMNS.items():
        percent = shares[column].to_numpy().astype(np.float32)
        if not (np.abs(percent) >= _NEGLIGIBLE_PERCENT).any():
            continue
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": CAUSE_WORDS[cause],
                "y": names,
                "x": percent,
                "marker": {
                    "color": "--muted" if cause is Cause.MACHINE else series_colour(int(cause)),
                    "line": {"width": 0},
                },
                "hovertemplate": f"%{{y}}<br>{CAUSE_WORDS[cause]}: %{{x:.1f}} %<extra></extra>",
            }
        )
    totals = shares.select(pl.sum_horizontal(*SLOWDOWN_COLUMNS.values())).to_series().to_list()
    if traces:
        traces.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": "in total",
                "y": names,
                "x": np.array(totals, dtype=np.float32),
                "marker": {
                    "symbol": "line-ns-open",
                    "size": 22,
                    "color": "--text",
                    "line": {"width": 2.5, "color": "--text"},
                },
                "hovertemplate": "%{y}<br>in total: %{x:.1f} %<extra></extra>",
            }
        )
    words = [f"{name} {total:.1f} %" for name, total in zip(names, totals, strict=True)]
    layout: Figure = {
        "barmode": "relative",
        "bargap": 0.35,
        "height": len(names) * 38 + 70,
        "xaxis": {
            "title": {"text": "time lost per undisturbed time"}, "ticksuffix": " %",
            "rangemode": "tozero", "zeroline": True, "zerolinewidth": 1.5,
        },
        "yaxis": {"autorange": "reversed", "type": "category", "automargin": True, "showgrid": False},
        "hovermode": "closest",
    }  # fmt: skip
    if not traces:
        note = f"Nothing slowed any task by more than {_NEGLIGIBLE_PERCENT} %. {note}"
    return Chart({"data": traces, "layout": layout}, f"Time lost in total: {'; '.join(words)}.", note)
