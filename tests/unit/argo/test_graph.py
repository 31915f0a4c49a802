"""Task graphs: what waits for what, and what is certain to run."""

from stowplan.kube.argo import Chance, NodeKind
from tests.unit.argo.cases import (
    chances,
    container,
    dag,
    edges,
    graph_of,
    parameters,
    places,
    steps,
    task,
    workflow,
)

LEAF = container("leaf")


def test_one_container_is_a_graph_of_one_node() -> None:
    graph = graph_of(workflow(LEAF))
    assert places(graph) == [""]
    assert graph.nodes[0].kind is NodeKind.POD
    assert graph.nodes[0].template == "leaf"
    assert graph.pod_count() == 1


def test_a_dag_waits_for_all_that_depends_names() -> None:
    raw = workflow(
        dag("main", task("a"), task("b", depends="a"), task("c", depends="a || b.Failed"), task("d")), LEAF
    )
    graph = graph_of(raw)
    assert edges(graph) == {(".a", ".b"), (".a", ".c"), (".b", ".c")}
    after = [[graph.nodes[child].place for child in children] for children in graph.children]
    assert dict(zip(places(graph), after, strict=True)) == {
        ".a": [".b", ".c"],
        ".b": [".c"],
        ".c": [],
        ".d": [],
    }


def test_dependencies_and_depends_are_alike() -> None:
    listed = dag("main", task("a"), task("b"), task("c", dependencies=["a", "b"]))
    written = dag("main", task("a"), task("b"), task("c", depends="a && b"))
    assert edges(graph_of(workflow(listed, LEAF))) == edges(graph_of(workflow(written, LEAF)))


def test_groups_of_steps_follow_each_other() -> None:
    raw = workflow(steps("main", [task("a"), task("b")], [task("c"), task("d")]), LEAF)
    graph = graph_of(raw)
    assert edges(graph) == {
        (f"[0].{before}", f"[1].{after}") for before in ("a", "b") for after in ("c", "d")
    }
    assert [node.kind for node in graph.nodes].count(NodeKind.JOIN) == 1  # the second of those who wait


def test_nested_templates_are_entered_and_left_as_a_whole() -> None:
    raw = workflow(
        dag("main", task("x"), task("in", "inner", depends="x"), task("y", depends="in")),
        steps("inner", [task("p"), task("q")], [task("r")]),
        LEAF,
    )
    assert edges(graph_of(raw)) == {
        (".x", ".in[0].p"),
        (".x", ".in[0].q"),
        (".in[0].p", ".in[1].r"),
        (".in[0].q", ".in[1].r"),
        (".in[1].r", ".y"),
    }


def test_a_template_with_nothing_in_it_lets_pass() -> None:
    raw = workflow(
        dag("main", task("x"), task("nothing", "empty", depends="x"), task("y", depends="nothing")),
        steps("empty"),
        LEAF,
    )
    assert edges(graph_of(raw)) == {(".x", ".y")}


def test_only_what_the_targets_need_is_run() -> None:
    template = dag("main", task("a"), task("b", depends="a"), task("c", depends="a"), task("d", depends="c"))
    template["dag"]["target"] = "b d"
    assert places(graph_of(workflow(template, LEAF))) == [".a", ".b", ".c", ".d"]
    template["dag"]["target"] = "{{workflow.parameters.goal}}"
    graph = graph_of(workflow(template, LEAF, arguments=parameters(goal="b")))
    assert places(graph) == [".a", ".b"]
    assert graph.calls[0].unreached == ("c", "d")


def test_chances_follow_conditions_and_failures() -> None:
    raw = workflow(
        dag(
            "main",
            task("flip"),
            task("heads", depends="flip", when="{{tasks.flip.outputs.result}} == heads"),
            task("never", depends="flip", when="a == b"),
            task("after-either", depends="heads"),
            task("only-if-heads", depends="heads.Succeeded"),
            task("clean-up", depends="flip.Failed"),
            task("after-clean-up", depends="clean-up"),
            task("report", depends="flip && (clean-up.Succeeded || clean-up.Omitted)"),
            task("after-never", depends="never"),
        ),
        LEAF,
    )
    assert chances(raw) == {
        ".flip": Chance.CERTAIN,
        ".heads": Chance.CONDITIONAL,
        ".never": Chance.NEVER,
        ".after-either": Chance.CERTAIN,
        ".only-if-heads": Chance.CONDITIONAL,
        ".clean-up": Chance.ON_FAILURE,
        ".after-clean-up": Chance.ON_FAILURE,
        ".report": Chance.CERTAIN,
        ".after-never": Chance.CERTAIN,
    }


def test_what_is_within_a_conditional_call_is_conditional() -> None:
    raw = workflow(
        steps("main", [task("in", "inner", when="{{workflow.parameters.x}} == 1")]),
        dag("inner", task("a"), task("b", depends="a.Failed")),
        LEAF,
        arguments={
            "parameters": [{"name": "x", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}]
        },
    )
    graph = graph_of(raw)
    assert {node.place: node.chance for node in graph.nodes} == {
        "[0].in.a": Chance.CONDITIONAL,
        "[0].in.b": Chance.ON_FAILURE,
    }
    assert graph.calls[1].when == "{{configMap.c.k}} == 1"


def test_daemons_are_waited_for_until_they_are_up() -> None:
    raw = workflow(
        dag("main", task("db", "server"), task("use", depends="db"), task("gone", depends="db.Succeeded")),
        container("server", daemon=True),
        LEAF,
    )
    graph = graph_of(raw)
    assert graph.nodes[0].daemon
    assert chances(raw)[".use"] is Chance.CERTAIN
    assert chances(raw)[".gone"] is Chance.ON_FAILURE
