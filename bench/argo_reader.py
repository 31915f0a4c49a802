"""Large Argo workflows: from the raw object to the task graph."""

from typing import Any

from bench.harness import Row, measure
from stowplan.kube.argo import open_object, read_graph

Json = dict[str, Any]

TASKS = 5000
STYLES = ("depends", "results", "chain")


def large_workflow(style: str, count: int = TASKS) -> Json:
    """A dag of 5,000 tasks, or so many, of 20 templates, each with arguments of its own.

    Args:
        style: `depends` and `results` have layers of 50 that wait for ten of the layer before, by names or by
            their results; `chain` has each wait for the one before.
        count: how many tasks.
    """
    tasks: list[Json] = []
    for number in range(count):
        given = [{"name": "cpu", "value": "1"}, {"name": "file", "value": f"file-{number}"}]
        task: Json = {"name": f"t{number}", "template": f"k{number % 20}", "arguments": {"parameters": given}}
        layer = number // 50
        before = [f"t{(layer - 1) * 50 + other}" for other in range(0, 50, 5)] if layer else []
        if before and style == "depends":
            task["depends"] = " && ".join(before)
        elif before and style == "results":
            task["depends"] = " && ".join(f"({name}.Succeeded || {name}.Skipped)" for name in before)
        elif style == "chain" and number:
            task["dependencies"] = [f"t{number - 1}"]
        tasks.append(task)
    kinds: list[Json] = [
        {
            "name": f"k{number}",
            "inputs": {"parameters": [{"name": "cpu"}, {"name": "file"}]},
            "container": {
                "image": "i",
                "args": ["{{inputs.parameters.file}}"],
                "resources": {"requests": {"cpu": "{{inputs.parameters.cpu}}"}},
            },
        }
        for number in range(20)
    ]
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"name": "large"},
        "spec": {"entrypoint": "main", "templates": [{"name": "main", "dag": {"tasks": tasks}}, *kinds]},
    }


def run(*, quick: bool) -> list[Row]:
    """Read each style of large workflow again and again."""
    rows: list[Row] = []
    for style in STYLES:
        raw = large_workflow(style)
        estimate = measure(lambda raw=raw: read_graph(open_object(raw)), repeats=2 if quick else 9)
        what = f"{TASKS:,} tasks whose order is written as {style}"
        rows.append(Row.of(estimate, name=f"argo-reader/{style}", what=what, unit="s"))
    return rows
