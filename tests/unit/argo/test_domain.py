"""The graph as the core's workflow: depth and rank of the normal course."""

import pytest

from stowplan.errors import InvalidWorkflow
from stowplan.kube.argo import Node, NodeKind, to_domain
from stowplan.kube.argo import domain as domain_module
from tests.unit.argo.cases import container, dag, graph_of, steps, task, workflow

LEAF = container("leaf")


def second(_: Node) -> float:
    return 1.0


def edges_of(view: domain_module.DomainView) -> set[tuple[str, str]]:
    return set(view.workflow.edges)


def test_durations_come_from_the_class_of_the_task() -> None:
    raw = workflow(
        dag(
            "main",
            task("a", "slow"),
            task("b", depends="a"),
            task("c", depends="a"),
            task("d", depends="b && c"),
        ),
        LEAF,
        {"name": "slow", "container": {"image": "i", "resources": {"requests": {"cpu": "2"}}}},
    )
    view = to_domain(graph_of(raw), lambda node: {"slow": 10.0, "leaf": 3.0}[node.template])
    assert [task.name for task in view.workflow.tasks] == [".a", ".b", ".c", ".d"]
    assert list(view.workflow.depths()) == [0, 1, 1, 2]
    assert list(view.workflow.upward_ranks()) == [16.0, 6.0, 6.0, 3.0]
    assert view.workflow.tasks[0].work.phases[0].cpu_cores == 2.0
    assert view.workflow.tasks[0].work.alone_s == 10.0
    assert view.workflow.family == "name/wf"
    assert view.tasks_by_node == {0: 0, 1: 1, 2: 2, 3: 3}


def test_joins_and_failures_vanish_and_their_edges_close_up() -> None:
    raw = workflow(
        dag(
            "main",
            task("a"),
            task("gone", depends="a", when="a == b"),
            task("clean", depends="a.Failed"),
            task("b", depends="gone"),
            task("many", "groups", depends="b && (clean.Succeeded || clean.Omitted)"),
        ),
        steps("groups", [task("x"), task("y")], [task("p"), task("q")]),
        LEAF,
    )
    graph = graph_of(raw)
    view = to_domain(graph, second)
    assert edges_of(view) == {
        (".a", ".b"),
        (".b", ".many[0].x"),
        (".a", ".many[0].x"),
        (".b", ".many[0].y"),
        (".a", ".many[0].y"),
        *((f".many[0].{before}", f".many[1].{after}") for before in "xy" for after in "pq"),
    }
    assert list(view.workflow.depths()) == [0, 1, 2, 2, 3, 3]
    gone = graph.at(".gone")
    assert gone is not None
    assert gone.index not in view.tasks_by_node


def test_what_makes_no_pod_takes_time_but_no_room() -> None:
    raw = workflow(
        steps("main", [task("a")], [task("wait", "pause")], [task("b")]),
        LEAF,
        {"name": "pause", "suspend": {}},
    )
    view = to_domain(graph_of(raw), lambda node: 60.0 if node.kind is NodeKind.SUSPEND else 1.0)
    assert view.has_pod == (True, False, True)
    assert list(view.workflow.upward_ranks()) == [62.0, 61.0, 1.0]
    assert dict(view.workflow.tasks[1].shape.requests) == {}


def test_counts_go_with_the_tasks() -> None:
    raw = workflow(
        dag(
            "main",
            task("a"),
            task("b", depends="a", withParam="{{tasks.a.outputs.result}}"),
            task("c", withSequence={"count": "5000"}),
        ),
        LEAF,
    )
    view = to_domain(graph_of(raw), second)
    assert dict(zip((task.name for task in view.workflow.tasks), view.counts, strict=True)) == {
        ".a": 1,
        ".c#*": 5000,
        ".b#*": None,
    }


def test_joins_stay_where_their_edges_would_be_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = workflow(
        steps(
            "main", [task(f"a{number}") for number in range(30)], [task(f"b{number}") for number in range(30)]
        ),
        LEAF,
    )
    graph = graph_of(raw)
    whole = to_domain(graph, second)
    assert len(whole.workflow.edges) == 900
    monkeypatch.setattr(domain_module, "_MOST_EDGES", 500)
    small = to_domain(graph, second)
    assert len(small.workflow.edges) < 100
    ranks = dict(
        zip((task.name for task in small.workflow.tasks), small.workflow.upward_ranks(), strict=True)
    )
    for index, task_ in enumerate(whole.workflow.tasks):
        assert ranks[task_.name] == whole.workflow.upward_ranks()[index]


def test_a_workflow_of_which_nothing_runs_is_no_workflow() -> None:
    with pytest.raises(InvalidWorkflow, match="none of its tasks runs"):
        to_domain(graph_of(workflow(steps("main", [task("a", when="a == b")]), LEAF)), second)
