"""Tables and sentences from hand-made results."""

from collections.abc import Mapping, Sequence

import polars as pl
import pytest

from stowplan.simulate.compare import compare
from stowplan.simulate.experiment import ExperimentResult
from stowplan.simulate.frames import SLOWDOWN_COLUMNS as FRAME_COLUMNS
from stowplan.simulate.report.change import change_chart
from stowplan.simulate.report.findings import findings
from stowplan.simulate.report.model import SLOWDOWN_COLUMNS
from stowplan.simulate.report.table import Cell, Column, Table
from stowplan.simulate.report.tables import (
    change_in_words,
    comparison_table,
    describe_duration,
    slowdown_table,
    summary_table,
    trouble_in_words,
)
from stowplan.simulate.results import RunResult

NO_TROUBLE = dict.fromkeys(
    ("tasks_infeasible", "tasks_starved", "tasks_failed", "tasks_skipped", "degraded_cycles", "oom_kills"), 0
)

TIMES = (
    "makespan_s", "completion_mean_s", "completion_p50_s", "completion_p95_s",
    "scheduling_delay_mean_s", "scheduling_delay_p95_s",
)  # fmt: skip


def experiment(
    completion_s: Mapping[str, Sequence[float | None]],
    *,
    slow_s: Mapping[str, Mapping[str, float]] | None = None,
    runs: int | None = None,
    troubles: Mapping[str, int] | None = None,
    tasks: Sequence[Mapping[str, object]] = (),
) -> ExperimentResult:
    """A result with the given mean completion time per policy and seed; other measures follow it."""
    summary = pl.DataFrame(
        [
            {
                "policy": policy,
                "seed": seed,
                "is_partial": number is None,
                **dict.fromkeys(TIMES, number),
                "backlog_peak_tasks": 3,
                "cpu_utilisation": 0.5,
                "cpu_waste_core_hours": 2.0,
                "memory_waste_gib_hours": 2.0,
                **NO_TROUBLE,
                **(troubles or {}),
            }
            for policy, numbers in completion_s.items()
            for seed, number in enumerate(numbers)
        ]
    )  # fmt: skip
    rows = list(tasks) or [
        {
            "policy": policy, "seed": 0, "workflow": "w", "family": "", "task": "t", "status": "done",
            "reason": None, "alone_s": 100.0, **dict.fromkeys(SLOWDOWN_COLUMNS.values(), 0.0),
            **(slow_s or {}).get(policy, {}),
        }
        for policy in completion_s
    ]  # fmt: skip
    baseline = next(iter(completion_s))
    empty = pl.DataFrame()
    return ExperimentResult(
        result=RunResult(
            tasks=pl.DataFrame(rows), workflows=empty, usage=empty, node_usage=empty, training=empty,
            summary=summary,
            is_partial=bool(summary["is_partial"].any()),
        ),
        comparison=compare(summary, baseline=baseline),
        baseline=baseline,
        runs=runs if runs is not None else len(summary),
        runs_finished=int((~summary["is_partial"]).sum()),
    )  # fmt: skip


def texts(table: Table) -> list[list[str]]:
    """The cells of a table as text."""
    return [[cell.text for cell in row] for row in table.rows]


def test_causes_are_those_of_the_frames() -> None:
    assert dict(SLOWDOWN_COLUMNS) == dict(FRAME_COLUMNS)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0, "0 s"),
        (1.234, "1.23 s"),
        (119.0, "119 s"),
        (2538.0, "42.3 min"),
        (9000.0, "2.5 h"),
        (4e5, "4.63 d"),
    ],
)
def test_durations(seconds: float, words: str) -> None:
    assert describe_duration(seconds) == words


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ((-12.34, -15.0, -9.5), "−12.3 % (−15.0 … −9.5)"),
        ((0.04, -0.04, 1234.5), "0.0 % (0.0 … +1234)"),
        ((5.0, None, None), "+5.0 %"),
        ((None, None, None), "–"),
    ],
)
def test_changes(change: tuple[float | None, float | None, float | None], words: str) -> None:
    assert change_in_words(*change) == words


class TestSummary:
    def test_means_over_seeds_in_one_unit_per_column(self) -> None:
        table = summary_table(experiment({"a": [600.0, 660.0], "b": [60.0, 60.0]}))
        assert table.title == "Results, mean over 2 seeds"
        headings = [column.heading for column in table.columns]
        assert headings[:3] == ["policy", "makespan (min)", "completion mean (min)"]
        assert "OOM kills" not in headings
        assert [row[:2] for row in texts(table)] == [["a", "10.5"], ["b", "1.0"]]
        assert texts(table)[0][headings.index("CPU used (%)")] == "50.0"

    def test_only_named_columns(self) -> None:
        table = summary_table(experiment({"a": [1.0]}), only=["makespan_s"])
        assert [column.heading for column in table.columns] == ["policy", "makespan (s)"]

    def test_partial_runs_do_not_count_while_there_are_whole_ones(self) -> None:
        table = summary_table(experiment({"a": [10.0, None]}))
        assert table.title == "Results, mean over 1 seed"
        assert texts(table)[0][1] == "10.0"


