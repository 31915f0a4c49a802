"""From an experiment to its page and its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import polars as pl

from stowplan.simulate.experiment import ExperimentResult
from stowplan.simulate.report.change import change_chart
from stowplan.simulate.report.completion import completion_chart, paired_chart
from stowplan.simulate.report.findings import findings
from stowplan.simulate.report.folder import ResultFolder
from stowplan.simulate.report.gantt import gantt_chart
from stowplan.simulate.report.model import ReportData
from stowplan.simulate.report.page import ByPolicy, Page, Section, render_page
from stowplan.simulate.report.slowdown import family_slowdown_chart, policy_slowdown_chart
from stowplan.simulate.report.tables import (
    HEADLINE_METRICS,
    comparison_table,
    slowdown_table,
    summary_table,
)
from stowplan.simulate.report.utilisation import utilisation_chart

__all__ = ["REPORT_NAME", "Facts", "experiment_page", "publish_experiment"]

REPORT_NAME: Final = "report.html"

_MOST_BARS: Final = 2500  # in one chart; drawing more takes seconds
_BARS_BYTES: Final = 850_000  # of a page that should stay below six megabytes, five of which are Plotly
_BAR_BYTES: Final = 40  # of one bar beside its names


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Where the numbers come from, so that a run can be repeated and judged.

    `sections` maps a heading ("Cluster", "Workload", "Versions" …) to named facts in words; `nodes` are all
    nodes of the cluster in its order.
    """

    title: str
    lead: str
    nodes: tuple[str, ...]
    sections: Mapping[str, Sequence[tuple[str, str]]] = field(
        default_factory=dict[str, Sequence[tuple[str, str]]]
    )
    footer: str = ""


def publish_experiment(experiment: ExperimentResult, facts: Facts, folder: ResultFolder) -> list[Path]:
    """Write every frame as Parquet and the report as HTML, all or none; return the paths.

    Raises:
        OutputError: a file could not be written.
    """
    frames = {**dict(experiment.result.frames()), "comparison": experiment.comparison}
    page = experiment_page(experiment, facts)
    return folder.publish(
        {
            REPORT_NAME: lambda path: path.write_text(page, encoding="utf-8"),
            **{
                f"{name}.parquet": lambda path, frame=frame: frame.write_parquet(path, compression="zstd")
                for name, frame in frames.items()
            },
        }
    )


def experiment_page(experiment: ExperimentResult, facts: Facts) -> str:
    """Return the report as one HTML document."""
    result = experiment.result
    data = ReportData(
        tasks=result.tasks,
        workflows=result.workflows,
        usage=result.usage,
        baseline=experiment.baseline,
        nodes=facts.nodes,
    )
    sections = [
        _outcome(experiment, data),
        _completion(data),
        _slowdown(data),
        _one_run(data),
        Section("How this was made", facts=facts.sections),
    ]
    return render_page(
        Page(
            title=facts.title,
            lead=facts.lead,
            findings=findings(experiment),
            sections=sections,
            policies=data.policies,
            footer=facts.footer,
        )
    )


def _outcome(experiment: ExperimentResult, data: ReportData) -> Section:
    summary = summary_table(experiment)
    changes = comparison_table(experiment)
    chart = change_chart(experiment.comparison, data.policies, HEADLINE_METRICS)
    return Section(
        "What came out",
        blocks=[
            (summary.title, summary),
            *([(f"Change against {experiment.baseline}", chart)] if chart is not None else []),
            *([("The same in numbers", changes)] if changes is not None else []),
        ],
    )


def _completion(data: ReportData) -> Section:
    pairs = paired_chart(data)
    return Section(
        "How long workflows took",
        "From submission to the end of the last task.",
        blocks=[
            ("All workflows", completion_chart(data)),
            *([("Workflow by workflow", pairs)] if pairs is not None else []),
        ],
        in_pairs=pairs is not None,
    )


def _slowdown(data: ReportData) -> Section:
    numbers = slowdown_table(data.tasks)
    return Section(
        "What slowed what",
        "A task that runs beside others on one machine gets less of what they share. The simulator books "
        "every second that it loses on the resource that was short.",
        blocks=[
            ("By policy", policy_slowdown_chart(data)),
            *([("In numbers", numbers)] if numbers is not None else []),
        ],
    )


def _one_run(data: ReportData) -> Section:
    names = data.tasks.select(
        (pl.col("task").str.len_bytes() + pl.col("workflow").str.len_bytes()).mean()
    ).item()
    most_bars = int(min(_MOST_BARS, _BARS_BYTES / (_BAR_BYTES + (names or 0.0)) / len(data.policies)))
    return Section(
        "One run in detail",
        "Choose a policy; all charts of this part follow. Their axes are the same for every policy.",
        selects_policy=True,
        blocks=[
            (
                "Who ran where",
                ByPolicy(
                    {policy: gantt_chart(data, policy, most_bars=most_bars) for policy in data.policies}
                ),
            ),
            (
                "Requested and really used",
                ByPolicy({policy: utilisation_chart(data, policy) for policy in data.policies}),
            ),
            (
                "What slowed which family of workflows",
                ByPolicy({policy: family_slowdown_chart(data, policy) for policy in data.policies}),
            ),
        ],
    )
