"""Who ran where and when, node by node: bars while tasks are few, a map of how busy nodes were beyond.

A picture of ten thousand bars shows nothing and stalls the browser. Beyond a limit the chart therefore
becomes a heat map of node × time, and says so. Both forms show one run (the first seed): a mean over runs
would show a schedule that never happened.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from stowplan.simulate.report.chart import Chart, Figure, series_colour, time_unit
from stowplan.simulate.report.model import ReportData

__all__ = ["MOST_LANES", "gantt_chart"]

MOST_LANES: Final = 240
"""Rows of bars that fit a screen while each is at least three pixels high."""

_MOST_ROWS: Final = 60
_MOST_LABELS: Final = 30
_BINS: Final = 240
_PIXELS: Final = 2000  # about what a wide screen shows; what is shorter than one cannot be seen
_LANE_PIXELS: Final = 12
_LABEL_PIXELS: Final = 14
_MARGIN_PIXELS: Final = 70
_MOST_COLOURS: Final = 8
_OTHER: Final = "others"
_LOST: Final = "lost attempts"


@dataclass(frozen=True, slots=True)
class _Run:
    """The tasks of one policy in one seed, in order of start; `rows` index `nodes`."""

    policy: str
    seed: int
    tasks: pl.DataFrame
    nodes: list[str]
    rows: NDArray[np.int64]
    start_s: NDArray[np.float64]
    end_s: NDArray[np.float64]
    horizon_s: float


def gantt_chart(data: ReportData, policy: str, *, most_bars: int) -> Chart:
    """Return the schedule of `policy` in the first seed, with at most `most_bars` tasks drawn one by one.

    The axis reaches to the end of the slowest policy, so that switching between policies compares them.
    """
    first_run = data.tasks.filter(
        pl.col("seed") == data.first_seed,
        pl.col("node").is_not_null(),
        pl.col("started_s").is_not_null(),
        pl.col("finished_s").is_not_null(),
    )
    tasks = first_run.filter(pl.col("policy") == policy).sort("started_s", "workflow", "task")
    if tasks.is_empty():
        empty: Figure = {"data": [], "layout": {"height": 200}}
        return Chart(empty, f"{policy}: no task ran.")
    nodes = list(data.nodes) or sorted(tasks["node"].unique().to_list())
    row_of = {name: row for row, name in enumerate(nodes)}
    run = _Run(
        policy=policy,
        seed=data.first_seed,
        tasks=tasks,
        nodes=nodes,
        rows=np.array([row_of[name] for name in tasks["node"].to_list()], dtype=np.int64),
        start_s=tasks["started_s"].to_numpy(),
        end_s=tasks["finished_s"].to_numpy(),
        horizon_s=float(first_run["finished_s"].to_numpy().max()),
    )
    lanes, lane_counts = _lanes(run)
    is_visible = run.end_s - run.start_s >= run.horizon_s / _PIXELS
    if int(is_visible.sum()) <= most_bars and int(lane_counts.sum()) + len(nodes) <= MOST_LANES:
        return _bars(run, np.flatnonzero(is_visible), lanes, lane_counts, _coloured(data))
    return _heat_map(run)


def _lanes(run: _Run) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the lane of each task, the lowest that is free, and how many lanes each node has."""
    lanes = np.zeros(len(run.rows), dtype=np.int64)
    counts = [1] * len(run.nodes)
    busy: list[list[tuple[float, int]]] = [[] for _ in run.nodes]
    free: list[list[int]] = [[0] for _ in run.nodes]
    rows: list[int] = run.rows.tolist()
    ends_s: list[float] = run.end_s.tolist()
    for index, (row, start_s, end_s) in enumerate(zip(rows, run.start_s, ends_s, strict=True)):
        while busy[row] and busy[row][0][0] <= start_s:
            heapq.heappush(free[row], heapq.heappop(busy[row])[1])
        if not free[row]:
            free[row].append(counts[row])
            counts[row] += 1
        lane = heapq.heappop(free[row])
        heapq.heappush(busy[row], (end_s, lane))
        lanes[index] = lane
    return lanes, np.array(counts, dtype=np.int64)


