"""Fan-outs: counted ones, those whose width shows at run time, and what ends without having begun."""

import pytest

from stowplan.serve.workflows.widths import width_of
from tests.unit.argo.cases import Json, container, dag, steps, task, workflow
from tests.unit.workflows.cases import Followed, node, status

LISTED = workflow(
    dag(
        "main",
        task("list"),
        task("each", dependencies=["list"], withParam="{{tasks.list.outputs.result}}"),
        task("join", dependencies=["each"]),
    ),
    container("leaf"),
)
ROOT = {"": node("Running", "DAG")}


def test_each_item_is_a_task_where_they_are_few() -> None:
    seen = Followed(workflow(dag("main", task("e", withItems=["a", "b", "c"])), container("leaf")))
    seen.see(status(nodes={**ROOT, ".e": node("Running", "TaskGroup"), ".e(1:b)": node("Succeeded")}))
    assert seen.states() == {".e#0": "PENDING", ".e#1": "DONE", ".e#2": "PENDING"}
    assert seen.live.progress.remaining_work_s == 2.0


def test_counted_items_are_instances_of_one_task() -> None:
    seen = Followed(workflow(dag("main", task("e", withSequence={"count": "400"})), container("leaf")))
    seen.see()
    assert seen.live.progress.remaining_work_s == 400.0
    nodes = {f".e({n}:{n})": node("Succeeded" if n < 100 else "Running") for n in range(150)}
    seen.see(status(nodes={**ROOT, ".e": node("Running", "TaskGroup"), **nodes}))
    assert seen.states() == {".e#*": "RUNNING"}
    assert seen.live.progress.remaining_work_s == 300.0
    view = seen.live.view(0)
    assert (view.count, view.open, view.by_status) == (400, 300, {"RUNNING": 50, "DONE": 100})
    seen.see(status(nodes={**ROOT, ".e": node("Failed", "TaskGroup"), ".e(0:0)": node("Failed")}))
    assert seen.states() == {".e#*": "FAILED"}
    assert seen.live.progress.remaining_work_s == 0.0


def test_an_unknown_width_counts_as_one_until_items_show() -> None:
    seen = Followed(LISTED)
    seen.see()
    assert seen.live.progress.remaining_work_s == 3.0
    assert seen.live.view(1).count is None
    done = {**ROOT, ".list": node("Succeeded")}
    items = {f".each({n}:{n})": node("Running") for n in range(5)}
    seen.see(status(nodes={**done, ".each": node("Running", "TaskGroup"), **items}))
    assert seen.live.progress.remaining_work_s == 6.0
    # Some have ended, and nobody knows whether others follow: the next task is not ready.
    items = {name: node("Succeeded") for name in items}
    seen.see(status(nodes={**done, ".each": node("Running", "TaskGroup"), **items}))
    assert seen.open() == {".join": 1}
    assert seen.states()[".join"] == "WAITING"
    seen.see(status(nodes={**done, ".each": node("Succeeded", "TaskGroup"), **items}))
    assert seen.states() == {".list": "DONE", ".each#*": "DONE", ".join": "PENDING"}


@pytest.mark.parametrize("where", ["result", "parameters.names"])
def test_the_output_of_the_task_before_tells_the_width(where: str) -> None:
    raw = workflow(
        dag(
            "main",
            task("list"),
            task("each", dependencies=["list"], withParam=f"{{{{tasks.list.outputs.{where}}}}}"),
        ),
        container("leaf"),
    )
    seen = Followed(raw)
    outputs: Json = (
        {"result": '["a","b"]'}
        if where == "result"
        else {"parameters": [{"name": "other", "value": "[]"}, {"name": "names", "value": '["a","b"]'}]}
    )
    seen.see(status(nodes={**ROOT, ".list": node("Succeeded")}))
    assert seen.open() == {".each#*": 1}
    seen.see(status(nodes={**ROOT, ".list": node("Succeeded", outputs=outputs)}))  # it may come later
    assert seen.open() == {".each#*": 2}
    seen.see(
        status(nodes={**ROOT, ".list": node("Succeeded", outputs=outputs), ".each(1:b)": node("Succeeded")})
    )
    assert seen.open() == {".each#*": 1}


