"""Small workflows that the tests of the Argo readers are made of."""

from typing import Any

from stowplan.kube.argo import (
    Chance,
    ControllerSettings,
    NodeKind,
    ReadLimits,
    Shelf,
    TaskGraph,
    open_object,
    read_graph,
)

Json = dict[str, Any]

CONTAINER: Json = {"image": "busybox", "command": ["true"]}


def container(name: str, **fields: object) -> Json:
    """A template with a pod."""
    return {"name": name, "container": dict(CONTAINER), **fields}


def dag(name: str, *tasks: Json, **fields: object) -> Json:
    """A dag template."""
    return {"name": name, "dag": {"tasks": list(tasks)}, **fields}


def steps(name: str, *groups: list[Json], **fields: object) -> Json:
    """A steps template."""
    return {"name": name, "steps": list(groups), **fields}


def task(name: str, template: str = "leaf", **fields: object) -> Json:
    """A task or step."""
    return {"name": name, "template": template, **fields}


def parameters(**values: object) -> Json:
    """Arguments with these parameters."""
    return {"parameters": [{"name": name, "value": value} for name, value in values.items()]}


def inputs(*names: str, **defaults: object) -> Json:
    """Inputs with these parameters."""
    declared: list[Json] = [{"name": name} for name in names]
    return {"parameters": declared + [{"name": name, "value": value} for name, value in defaults.items()]}


def workflow(*templates: Json, kind: str = "Workflow", name: str = "wf", **spec: object) -> Json:
    """A workflow whose first template is its entry point."""
    fields: Json = {"templates": list(templates), **spec}
    if templates and "entrypoint" not in spec and kind == "Workflow":
        fields["entrypoint"] = templates[0]["name"]
    return {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "jobs"},
        "spec": {key: value for key, value in fields.items() if value is not None},
    }


def graph_of(
    raw: Json,
    *others: Json,
    settings: ControllerSettings | None = None,
    limits: ReadLimits | None = None,
) -> TaskGraph:
    """The graph of a workflow that may refer to other objects."""
    shelf = Shelf(open_object(other) for other in others)
    return read_graph(open_object(raw), shelf, settings, limits)


def edges(graph: TaskGraph) -> set[tuple[str, str]]:
    """The edges by place, joins written out."""
    above: dict[int, set[str]] = {}
    found: set[tuple[str, str]] = set()
    for node in graph.nodes:
        names: set[str] = set()
        for parent in node.parents:
            names |= above[parent]
        if node.kind == "join":
            above[node.index] = names
        else:
            above[node.index] = {node.place}
            found |= {(name, node.place) for name in names}
    return found


def places(graph: TaskGraph) -> list[str]:
    """The places of all nodes but joins."""
    return [node.place for node in graph.nodes if node.kind != "join"]


def chances(raw: Json, *others: Json) -> dict[str, Chance]:
    """How sure each node is to run, by its place."""
    return {node.place: node.chance for node in graph_of(raw, *others).nodes if node.kind != NodeKind.JOIN}