def _coloured(data: ReportData) -> tuple[str, list[str]]:
    """Return the column that colours bars, and those of its values that get a colour, most frequent first.

    Families of workflows tell bars apart; where there is only one, kinds of task do. For all policies alike.
    """
    column = "family" if data.tasks["family"].n_unique() > 1 else "template"
    counts = data.tasks.group_by(column).len().sort(["len", column], descending=[True, False])
    return column, counts[column].head(_MOST_COLOURS).to_list()


def _bars(
    run: _Run,
    drawn: NDArray[np.intp],
    lanes: NDArray[np.int64],
    lane_counts: NDArray[np.int64],
    by: tuple[str, list[str]],
) -> Chart:
    seconds, unit = time_unit(run.horizon_s)
    first_lane = np.concatenate(([0], np.cumsum(lane_counts + 1)))[:-1]
    total = int(first_lane[-1] + lane_counts[-1])
    tasks = run.tasks[drawn]
    y = (first_lane[run.rows] + lanes)[drawn].astype(np.float32)
    base = (run.start_s[drawn] / seconds).astype(np.float32)
    length_s = (run.end_s - run.start_s)[drawn]
    alone_s = tasks["alone_s"].to_numpy()
    slower = np.where(alone_s > 0.0, 100.0 * (length_s / np.where(alone_s > 0.0, alone_s, 1.0) - 1.0), 0.0)
    labels = (tasks["task"] + "<br>" + tasks["workflow"]).to_list()
    column, names = by
    rank_of = {name: rank for rank, name in enumerate(names)}
    ranks = np.array([rank_of.get(name, len(names)) for name in tasks[column].to_list()], dtype=np.int64)
    ranks[(tasks["status"] != "done").to_numpy()] = len(names) + 1
    traces: list[Figure] = []
    for rank, name in enumerate([*names, _OTHER, _LOST]):
        chosen = np.flatnonzero(ranks == rank)
        if chosen.size == 0:
            continue
        colour = series_colour(rank) if rank < len(names) else "--muted" if name == _OTHER else "--text"
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": name or f"no {column}",
                "x": (length_s[chosen] / seconds).astype(np.float32),
                "base": base[chosen],
                "y": y[chosen],
                "width": 0.86,
                "marker": {"color": colour, "line": {"width": 0.5, "color": "--panel"}},
                "text": [labels[position] for position in chosen.tolist()],
                "textposition": "none",
                "customdata": slower[chosen].astype(np.float32),
                "hovertemplate": f"%{{text}}<br>from %{{base:.4~g}} {unit} for %{{x:.3~g}} {unit}"
                "<br>%{customdata:+.0f} % against undisturbed<extra></extra>",
            }
        )
    height = int(np.clip(total * _LANE_PIXELS + _MARGIN_PIXELS, 200, 900))
    centres = first_lane + (lane_counts - 1) / 2
    labelled = _apart(centres * (height - _MARGIN_PIXELS) / total)
    layout: Figure = {
        "barmode": "overlay",
        "height": height,
        "xaxis": {"title": {"text": f"time ({unit})"}, "range": [0.0, run.horizon_s / seconds]},
        "yaxis": {
            "tickvals": centres[labelled].astype(np.float32),
            "ticktext": [run.nodes[row] for row in labelled],
            "range": [total - 0.4, -0.6],
            "showgrid": False,
            "zeroline": False,
        },
        "shapes": [_separator(float(lane) - 1.0) for lane in first_lane[1:]],
        "hovermode": "closest",
    }
    note = "Each bar is a task; a node has as many rows as it ran tasks at once."
    hidden = len(run.rows) - len(drawn)
    if hidden:
        shortest = run.horizon_s / _PIXELS
        note += f" {hidden:,} tasks shorter than {shortest:.2g} s are too short to be seen and not drawn."
    return Chart({"data": traces, "layout": layout}, _in_words(run), f"{note} One run (seed {run.seed}).")


