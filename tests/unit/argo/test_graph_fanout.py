"""Task graphs: how wide fan-outs are, and where recursion is cut."""

import pytest

from stowplan.kube.argo import Chance, NodeKind, ReadLimits
from tests.unit.argo.cases import (
    chances,
    container,
    dag,
    edges,
    graph_of,
    inputs,
    parameters,
    steps,
    task,
    workflow,
)

LEAF = container("leaf")


def test_small_fan_outs_are_expanded_with_their_items() -> None:
    raw = workflow(
        steps(
            "main",
            [
                task(
                    "p",
                    "show",
                    arguments=parameters(m="{{item.os}}"),
                    withItems=[{"os": "linux"}, {"os": "bsd"}],
                )
            ],
            [task("q", "show", arguments=parameters(m="last"))],
        ),
        container("show", inputs=inputs("m")),
    )
    graph = graph_of(raw)
    assert [(node.place, node.item, node.inputs) for node in graph.nodes] == [
        ("[0].p#0", "os:linux", (("m", "linux"),)),
        ("[0].p#1", "os:bsd", (("m", "bsd"),)),
        ("[1].q", "", (("m", "last"),)),
    ]
    assert edges(graph) == {("[0].p#0", "[1].q"), ("[0].p#1", "[1].q")}


def test_a_condition_on_the_item_is_decided_for_each() -> None:
    raw = workflow(steps("main", [task("p", when="{{item}} != b", withItems=["a", "b"])]), LEAF)
    assert chances(raw) == {"[0].p#0": Chance.CERTAIN, "[0].p#1": Chance.NEVER}


@pytest.mark.parametrize(
    ("fields", "width", "chance"),
    [
        ({"withParam": "{{steps.a.outputs.result}}"}, None, Chance.CONDITIONAL),
        ({"withSequence": {"count": "1000"}}, 1000, Chance.CERTAIN),
        ({"withSequence": {"count": "0"}}, 0, Chance.NEVER),
        ({"withSequence": {"count": "1000"}, "when": "{{item}} == 3"}, 1000, Chance.CONDITIONAL),
        ({"withParam": "[]"}, 0, Chance.NEVER),
    ],
)
def test_wide_and_unknown_fan_outs_are_counted(fields: dict, width: int | None, chance: Chance) -> None:
    graph = graph_of(workflow(steps("main", [task("a")], [task("p", **fields)]), LEAF))
    node = graph.nodes[-1]
    assert node.place == "[1].p#*"
    assert node.fanout is not None
    assert (graph.count(node), node.chance) == (width, chance)


def test_fan_outs_within_fan_outs_multiply() -> None:
    raw = workflow(
        steps("main", [task("o", "inner", withSequence={"count": "1000"})]),
        dag("inner", task("p", withSequence={"count": "500"}), task("q", depends="p")),
        LEAF,
    )
    graph = graph_of(raw)
    assert {node.place: graph.count(node) for node in graph.nodes} == {
        "[0].o#*.p#*": 500_000,
        "[0].o#*.q": 1000,
    }
    assert graph.pod_count() == 501_000


def test_expanding_takes_no_more_than_its_part_of_the_room() -> None:
    raw = workflow(
        steps("main", [task("o", "inner", withSequence={"count": "50"})]),
        dag("inner", task("p", withSequence={"count": "40"}), task("q", depends="p")),
        LEAF,
    )
    graph = graph_of(raw, limits=ReadLimits(max_nodes=400))
    assert graph.nodes[0].place == "[0].o#0.p#0"
    assert graph.nodes[-2].place == "[0].o#49.p#*"
    assert graph.pod_count() == 50 * 41


def test_the_width_of_the_outer_may_be_unknown() -> None:
    raw = workflow(
        dag("main", task("a"), task("o", "inner", depends="a", withParam="{{tasks.a.outputs.result}}")),
        dag("inner", task("p", withItems=[1, 2])),
        LEAF,
    )
    graph = graph_of(raw)
    assert graph.count(graph.nodes[1]) is None
    assert graph.pod_count() is None


def test_a_fan_out_of_a_skipped_step_need_not_make_sense() -> None:
    graph = graph_of(workflow(steps("main", [task("p", when="a == b", withParam="nonsense")]), LEAF))
    assert graph.nodes[0].chance is Chance.NEVER


def test_recursion_is_cut_where_it_begins() -> None:
    raw = workflow(
        steps("main", [task("flip")], [task("again", "main", when="{{steps.flip.outputs.result}} == tails")]),
        container("leaf"),
    )
    graph = graph_of(raw)
    node = graph.nodes[-1]
    assert (node.kind, node.place, node.template) == (NodeKind.RECURSION, "[1].again", "main")
    assert "within itself" in node.note
    assert graph.pod_count() is None


def test_recursion_through_others_is_cut_too() -> None:
    raw = workflow(
        dag("main", task("a", "b")), steps("b", [task("c", "d")]), dag("d", task("e", "b"), task("f")), LEAF
    )
    assert [(node.place, node.kind) for node in graph_of(raw).nodes] == [
        (".a[0].c.e", NodeKind.RECURSION),
        (".a[0].c.f", NodeKind.POD),
    ]
