"""From a pod back to the task that it runs."""

import pytest

from stowplan.errors import InvalidObject
from stowplan.kube.argo import (
    AgentPod,
    NodeKind,
    ReadLimits,
    TaskGraph,
    TaskPod,
    history_key,
    identify_pod,
    match_pod,
    node_id,
    pod_name,
)
from tests.unit.argo.cases import Json, container, dag, graph_of, steps, task, workflow

PREFIX = "workflows.argoproj.io/"
LEAF = container("leaf")


def pod(node: str, template: str = "leaf", version: str = "v2") -> Json:
    """The metadata that the controller gives to the pod of a node of workflow `wf`."""
    return {
        "metadata": {
            "name": pod_name("wf", node, template, version),
            "namespace": "jobs",
            "labels": {f"{PREFIX}workflow": "wf"},
            "annotations": {f"{PREFIX}node-name": node, f"{PREFIX}node-id": node_id("wf", node)},
        }
    }


def identified(raw: Json) -> TaskPod:
    found = identify_pod(raw)
    assert isinstance(found, TaskPod)
    return found


@pytest.fixture
def graph() -> TaskGraph:
    raw = workflow(
        dag(
            "main",
            task("a", withItems=["x", "y"]),
            task("wide", withSequence={"count": "1000"}),
            task("deep", "inner", withSequence={"count": "1000"}),
            task("near", "inner", withItems=[1, 2]),
            task("again", "main"),
            task("hooked", onExit="leaf"),
        ),
        steps("inner", [task("s"), task("t", withParam="{{workflow.status}}")]),
        LEAF,
    )
    return graph_of(raw)


@pytest.mark.parametrize(
    ("name", "place", "items", "attempt"),
    [
        ("wf.a(1:y)", ".a#1", (1,), 0),
        ("wf.a(1:y)(2)", ".a#1", (1,), 2),
        ("wf.wide(734:734)", ".wide#*", (734,), 0),
        ("wf.deep(9:9)[0].s", ".deep#*[0].s", (9,), 0),
        ("wf.deep(9:9)(1)[0].t(3:k)(4)", ".deep#*[0].t#*", (9, 3), 4),
        ("wf.near(1:2)[0].t(3:k)", ".near#1[0].t#*", (1, 3), 0),
        ("wf.hooked.onExit", ".hooked.onExit", (), 0),
    ],
)
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_pod_is_found_at_its_place(
    graph: TaskGraph, name: str, place: str, items: tuple[int, ...], attempt: int, version: str
) -> None:
    found = identified(pod(name, version=version))
    assert found.template_hint == ("leaf" if version == "v2" else "")
    match = match_pod(graph, found)
    assert match is not None
    assert (match.node.place, match.items, match.attempt, match.is_within) == (place, items, attempt, False)


def test_a_pod_within_a_recursion_is_told_as_such(graph: TaskGraph) -> None:
    match = match_pod(graph, identified(pod("wf.again.a(0:x)(1)")))
    assert match is not None
    assert (match.node.kind, match.is_within, match.attempt) == (NodeKind.RECURSION, True, 1)


@pytest.mark.parametrize("name", ["wf.gone", "wf.a.b", "wf", "wf.near(7:8)[0].s", "wf.near(1:2)[1].s"])
def test_a_pod_of_another_version_of_the_workflow_is_not_forced_into_it(graph: TaskGraph, name: str) -> None:
    assert match_pod(graph, identified(pod(name))) is None


def test_the_root_may_be_the_pod_itself() -> None:
    graph = graph_of(workflow(container("leaf", retryStrategy={"limit": 3})))
    for name, attempt in (("wf", 0), ("wf(2)", 2)):
        match = match_pod(graph, identified(pod(name)))
        assert match is not None
        assert (match.node.index, match.attempt) == (0, attempt)


def test_other_pods_are_nobody_s() -> None:
    assert identify_pod({"metadata": {"name": "x", "labels": {"app": "y"}}}) is None
    assert identify_pod({"metadata": {"name": "x", "labels": {f"{PREFIX}workflow": "wf"}}}) is None
    assert identify_pod({}) is None
    agent = {"namespace": "jobs", "labels": {f"{PREFIX}workflow": "wf", f"{PREFIX}component": "agent"}}
    assert identify_pod({"metadata": agent}) == AgentPod("jobs", "wf")


def test_a_pod_that_contradicts_itself_is_refused() -> None:
    raw = pod("wf.a(0:x)")
    raw["metadata"]["annotations"][f"{PREFIX}node-id"] = "wf-1"
    with pytest.raises(InvalidObject, match="node-id is 'wf-1'"):
        identify_pod(raw)
    raw = pod("wf.a(0:x)")
    raw["metadata"]["labels"][f"{PREFIX}workflow"] = "other"
    del raw["metadata"]["annotations"][f"{PREFIX}node-id"]
    with pytest.raises(InvalidObject, match="does not begin with"):
        identify_pod(raw)


def test_history_is_shared_over_items_and_ways_of_counting() -> None:
    raw = workflow(steps("main", [task("p", withSequence={"count": "5"})]), LEAF)
    expanded, counted = graph_of(raw), graph_of(raw, limits=ReadLimits(expand_up_to=1))
    keys = {history_key(graph, node) for graph in (expanded, counted) for node in graph.nodes}
    assert len(expanded.nodes) == 5
    assert len(keys) == 1
    key = keys.pop()
    assert (key.origin, key.template, key.place) == ("name/wf", "leaf", "[0].p")