def _apart(positions: NDArray[np.float64]) -> list[int]:
    """Return which of the ascending `positions` (pixels) can be labelled without labels running together."""
    kept: list[int] = []
    for index, position in enumerate(positions):
        if not kept or position - positions[kept[-1]] >= _LABEL_PIXELS:
            kept.append(index)
    return kept


def _separator(y: float) -> Figure:
    return {
        "type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y,
        "line": {"color": "--grid", "width": 1}, "layer": "below",
    }  # fmt: skip


def _heat_map(run: _Run) -> Chart:
    seconds, unit = time_unit(run.horizon_s)
    per_row = -(-len(run.nodes) // _MOST_ROWS)
    row_count = -(-len(run.nodes) // per_row)
    edges_s = np.linspace(0.0, run.horizon_s, _BINS + 1)
    running = np.zeros((row_count, _BINS), dtype=np.float32)
    labels: list[str] = []
    for row in range(row_count):
        members = run.nodes[row * per_row : (row + 1) * per_row]
        chosen = run.rows // per_row == row
        task_seconds = np.diff(_task_seconds_until(edges_s, run.start_s[chosen], run.end_s[chosen]))
        running[row] = task_seconds / np.diff(edges_s) / len(members)
        labels.append(_span(members[0], members[-1]))
    every = -(-row_count // _MOST_LABELS)
    trace: Figure = {
        "type": "heatmap",
        "z": running,
        "x": (edges_s / seconds).astype(np.float32),
        "y": np.arange(row_count),
        "zmin": 0,
        "colorscale": [[0, "--heat-0"], [0.5, "--heat-1"], [1, "--heat-2"]],
        "colorbar": {
            "title": {"text": "tasks running per node", "side": "top", "font": {"size": 12.5}},
            "orientation": "h", "x": 0, "xanchor": "left", "y": 1, "yanchor": "bottom",
            "len": 0.6, "thickness": 9, "outlinewidth": 0,
        },
        "hovertemplate": f"at %{{x:.4~g}} {unit}: %{{z:.3~g}} tasks running per node<extra></extra>",
    }  # fmt: skip
    layout: Figure = {
        "height": int(np.clip(row_count * 14, 160, 840)) + 110,
        "xaxis": {"title": {"text": f"time ({unit})"}, "showgrid": False},
        "yaxis": {
            "range": [row_count - 0.5, -0.5],
            "tickvals": np.arange(0, row_count, every),
            "ticktext": labels[::every],
            "showgrid": False,
            "zeroline": False,
        },
    }
    grouped = f", {per_row} nodes to a row" if per_row > 1 else ""
    note = (
        "Too many to draw one by one: the colour is the mean number of tasks running per node in each of "
        f"{_BINS} equal stretches of time{grouped}. One run (seed {run.seed})."
    )
    return Chart({"data": [trace], "layout": layout}, _in_words(run), note)


def _in_words(run: _Run) -> str:
    seconds, unit = time_unit(run.horizon_s)
    end = float(run.end_s.max()) / seconds
    return f"{run.policy}: {len(run.rows):,} tasks on {len(run.nodes):,} nodes in {end:.3g} {unit}."


def _span(first: str, last: str) -> str:
    """Name the nodes from `first` to `last`: `node-004…007`."""
    if first == last:
        return first
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False)))
    cut = max(last.rfind(mark, 0, shared) for mark in "-_. ") + 1
    return f"{first}…{last[cut:]}"


def _task_seconds_until(
    times_s: NDArray[np.float64], start_s: NDArray[np.float64], end_s: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return Σ over tasks of the seconds that each has run until each of `times_s`, shape (times,)."""

    def since(begins_s: NDArray[np.float64]) -> NDArray[np.float64]:
        ordered = np.sort(begins_s)
        total = np.concatenate(([0.0], np.cumsum(ordered)))
        count = np.searchsorted(ordered, times_s, side="right")
        return count * times_s - total[count]

    return since(start_s) - since(end_s)