def test_a_list_that_was_passed_into_a_template_tells_the_width_there() -> None:
    raw = workflow(
        steps(
            "main",
            [task("list")],
            [
                task(
                    "work",
                    "work",
                    arguments={"parameters": [{"name": "names", "value": "{{steps.list.outputs.result}}"}]},
                )
            ],
        ),
        dag(
            "work",
            task("each", withParam="{{inputs.parameters.names}}"),
            inputs={"parameters": [{"name": "names"}]},
        ),
        container("leaf"),
    )
    seen = Followed(raw)
    seen.see(
        status(
            nodes={
                "[0]": node("Running", "StepGroup"),
                "[0].list": node("Succeeded", outputs={"result": "[1,2,3]"}),
            }
        )
    )
    assert seen.open() == {"[1].work.each#*": 3}


def test_the_width_of_a_template_multiplies_what_is_in_it() -> None:
    raw = workflow(
        dag(
            "main",
            task("list"),
            task("each", "each", dependencies=["list"], withParam="{{tasks.list.outputs.result}}"),
        ),
        dag("each", task("x"), task("y", dependencies=["x"], withSequence={"count": "300"})),
        container("leaf"),
    )
    seen = Followed(raw)
    seen.see(status(nodes={**ROOT, ".list": node("Succeeded", outputs={"result": "[1,2]"})}))
    assert seen.open() == {".each#*.x": 2, ".each#*.y#*": 600}
    # One of the two is skipped whole.
    skipped = {
        **ROOT,
        ".list": node("Succeeded", outputs={"result": "[1,2]"}),
        ".each(1:2)": node("Skipped", "Skipped"),
    }
    seen.see(status(nodes=skipped))
    assert seen.open() == {".each#*.x": 1, ".each#*.y#*": 300}
    # The other fails half-way: what it has not begun never will.
    begun = {f".each(0:1).y({n}:{n})": node("Succeeded") for n in range(7)}
    seen.see(
        status(
            nodes={**skipped, **begun, ".each(0:1).x": node("Succeeded"), ".each(0:1)": node("Failed", "DAG")}
        )
    )
    assert seen.open() == {}
    assert seen.states() == {".list": "DONE", ".each#*.x": "DONE", ".each#*.y#*": "DONE"}


def test_a_fan_out_over_nothing_is_skipped() -> None:
    seen = Followed(LISTED)
    seen.see(status(nodes={**ROOT, ".list": node("Succeeded", outputs={"result": "[]"})}))
    assert seen.states() == {".list": "DONE", ".each#*": "SKIPPED", ".join": "PENDING"}
    seen.see(status(nodes={**ROOT, ".list": node("Succeeded"), ".each": node("Skipped", "Skipped")}))
    assert seen.states() == {".list": "DONE", ".each#*": "SKIPPED", ".join": "PENDING"}


def test_the_group_of_a_step_ends_its_items() -> None:
    raw = workflow(
        steps(
            "main",
            [task("list")],
            [task("each", withParam="{{steps.list.outputs.parameters.x}}")],
            [task("z")],
        ),
        container("leaf"),
    )
    seen = Followed(raw)
    nodes = {
        "[0].list": node("Succeeded"),
        "[1]": node("Running", "StepGroup"),
        "[1].each(0:a)": node("Succeeded"),
    }
    seen.see(status(nodes=nodes))
    assert seen.states()["[2].z"] == "WAITING"
    seen.see(status(nodes={**nodes, "[1]": node("Succeeded", "StepGroup")}))
    assert seen.states() == {"[0].list": "DONE", "[1].each#*": "DONE", "[2].z": "PENDING"}


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("[]", 0),
        ('["a", {"b": 1}]', 2),
        ("7", 7),
        ("-1", None),
        ("true", None),
        ("nothing", None),
        ("1e400", None),
    ],
)
def test_a_list_or_a_count_has_a_width(text: str, width: int | None) -> None:
    assert width_of(text) == width
