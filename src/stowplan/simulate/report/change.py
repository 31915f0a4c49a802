"""What each policy changes against the baseline: a point for the estimate, a line for its 95 % interval.

One panel per measure, all on one scale around zero, so that the size of an effect and its certainty are seen
at a glance; the numbers stand in the table beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import polars as pl

from stowplan.simulate.compare import METRICS
from stowplan.simulate.report.chart import Chart, Figure, series_colour

__all__ = ["change_chart"]

_ROW_PIXELS: Final = 22
_HEADING_PIXELS: Final = 32


def change_chart(comparison: pl.DataFrame, policies: Sequence[str], metrics: Sequence[str]) -> Chart | None:
    """Return the changes of `metrics`; None if nothing was compared. Colours are those of `policies`."""
    known = comparison.filter(pl.col("metric").is_in(list(metrics)) & pl.col("change_percent").is_not_null())
    if known.is_empty():
        return None
    compared = [policy for policy in policies if policy in known["policy"].to_list()]
    baseline = str(known["baseline"][0])
    count = len(metrics)
    panel_pixels = len(compared) * _ROW_PIXELS + _HEADING_PIXELS
    layout: Figure = {"height": count * panel_pixels + 70, "hovermode": "closest", "annotations": []}
    traces: list[Figure] = []
    words: list[str] = []
    for panel, metric in enumerate(metrics):
        suffix = "" if panel == 0 else str(panel + 1)
        rows = known.filter(pl.col("metric") == metric)
        top = 1.0 - panel / count
        layout[f"yaxis{suffix}"] = {
            "domain": [1.0 - (panel + 1) / count, top - _HEADING_PIXELS / panel_pixels / count],
            "range": [len(compared) - 0.5, -0.5],
            "tickvals": np.arange(len(compared)),
            "ticktext": compared,
            "showgrid": False,
            "zeroline": False,
        }
        layout["annotations"].append(
            {
                "text": f"<b>{METRICS[metric]}</b>",
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
        for position, policy in enumerate(compared):
            found = rows.filter(pl.col("policy") == policy)
            if found.is_empty():
                continue
            change, low, high = found.select("change_percent", "low_percent", "high_percent").row(0)
            has_interval = low is not None and high is not None
            interval = f" ({low:+.1f} to {high:+.1f})" if has_interval else ""
            colour = series_colour(policies.index(policy))
            traces.append(
                {
                    "type": "scatter",
                    "mode": "markers",
                    "x": [change],
                    "y": [position],
                    "xaxis": "x",
                    "yaxis": f"y{suffix}",
                    "marker": {"color": colour, "size": 9},
                    "error_x": {
                        "type": "data",
                        "symmetric": False,
                        "array": [high - change if has_interval else 0],
                        "arrayminus": [change - low if has_interval else 0],
                        "color": colour,
                        "thickness": 2,
                        "width": 5,
                        "visible": has_interval,
                    },
                    "hovertemplate": f"{policy}, {METRICS[metric]}: {change:+.1f} %{interval}<extra></extra>",
                }
            )
            words.append(f"{METRICS[metric]} under {policy} {change:+.1f} %{interval}")
    layout["xaxis"] = {
        "title": {"text": f"change against {baseline}"},
        "ticksuffix": " %",
        "anchor": f"y{count}" if count > 1 else "y",
        "rangemode": "tozero",
        "zeroline": True,
        "zerolinewidth": 1.5,
    }
    note = f"Left of zero is better. Lines are 95 % intervals over seeds, paired with {baseline}."
    return Chart({"data": traces, "layout": layout}, f"Changes: {'; '.join(words)}.", note)
