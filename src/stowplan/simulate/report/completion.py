"""How long workflows took from submission to completion, policy by policy and pair by pair.

Two drawings. The distribution: which share of the workflows was complete after how long. And the pairs: the
same workflow in the same seed under two policies, as a ratio; what a mean hides (some workflows lose when
most gain) is seen there.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from stowplan.simulate.report.chart import SERIES_DASHES, Chart, Figure, series_colour, time_unit
from stowplan.simulate.report.model import ReportData

__all__ = ["completion_chart", "paired_chart"]

_MOST_POINTS: Final = 1000
_LOG_BEYOND: Final = 50.0
_SHORT_AXIS: Final = 6.0


def completion_chart(data: ReportData) -> Chart:
    """Return the distribution of completion times over all workflows and seeds, one curve per policy."""
    finished = data.workflows["completion_s"].drop_nulls()
    longest_s = float(finished.max() or 0.0)  # type: ignore[arg-type]
    seconds, unit = time_unit(longest_s)
    positive = finished.filter(finished > 0.0)
    is_log = positive.len() > 1 and longest_s / float(positive.quantile(0.01) or longest_s) > _LOG_BEYOND
    traces: list[Figure] = []
    words: list[str] = []
    left_out = 0
    for index, policy in enumerate(data.policies):
        column = data.workflows.filter(pl.col("policy") == policy)["completion_s"]
        times = np.sort(column.drop_nulls().to_numpy()) / seconds
        left_out += column.null_count()
        x, y = _steps(times, len(column))
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": policy,
                "x": x,
                "y": y,
                "line": {
                    "shape": "hv",
                    "color": series_colour(index),
                    "dash": SERIES_DASHES[index % len(SERIES_DASHES)],
                    "width": 2,
                },
                "hovertemplate": f"{policy}: %{{y:.0f}} % within %{{x:.3~g}} {unit}<extra></extra>",
            }
        )
        if times.size:
            words.append(f"{policy} median {np.median(times):.3g} {unit}")
    layout: Figure = {
        "height": 380,
        "xaxis": {
            "title": {"text": f"completion time ({unit}{', log scale' if is_log else ''})"},
            **(
                _log_axis(float(positive.to_numpy().min()) / seconds, longest_s / seconds, "")
                if is_log
                else {}
            ),
        },
        "yaxis": {"title": {"text": "workflows complete"}, "ticksuffix": " %", "range": [0, 101]},
        "hovermode": "closest",
    }
    note = "All seeds together; left is better."
    if left_out:
        note += f" {left_out:,} workflow runs did not complete: their curves end below 100 %."
    return Chart({"data": traces, "layout": layout}, f"Completion times: {'; '.join(words)}.", note)


def paired_chart(data: ReportData) -> Chart | None:
    """Return completion time relative to the baseline, workflow by workflow; None with one policy."""
    keys = ["seed", "workflow"]
    reference = data.workflows.filter(pl.col("policy") == data.baseline).select(
        *keys, pl.col("completion_s").alias("reference_s")
    )
    traces: list[Figure] = []
    words: list[str] = []
    lows, highs = [1.0], [1.0]
    for index, policy in enumerate(data.policies):
        if policy == data.baseline:
            continue
        pairs = (
            data.workflows.filter(pl.col("policy") == policy)
            .join(reference, on=keys, how="inner")
            .filter((pl.col("completion_s") > 0) & (pl.col("reference_s") > 0))
        )
        if pairs.is_empty():
            continue
        ratio = np.sort((pairs["completion_s"] / pairs["reference_s"]).to_numpy())
        x, y = _steps(ratio, len(ratio))
        lows.append(float(ratio[0]))
        highs.append(float(ratio[-1]))
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": policy,
                "x": x,
                "y": y,
                "line": {
                    "shape": "hv",
                    "color": series_colour(index),
                    "dash": SERIES_DASHES[index % len(SERIES_DASHES)],
                    "width": 2,
                },
                "hovertemplate": f"{policy}: %{{y:.0f}} % of the pairs at %{{x:.2f}}× or less<extra></extra>",
            }
        )
        faster = 100.0 * float((ratio < 1.0).mean())
        words.append(f"{policy} faster in {faster:.0f} % of {len(ratio):,} pairs")
    if not traces:
        return None
    layout: Figure = {
        "height": 380,
        "xaxis": {
            "title": {"text": f"× the time under {data.baseline} (log scale)"},
            **_log_axis(min(lows), max(highs), "×"),
        },
        "yaxis": {"title": {"text": "pairs"}, "ticksuffix": " %", "range": [0, 101]},
        "hovermode": "closest",
        "shapes": [
            {
                "type": "line", "x0": 1, "x1": 1, "yref": "paper", "y0": 0, "y1": 1, "layer": "below",
                "line": {"color": "--muted", "width": 1.5},
            }
        ],
    }  # fmt: skip
    words_together = "; ".join(words)
    note = f"The same workflow in the same seed under both policies; left of 1× is faster. {words_together}."
    return Chart(
        {"data": traces, "layout": layout}, f"Pairs against {data.baseline}: {words_together}.", note
    )


def _log_axis(low: float, high: float, suffix: str) -> Figure:
    """Return a logarithmic axis with ticks at 1, 2, 5 of each decade, closer on a short axis."""
    steps = (
        (1.0, 2.0, 5.0)
        if high / low > _SHORT_AXIS
        else (1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0)
    )
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [step * 10.0**decade for decade in decades for step in steps]
    return {"type": "log", "tickvals": ticks, "ticktext": [f"{tick:g}{suffix}" for tick in ticks]}


def _steps(ordered: NDArray[np.float64], out_of: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return x and the percentage of `out_of` that is at most x, from zero on, in ≤ 1,000 steps."""
    if ordered.size == 0:
        return np.zeros(0, np.float32), np.zeros(0, np.float32)
    kept = np.arange(ordered.size)
    if ordered.size > _MOST_POINTS:
        kept = np.unique(np.linspace(0, ordered.size - 1, _MOST_POINTS).round().astype(np.int64))
    x = np.concatenate((ordered[:1], ordered[kept])).astype(np.float32)
    y = np.concatenate(([0.0], 100.0 * (kept + 1) / out_of)).astype(np.float32)
    return x, y
