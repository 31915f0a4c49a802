"""How full the cluster was over time: what tasks had requested against what they really used.

The gap between the two curves is what a scheduler that looks only at requests cannot see. Both are shares of
what the nodes offer, so that resources of different units can stand below each other on one scale from zero.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from stowplan.simulate.report.chart import Chart, Figure, time_unit
from stowplan.simulate.report.model import ReportData

__all__ = ["utilisation_chart"]

_BINS: Final = 300
_PANEL_PIXELS: Final = 130


def utilisation_chart(data: ReportData, policy: str) -> Chart:
    """Return requested and used share per resource over time, for `policy` in the first seed."""
    first_run = data.usage.filter(pl.col("seed") == data.first_seed)
    usage = first_run.filter(pl.col("policy") == policy)
    resources = _drawn_resources(first_run)
    if usage.is_empty() or not resources:
        figure: Figure = {"data": [], "layout": {"height": 200}}
        return Chart(figure, f"{policy}: no usage was recorded.", "No usage was recorded.")
    horizon_s = float(first_run["time_s"].max())  # type: ignore[arg-type]
    seconds, unit = time_unit(horizon_s)
    edges_s = np.linspace(0.0, horizon_s, _BINS + 1)
    x = (edges_s / seconds).astype(np.float32)
    height = _PANEL_PIXELS * len(resources) + 70
    layout: Figure = {
        "height": height,
        "hovermode": "x unified",
        "hoversubplots": "axis",
        "xaxis": {
            "title": {"text": f"time ({unit})"},
            "range": [0, float(x[-1])],
            "anchor": "y" if len(resources) == 1 else f"y{len(resources)}",
        },
        "annotations": [],
    }
    traces: list[Figure] = []
    means: list[str] = []
    for index, resource in enumerate(resources):
        suffix = "" if index == 0 else str(index + 1)
        rows = usage.filter(pl.col("resource") == resource).sort("time_s")
        used = _binned_share(rows, "used", edges_s)
        requested = _binned_share(rows, "requested", edges_s)
        shared: Figure = {
            "type": "scatter",
            "mode": "lines",
            "x": x,
            "xaxis": "x",
            "yaxis": f"y{suffix}",
            "showlegend": index == 0,
        }
        traces += [
            {
                **shared,
                "name": "really used",
                "y": used,
                "fill": "tozeroy",
                "fillcolor": "--fill-0",
                "line": {"shape": "hv", "width": 1.2, "color": "--series-0"},
                "hovertemplate": f"{resource}: %{{y:.0f}} % used<extra></extra>",
            },
            {
                **shared,
                "name": "requested",
                "y": requested,
                "line": {"shape": "hv", "width": 1.6, "color": "--series-1"},
                "hovertemplate": f"{resource}: %{{y:.0f}} % requested<extra></extra>",
            },
        ]
        peak = max(float(used.max(initial=0.0)), float(requested.max(initial=0.0)))
        bottom = 1.0 - (index + 1) / len(resources)
        layout[f"yaxis{suffix}"] = {
            "domain": [bottom, bottom + 0.8 / len(resources)],
            "range": [0, max(100.0, peak * 1.02)],
            "ticksuffix": " %",
            "nticks": 4,
        }
        layout["annotations"].append(
            {
                "text": f"<b>{resource}</b>",
                "showarrow": False,
                "font": {"size": 12.5, "color": "--text"},
                "xref": "paper",
                "x": 0,
                "xanchor": "left",
                "yref": f"y{suffix} domain",
                "y": 1.0,
                "yanchor": "bottom",
            }
        )
        means.append(f"{resource} {_mean(used):.0f} % used of {_mean(requested):.0f} % requested")
    note = (
        f"Share of what all nodes offer, one run (seed {data.first_seed}); means over {_BINS} equal "
        "stretches of time until the last policy has finished."
    )
    return Chart({"data": traces, "layout": layout}, f"{policy}, mean over time: {'; '.join(means)}.", note)


def _drawn_resources(usage: pl.DataFrame) -> list[str]:
    """Return the resources that the cluster has and somebody requested or used, in the order of the frame."""
    touched = usage.group_by("resource", maintain_order=True).agg(
        pl.col("allocatable").max(), pl.max_horizontal("requested", "used").max().alias("peak")
    )
    return touched.filter((pl.col("allocatable") > 0) & (pl.col("peak") > 0))["resource"].to_list()


def _binned_share(rows: pl.DataFrame, column: str, edges_s: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the mean of a step function within each bin in percent of allocatable, shape (bins + 1,).

    The last entry repeats the last bin, so that a step line ends where the axis does. Before its first row
    the function is 0, after the last it keeps its value.
    """
    if rows.is_empty():
        return np.zeros(len(edges_s), dtype=np.float32)
    times_s = rows["time_s"].to_numpy()
    share = (100.0 * rows[column] / rows["allocatable"]).fill_nan(0.0).fill_null(0.0).to_numpy()
    # The integral of a step function is piecewise linear: interpolate it at the edges and take differences.
    knots_s = np.append(times_s, max(float(edges_s[-1]), float(times_s[-1])))
    integral = np.concatenate(([0.0], np.cumsum(share * np.diff(knots_s))))
    means = np.diff(np.interp(edges_s, knots_s, integral)) / np.diff(edges_s)
    return np.append(means, means[-1]).astype(np.float32)


def _mean(share: NDArray[np.float32]) -> float:
    return float(share[:-1].mean()) if share.size > 1 else 0.0
