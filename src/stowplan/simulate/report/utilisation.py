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
_WORDS: Final = {
    "cpu": "CPU",
    "gpu": "GPU",
    "dram": "memory bandwidth",
    "network_up": "network, sent",
    "network_down": "network, received",
    "pcie": "PCIe",
}


def utilisation_chart(data: ReportData, policy: str) -> Chart:
    """Return requested and used share per resource over time, for `policy` in the first seed."""
    first_run = data.usage.filter(pl.col("seed") == data.first_seed)
    usage = first_run.filter(pl.col("policy") == policy)
    resources = _drawn_resources(first_run)
    if usage.is_empty() or not resources:
        figure: Figure = {"data": [], "layout": {"height": 200}}
        return Chart(figure, f"{policy}: no usage was recorded.", "No usage was recorded.")
    horizon_s = float((first_run["time_s"] + first_run["length_s"]).to_numpy().max())
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
        words = _WORDS.get(resource, resource.replace("_", " "))
        suffix = "" if index == 0 else str(index + 1)
        rows = usage.filter(pl.col("resource") == resource).sort("time_s")
        used = _binned_share(rows, "used", edges_s)
        requested = _binned_share(rows, "requested", edges_s)
        is_requested = rows["requested"].null_count() < len(rows)
        shared: Figure = {
            "type": "scatter",
            "mode": "lines",
            "x": x,
            "xaxis": "x",
            "yaxis": f"y{suffix}",
            "showlegend": index == 0,
        }
        traces.append(
            {
                **shared,
                "name": "really used",
                "y": used,
                "fill": "tozeroy",
                "fillcolor": "--fill-0",
                "line": {"shape": "hv", "width": 1.2, "color": "--series-0"},
                "hovertemplate": f"{words}: %{{y:.0f}} % used<extra></extra>",
            }
        )
        if is_requested:
            traces.append(
                {
                    **shared,
                    "name": "requested",
                    "y": requested,
                    "line": {"shape": "hv", "width": 1.6, "color": "--series-1"},
                    "hovertemplate": f"{words}: %{{y:.0f}} % requested<extra></extra>",
                }
            )
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
                "text": f"<b>{words}</b>",
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
        of_requested = f" of {_mean(requested):.0f} % requested" if is_requested else ""
        means.append(f"{words} {_mean(used):.0f} % used{of_requested}")
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

    The last entry repeats the last bin, so that a step line ends where the axis does. Where the function has
    no row it is 0: nothing ran.
    """
    starts_s, length_s = rows["time_s"].to_numpy(), rows["length_s"].to_numpy()
    share = (100.0 * rows[column] / rows["allocatable"]).fill_nan(0.0).fill_null(0.0).to_numpy()
    # The integral of a step function is piecewise linear: interpolate it at the edges and take differences.
    knots_s = np.column_stack((starts_s, starts_s + length_s)).ravel()
    integral = np.repeat(np.cumsum(share * length_s), 2)
    integral[::2] -= share * length_s
    means = np.diff(np.interp(edges_s, knots_s, integral)) / np.diff(edges_s)
    return np.append(means, means[-1]).astype(np.float32)


def _mean(share: NDArray[np.float32]) -> float:
    return float(share[:-1].mean()) if share.size > 1 else 0.0
