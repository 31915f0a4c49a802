"""What the charts say is what the frames hold: counted and summed by hand, not drawn."""

import base64
import json
from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
import pytest

from stowplan.errors import InvalidInput
from stowplan.simulate.report.chart import encode_json, series_colour, time_unit
from stowplan.simulate.report.completion import completion_chart, paired_chart
from stowplan.simulate.report.gantt import gantt_chart
from stowplan.simulate.report.model import SLOWDOWN_COLUMNS, ReportData
from stowplan.simulate.report.slowdown import family_slowdown_chart, lost_shares, policy_slowdown_chart
from stowplan.simulate.report.utilisation import utilisation_chart
from tests.synthetic_experiment import synthetic_data


def small_data(
    tasks: Sequence[Mapping[str, object]] | None = None,
    workflows: Sequence[Mapping[str, object]] | None = None,
    usage: Sequence[Mapping[str, object]] | None = None,
) -> ReportData:
    """A hand-made result of the policies a and b, with defaults for what a test does not care about."""
    no_losses = dict.fromkeys(SLOWDOWN_COLUMNS.values(), 0.0)
    task = {
        "policy": "a", "seed": 1, "workflow": "w", "family": "f", "task": "t", "template": "k",
        "node": "n", "status": "done",
        "started_s": 0.0, "finished_s": 10.0, "alone_s": 10.0, **no_losses,
    }  # fmt: skip
    workflow = {"policy": "a", "seed": 1, "workflow": "w", "family": "f", "completion_s": 10.0}
    use = {
        "policy": "a", "seed": 1, "time_s": 0.0, "length_s": 10.0, "resource": "cpu", "requested": 1.0,
        "used": 1.0, "allocatable": 2.0,
    }  # fmt: skip
    return ReportData(
        tasks=pl.DataFrame([{**task, **row} for row in tasks or [{}]]),
        workflows=pl.DataFrame([{**workflow, **row} for row in workflows or [{}, {"policy": "b"}]]),
        usage=pl.DataFrame([{**use, **row} for row in usage or [{}]]),
        baseline="a",
    )


def test_a_missing_column_is_named() -> None:
    good = small_data()
    with pytest.raises(InvalidInput, match="'tasks' has no column 'alone_s'"):
        ReportData(tasks=good.tasks.drop("alone_s"), workflows=good.workflows, usage=good.usage, baseline="a")


def test_an_unknown_baseline_is_refused() -> None:
    good = small_data()
    with pytest.raises(InvalidInput, match="baseline 'c' is not among the policies a, b"):
        ReportData(tasks=good.tasks, workflows=good.workflows, usage=good.usage, baseline="c")


class TestGantt:
    def test_overlapping_tasks_of_a_node_get_lanes_of_their_own(self) -> None:
        data = small_data(
            tasks=[
                {"task": "one", "started_s": 0.0, "finished_s": 10.0},
                {"task": "two", "started_s": 5.0, "finished_s": 15.0},
                {"task": "three", "started_s": 10.0, "finished_s": 20.0},  # the first lane is free again
                {"task": "four", "node": "other", "started_s": 0.0, "finished_s": 1.0},
            ]
        )
        chart = gantt_chart(data, "a", most_bars=10)
        (trace,) = chart.figure["data"]
        at = dict(zip([label.split("<br>")[0] for label in trace["text"]], trace["y"].tolist(), strict=True))
        assert at["one"] == at["three"] == 0
        assert at["two"] == 1
        assert at["four"] == 3  # a gap between nodes
        assert trace["x"].tolist() == [1, 10, 10, 10]  # in order of start, then name
        assert chart.figure["layout"]["yaxis"]["ticktext"] == ["n", "other"]

    def test_only_the_first_seed_and_the_policy_are_drawn(self) -> None:
        data = small_data(tasks=[{}, {"seed": 2}, {"policy": "b"}])
        assert gantt_chart(data, "a", most_bars=10).words.startswith("a: 1 tasks")

    def test_beyond_the_limit_it_is_a_map_whose_mean_is_exact_and_it_says_so(self) -> None:
        data = synthetic_data(tasks=2000, nodes=100, seeds=1, policies=("p",))
        chart = gantt_chart(data, "p", most_bars=1000)
        (trace,) = chart.figure["data"]
        assert trace["type"] == "heatmap"
        assert "Too many to draw" in chart.note
        assert "2 nodes to a row" in chart.note
        width_s = data.tasks["finished_s"].max() / 240  # type: ignore[operator]
        drawn_task_seconds = trace["z"].sum() * 2 * width_s
        assert drawn_task_seconds == pytest.approx(
            (data.tasks["finished_s"] - data.tasks["started_s"]).sum(), rel=1e-4
        )

    def test_tasks_too_short_to_be_seen_are_counted_and_not_drawn(self) -> None:
        data = small_data(tasks=[{"finished_s": 10_000.0}, {"task": "blink", "finished_s": 1.0}])
        chart = gantt_chart(data, "a", most_bars=1)
        (trace,) = chart.figure["data"]
        assert trace["text"] == ["t<br>w"]
        assert "1 tasks shorter than 5 s are too short to be seen" in chart.note
        assert chart.words.startswith("a: 2 tasks")

    def test_many_lanes_make_a_map_even_of_few_tasks(self) -> None:
        crowd = [{"task": str(number), "finished_s": 10.0} for number in range(400)]
        chart = gantt_chart(small_data(tasks=crowd), "a", most_bars=1000)
        assert chart.figure["data"][0]["type"] == "heatmap"

    def test_ten_thousand_tasks_stay_small(self) -> None:
        chart = gantt_chart(
            synthetic_data(tasks=10_000, nodes=400, seeds=1, policies=("p",)), "p", most_bars=1500
        )
        assert len(encode_json(chart.figure)) < 120_000

    def test_a_policy_without_tasks_says_so(self) -> None:
        assert "no task ran" in gantt_chart(small_data(), "b", most_bars=10).words


