"""The results of an experiment as tables and sentences: the same for the terminal and the page.

Means are over seeds; changes are paired by seed with their 95 % interval (`stowplan.simulate.compare`). A
change is called better or worse only when its interval does not contain zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import polars as pl

from stowplan.simulate.compare import METRICS
from stowplan.simulate.experiment import ExperimentResult
from stowplan.simulate.report.chart import time_unit
from stowplan.simulate.report.model import CAUSE_WORDS, SLOWDOWN_COLUMNS
from stowplan.simulate.report.slowdown import lost_shares
from stowplan.simulate.report.table import Cell, Column, Table

__all__ = [
    "HEADLINE_METRICS",
    "amount",
    "change_in_words",
    "comparison_table",
    "counted",
    "describe_duration",
    "slowdown_table",
    "summary_table",
    "trouble_in_words",
]

HEADLINE_METRICS: Final = ("makespan_s", "completion_mean_s", "completion_p95_s")
"""What fits beside each other in a terminal."""

_MORE_IS_BETTER: Final = frozenset({"cpu_utilisation"})
_SHORT_UNITS: Final = {"seconds": "s", "minutes": "min", "hours": "h", "days": "d"}
_COLUMNS: Final = (
    ("makespan_s", "makespan"),
    ("completion_mean_s", "completion mean"),
    ("completion_p50_s", "median"),
    ("completion_p95_s", "p95"),
    ("scheduling_delay_mean_s", "delay mean"),
    ("backlog_peak_tasks", "backlog peak"),
    ("cpu_utilisation", "CPU used"),
    ("cpu_waste_core_hours", "CPU waste (core h)"),
    ("oom_kills", "OOM kills"),
)
_TROUBLES: Final = (
    ("tasks_infeasible", "Fit no node"),
    ("tasks_starved", "Never found room"),
    ("tasks_lost", "Failed for good, after all retries"),
    ("tasks_skipped", "Skipped, because a task before them did not succeed"),
)
_SHOWN_REASONS: Final = 3


def describe_duration(seconds: float) -> str:
    """Return a duration with three significant digits and the unit that suits it: `42.3 min`."""
    per_unit, name = time_unit(seconds)
    return f"{seconds / per_unit:.3g} {_SHORT_UNITS[name]}"


def amount(number: float) -> str:
    """Return a number of cores or GiB: whole from 10 on, with three significant digits below."""
    return f"{number:,.0f}" if number >= 10.0 else f"{number:.3g}"


def counted(count: int, noun: str) -> str:
    """Return `1 node`, `2 nodes`, `1,000 nodes`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def change_in_words(change: float | None, low: float | None, high: float | None) -> str:
    """Return a change with its interval: `−12.3 % (−15.0 … −9.5)`; `–` when there is none."""
    if change is None:
        return "–"
    if low is None or high is None:
        return f"{_signed(change)} %"
    return f"{_signed(change)} % ({_signed(low)} … {_signed(high)})"


def _signed(number: float) -> str:
    digits = 1 if abs(number) < 999.95 else 0
    text = f"{number:+.{digits}f}"
    return "0.0" if float(text) == 0.0 else text.replace("-", "−")


def summary_table(experiment: ExperimentResult, *, only: Sequence[str] = ()) -> Table:
    """Return one row per policy with the means over seeds; `only` names the columns to show, if not all."""
    summary = experiment.result.summary.filter(~pl.col("is_partial"))
    if summary.is_empty():
        summary = experiment.result.summary
    means = summary.group_by("policy", maintain_order=True).agg(pl.col(name).mean() for name, _ in _COLUMNS)
    columns = [Column("policy", holds_words=True)]
    formatted: list[list[str]] = [means["policy"].to_list()]
    for name, heading in _COLUMNS:
        numbers: list[float | None] = means[name].to_list()
        if (only and name not in only) or (name == "oom_kills" and not any(numbers)):
            continue
        unit, texts = _format_column(name, numbers)
        columns.append(Column(f"{heading}{unit}"))
        formatted.append(texts)
    rows = [[Cell(text) for text in row] for row in zip(*formatted, strict=True)]
    seeds = summary["seed"].n_unique()
    return Table(f"Results, mean over {counted(seeds, 'seed')}", columns, rows)


def _format_column(name: str, numbers: Sequence[float | None]) -> tuple[str, list[str]]:
    """Return what the heading adds (the unit) and the cells; all of a column have one unit and precision."""
    known = [number for number in numbers if number is not None and not math.isnan(number)]
    largest = max(known, default=0.0)
    if name.endswith("_s"):
        per_unit, unit = time_unit(largest)
        suffix = f" ({_SHORT_UNITS[unit]})"
    elif name.endswith("_utilisation"):
        per_unit, suffix = 0.01, " (%)"
    else:
        per_unit, suffix = 1.0, ""
    digits = max(0, 2 - math.floor(math.log10(largest / per_unit))) if largest > 0.0 else 0
    digits = 0 if name.endswith(("_tasks", "_kills")) and largest >= 10 else min(digits, 3)
    return suffix, [
        "–" if number is None or math.isnan(number) else f"{number / per_unit:,.{digits}f}"
        for number in numbers
    ]