class TestComparison:
    def test_better_and_worse_only_beyond_chance(self) -> None:
        table = comparison_table(
            experiment({"a": [10, 20, 30], "b": [9, 18.1, 27.1], "c": [5, 60, 31], "d": [11, 22.1, 33]})
        )
        assert table is not None
        completion = [column.heading for column in table.columns].index("mean completion time")
        assert [row[completion].verdict for row in table.rows] == ["good", "", "bad"]
        assert texts(table)[0][completion].startswith("−9.7 % (")
        assert "95 % interval" in table.caption

    def test_one_seed_has_no_interval(self) -> None:
        table = comparison_table(experiment({"a": [10.0], "b": [5.0]}))
        assert table is not None
        assert texts(table)[0][1] == "−50.0 %"
        assert "run more seeds" in table.caption

    def test_equal_seeds_are_told(self) -> None:
        table = comparison_table(experiment({"a": [10.0, 10.0], "b": [5.0, 5.0]}))
        assert table is not None
        assert "nothing in these runs was left to chance" in table.caption

    def test_one_policy_compares_with_nothing(self) -> None:
        assert comparison_table(experiment({"a": [1.0]})) is None
        assert change_chart(experiment({"a": [1.0]}).comparison, ["a"], ["makespan_s"]) is None


def test_the_chart_of_changes_holds_the_interval() -> None:
    result = experiment({"a": [10.0, 20.0], "b": [5.0, 11.0]})
    chart = change_chart(result.comparison, ["a", "b"], ["makespan_s"])
    assert chart is not None
    (point,) = chart.figure["data"]
    row = result.comparison.filter(pl.col("metric") == "makespan_s").row(0, named=True)
    assert point["x"] == [row["change_percent"]]
    assert point["x"][0] + point["error_x"]["array"][0] == pytest.approx(row["high_percent"])
    assert point["x"][0] - point["error_x"]["arrayminus"][0] == pytest.approx(row["low_percent"])
    assert point["marker"]["color"] == "--series-1"


def test_slowdown_shows_causes_that_matter() -> None:
    table = slowdown_table(
        experiment({"a": [1.0]}, slow_s={"a": {"slow_disk_s": 20.0, "slow_machine_s": -5.0}}).result.tasks
    )
    assert table is not None
    assert [column.heading for column in table.columns] == ["policy", "disk", "machine type", "in total"]
    assert texts(table) == [["a", "+20.0 %", "−5.0 %", "+15.0 %"]]
    assert slowdown_table(experiment({"a": [1.0]}).result.tasks) is None


class TestFindings:
    def test_a_gain_with_its_reason(self) -> None:
        found = findings(
            experiment(
                {"a": [600.0, 600.0, 606.0], "b": [300.0, 303.0, 300.0]},
                slow_s={
                    "a": {"slow_disk_s": 30.0, "slow_cpu_s": 2.0},
                    "b": {"slow_disk_s": 10.0, "slow_cpu_s": 1.9},
                },
            )
        )
        assert len(found) == 2
        assert found[0].startswith(
            "b completes workflows soonest: mean completion time −50.0 % (95 % interval −5"
        )
        assert found[0].endswith("5.02 min under b, 10 min under a.")
        assert found[1].startswith("Why: of the time that they take undisturbed, tasks lose 10.0 %")
        assert " instead of 30.0 % to busy disks. Most of the gain comes from the order" in found[1]
        assert "tasks themselves take 15.2 % less time" in found[1]

    def test_a_gain_of_physics_alone(self) -> None:
        slow_s = {"a": {"slow_disk_s": 100.0}, "b": {"slow_disk_s": 0.0}}
        assert "order" not in findings(experiment({"a": [10.0], "b": [5.0]}, slow_s=slow_s))[1]

    def test_a_gain_of_order_alone(self) -> None:
        why = findings(experiment({"a": [10.0], "b": [5.0]}))[1]
        assert why.startswith("Why: the gain comes from the order in which tasks run: ")

    def test_no_gain(self) -> None:
        (found,) = findings(experiment({"a": [10.0, 10.5], "b": [20.0, 22.0]}))
        assert found.startswith("No policy completes workflows sooner than a; the closest, b, ")

    def test_a_gain_that_may_be_chance_is_not_claimed(self) -> None:
        (found,) = findings(experiment({"a": [10.0, 10.0], "b": [5.0, 11.0]}))
        assert found.startswith("No policy is beyond doubt better than a")

    def test_nothing_to_compare(self) -> None:
        assert findings(experiment({"a": [1.0]})) == []


class TestTrouble:
    def test_parts_that_are_missing(self) -> None:
        (words,) = trouble_in_words(experiment({"a": [1.0, None]}, runs=4))
        assert words.startswith("Partial: 1 of 4 runs came to their end")

    def test_tasks_that_could_not_run_with_examples(self) -> None:
        losses = dict.fromkeys(SLOWDOWN_COLUMNS.values(), None)
        tasks = [
            {"policy": "a", "seed": 0, "workflow": "w", "family": "", "task": name, "status": "infeasible",
             "reason": "Insufficient cpu", "alone_s": 1.0, **losses}
            for name in ("x", "y")
        ]  # fmt: skip
        (words,) = trouble_in_words(
            experiment({"a": [1.0]}, troubles={"tasks_infeasible": 2, "tasks_failed": 2}, tasks=tasks)
        )
        assert words == "Fit no node: 2 tasks a run (w/x: Insufficient cpu; w/y: Insufficient cpu)."

    def test_degraded_cycles(self) -> None:
        (words,) = trouble_in_words(experiment({"a": [1.0]}, troubles={"degraded_cycles": 7}))
        assert "7 cycles a policy failed" in words


def test_a_table_as_html_is_escaped_and_labelled() -> None:
    html = Table(
        "T & t", (Column("<n>", holds_words=True), Column("x")), [(Cell("a<b"), Cell("1", "good"))], "c"
    ).to_html()
    assert 'aria-label="T &amp; t"' in html
    assert '<th scope="col">&lt;n&gt;</th>' in html
    assert '<th scope="row">a&lt;b</th><td class="good">1</td>' in html
    assert "<caption>c</caption>" in html