class TestUtilisation:
    def test_the_mean_of_a_step_function_is_exact(self) -> None:
        data = small_data(
            usage=[
                {"time_s": 0.0, "length_s": 50.0, "used": 2.0, "requested": 2.0},
                {"time_s": 50.0, "length_s": 150.0, "used": 0.0, "requested": 1.0},
            ]
        )
        used, requested = utilisation_chart(data, "a").figure["data"]
        assert used["y"][:-1].mean() == pytest.approx(25.0, rel=1e-5)
        assert requested["y"][:-1].mean() == pytest.approx(62.5, rel=1e-5)
        assert used["y"][0] == pytest.approx(100.0)
        assert used["y"][-2] == 0.0

    def test_resources_that_nobody_touches_or_has_are_left_out(self) -> None:
        data = small_data(
            usage=[
                {"time_s": time_s, "resource": name, "used": used, "requested": 0.0, "allocatable": has}
                for name, used, has in (("cpu", 1.0, 2.0), ("gpu", 0.0, 4.0), ("disk", 1.0, 0.0))
                for time_s in (0.0, 10.0)
            ]
        )
        words = utilisation_chart(data, "a").words
        assert "CPU 50 % used of 0 % requested" in words
        assert "gpu" not in words
        assert "disk" not in words


class TestCompletion:
    def test_the_curve_counts_workflows(self) -> None:
        data = small_data(workflows=[{"workflow": name, "completion_s": time_s} for name, time_s in
                                     (("u", 1.0), ("v", 2.0), ("w", 4.0), ("x", None))])  # fmt: skip
        (curve,) = completion_chart(data).figure["data"]
        assert curve["x"].tolist() == [1, 1, 2, 4]
        assert curve["y"].tolist() == [0, 25, 50, 75]  # the one that did not complete keeps it below 100
        assert "1 workflow runs did not complete" in completion_chart(data).note

    def test_pairs_are_the_same_workflow_in_the_same_seed(self) -> None:
        data = small_data(
            workflows=[
                {"policy": policy, "seed": seed, "workflow": name, "completion_s": time_s}
                for policy, times in (("a", (10.0, 20.0, 30.0, None)), ("b", (5.0, 30.0, 30.0, 1.0)))
                for (seed, name), time_s in zip(((1, "u"), (1, "v"), (2, "u"), (2, "v")), times, strict=True)
            ]
        )
        chart = paired_chart(data)
        assert chart is not None
        (curve,) = chart.figure["data"]
        assert curve["x"].tolist() == pytest.approx([0.5, 0.5, 1.0, 1.5])
        assert "b faster in 33 % of 3 pairs" in chart.note

    def test_one_policy_has_no_pairs(self) -> None:
        assert paired_chart(small_data(workflows=[{}])) is None

    def test_a_wide_range_has_a_logarithmic_axis_with_ticks_that_say_their_value(self) -> None:
        rows = [{"workflow": str(number), "completion_s": float(4**number)} for number in range(6)]
        axis = completion_chart(small_data(workflows=rows)).figure["layout"]["xaxis"]
        assert axis["type"] == "log"
        labels = dict(zip(axis["ticktext"], axis["tickvals"], strict=True))
        assert labels["0.05"] == pytest.approx(0.05)
        assert {"0.1", "1", "2", "5", "10"} <= labels.keys()

    def test_many_points_are_thinned_without_moving_the_ends(self) -> None:
        rows = [{"workflow": str(number), "completion_s": float(number + 1)} for number in range(5000)]
        (curve,) = completion_chart(small_data(workflows=rows)).figure["data"]
        assert len(curve["x"]) <= 1001
        assert curve["y"][0] == 0.0
        assert curve["y"][-1] == 100.0
        assert curve["x"][-1] == pytest.approx(5000 / time_unit(5000.0)[0])