def comparison_table(
    experiment: ExperimentResult, *, metrics: Sequence[str] = tuple(METRICS)
) -> Table | None:
    """Return one row per policy with its changes against the baseline; None if nothing was compared."""
    comparison = experiment.comparison
    if comparison.is_empty():
        return None
    columns = [Column("policy", holds_words=True), *(Column(METRICS[metric]) for metric in metrics)]
    columns = [
        Column(column.heading.replace("95th percentile of ", "p95 of "), column.holds_words)
        for column in columns
    ]
    rows: list[list[Cell]] = []
    for policy in comparison["policy"].unique(maintain_order=True).to_list():
        row = [Cell(policy)]
        for metric in metrics:
            found = comparison.filter((pl.col("policy") == policy) & (pl.col("metric") == metric))
            change, low, high = found.select("change_percent", "low_percent", "high_percent").row(0)
            row.append(Cell(change_in_words(change, low, high), _verdict(metric, low, high)))
        rows.append(row)
    seeds = int(comparison["seeds"].to_numpy().max())
    known = comparison.filter(pl.col("low_percent").is_not_null())
    if seeds < 2:
        caption = "Change in one seed; run more seeds for an interval."
    elif (known["low_percent"] == known["high_percent"]).all():
        caption = "Every seed gave the same: nothing in these runs was left to chance."
    else:
        caption = f"Change of the geometric mean, paired by seed ({seeds}), with its 95 % interval."
    return Table(f"Against {experiment.baseline}", columns, rows, caption)


def _verdict(metric: str, low: float | None, high: float | None) -> str:
    if low is None or high is None or low <= 0.0 <= high:
        return ""
    return "good" if (low > 0.0) == (metric in _MORE_IS_BETTER) else "bad"


def slowdown_table(tasks: pl.DataFrame, by: str = "policy") -> Table | None:
    """Return the percentage of undisturbed time that each cause took, by policy or family; None if none."""
    shares = lost_shares(tasks, by)
    shown = [
        (cause, column) for cause, column in SLOWDOWN_COLUMNS.items() if (shares[column].abs() >= 0.05).any()
    ]
    if not shown:
        return None
    columns = [
        Column(by, holds_words=True),
        *(Column(CAUSE_WORDS[cause]) for cause, _ in shown),
        Column("in total"),
    ]
    totals = shares.select(pl.sum_horizontal(*SLOWDOWN_COLUMNS.values())).to_series().to_list()
    rows = [
        [
            Cell(str(name) or "no family"),
            *(Cell(f"{_signed(shares[column][index])} %") for _, column in shown),
            Cell(f"{_signed(totals[index])} %"),
        ]
        for index, name in enumerate(shares[by].to_list())
    ]
    caption = "Time lost (+) or gained (−) per time of undisturbed work, over all tasks and seeds."
    return Table("What slowed tasks", columns, rows, caption)


def trouble_in_words(experiment: ExperimentResult) -> list[str]:
    """Return a sentence for everything that did not go to plan: parts missing, tasks that could not run."""
    words: list[str] = []
    summary = experiment.result.summary
    if experiment.is_partial:
        words.append(
            f"Partial: {experiment.runs_finished} of {experiment.runs} runs came to their end; "
            "what was reached is kept, and only whole runs are compared."
        )
    lost = pl.col("tasks_failed") - pl.col("tasks_infeasible") - pl.col("tasks_starved")
    troubles = summary.with_columns(lost.alias("tasks_lost"))
    for name, what in _TROUBLES:
        numbers = troubles[name].to_numpy()
        if numbers.any():
            up_to = "" if numbers.min() == numbers.max() else "up to "
            examples = _examples(experiment.result.tasks, name)
            words.append(f"{what}: {up_to}{counted(int(numbers.max()), 'task')} a run{examples}.")
    degraded = int(summary["degraded_cycles"].sum())
    if degraded:
        words.append(f"In {degraded:,} cycles a policy failed and a simpler one decided instead.")
    return words


def _examples(tasks: pl.DataFrame, trouble: str) -> str:
    status = trouble.removeprefix("tasks_")
    found = (
        tasks.filter((pl.col("status") == status) & pl.col("reason").is_not_null())
        .unique(["workflow", "task"], maintain_order=True)
        .head(_SHOWN_REASONS)
    )
    if found.is_empty():
        return ""
    listed = "; ".join(
        f"{workflow}/{task}: {reason}"
        for workflow, task, reason in found.select("workflow", "task", "reason").iter_rows()
    )
    return f" ({listed})"