class TestSlowdown:
    def test_shares_are_of_undisturbed_time(self) -> None:
        data = small_data(
            tasks=[
                {"alone_s": 100.0, "slow_disk_s": 30.0},
                {"alone_s": 100.0, "slow_disk_s": 10.0, "slow_machine_s": -20.0},
                {"policy": "b", "alone_s": 0.0},
            ]
        )
        shares = lost_shares(data.tasks, "policy")
        assert shares["slow_disk_s"].to_list() == [20.0, 0.0]
        assert shares["slow_machine_s"].to_list() == [-10.0, 0.0]
        chart = policy_slowdown_chart(data)
        assert [trace["name"] for trace in chart.figure["data"]] == ["disk", "machine type", "in total"]
        assert "a 10.0 %" in chart.words

    def test_nothing_lost_is_said(self) -> None:
        assert policy_slowdown_chart(small_data()).note.startswith("Nothing slowed any task")

    def test_families_are_in_order_of_size_and_the_rest_is_counted(self) -> None:
        tasks = [
            {"family": f"f{number:02d}", "alone_s": 100.0 + number, "slow_cpu_s": 5.0} for number in range(20)
        ]
        chart = family_slowdown_chart(small_data(tasks=tasks), "a")
        assert chart.figure["data"][0]["y"][0] == "f19"
        assert "The 14 largest of 20 families" in chart.note


class TestEncoding:
    def test_arrays_travel_as_typed_arrays(self) -> None:
        encoded = json.loads(
            encode_json({"x": np.array([1.5, 2.5], np.float32), "z": np.zeros((2, 3), np.int64)})
        )
        assert encoded["x"]["dtype"] == "f4"
        assert np.frombuffer(base64.b64decode(encoded["x"]["bdata"]), "<f4").tolist() == [1.5, 2.5]
        assert encoded["z"]["shape"] == "2,3"
        assert encoded["z"]["dtype"] == "i4"

    def test_large_whole_numbers_do_not_wrap(self) -> None:
        encoded = json.loads(encode_json(np.array([2**40])))
        assert np.frombuffer(base64.b64decode(encoded["bdata"]), "<f8").tolist() == [2.0**40]

    def test_text_cannot_end_the_script_element(self) -> None:
        assert "</script>" not in encode_json({"name": "</script><b>"})
        assert json.loads(encode_json("</script>")) == "</script>"

    def test_what_is_not_finite_becomes_nothing(self) -> None:
        assert encode_json([float("nan"), float("inf"), np.float64(1.0), None]) == "[null,null,1.0,null]"

    def test_what_cannot_be_encoded_is_named(self) -> None:
        with pytest.raises(TypeError, match="holds a set"):
            encode_json({1, 2})


@pytest.mark.parametrize(
    ("longest_s", "expected"),
    [
        (10.0, (1.0, "seconds")),
        (150.0, (60.0, "minutes")),
        (7200.0, (3600.0, "hours")),
        (1e6, (86400.0, "days")),
    ],
)
def test_time_unit_is_the_largest_with_at_least_two(longest_s: float, expected: tuple[float, str]) -> None:
    assert time_unit(longest_s) == expected


def test_colours_repeat() -> None:
    assert series_colour(0) == series_colour(9) == "--series-0"
