"""Names of nodes and pods, against names that real controllers made."""

import pytest

from stowplan.errors import InvalidObject
from stowplan.kube.argo import Segment, node_id, parse_node_name, pod_name


@pytest.mark.parametrize(
    ("workflow", "node", "number"),
    [
        ("retry-backoff-s69z6", "retry-backoff-s69z6(1)", 130058153),
        ("retry-backoff-s69z6", "retry-backoff-s69z6(0)", 1807967148),
        ("daemon-step-dvbnn", "daemon-step-dvbnn[0]", 1159996203),
        ("daemon-step-dvbnn", "daemon-step-dvbnn[0].influx(0)", 2254877734),
        ("wf-with-pvc", "wf-with-pvc(0)[1].failure", 3099954303),
        ("global-outputs-bg7gl", "global-outputs-bg7gl[0].generate[0].generate-output", 1290716463),
    ],
)
def test_ids_of_nodes_of_real_runs(workflow: str, node: str, number: int) -> None:
    assert node_id(workflow, node) == f"{workflow}-{number}"
    assert pod_name(workflow, node, "tmpl") == f"{workflow}-tmpl-{number}"
    assert pod_name(workflow, node, "") == f"{workflow}-{number}"
    assert pod_name(workflow, node, "tmpl", "v1") == node_id(workflow, node)


def test_the_root_has_the_name_of_its_workflow() -> None:
    assert node_id("wf", "wf") == pod_name("wf", "wf", "main") == pod_name("wf", "wf", "main", "v1") == "wf"


def test_a_long_prefix_is_cut_so_that_the_hash_stays() -> None:
    name = pod_name("w" * 63, "w" * 63 + ".task", "t" * 250)
    assert len(name) <= 253
    assert name.rpartition("-")[2] == pod_name("w" * 63, "w" * 63 + ".task", "").rpartition("-")[2]


@pytest.mark.parametrize(
    ("name", "place", "items", "attempts"),
    [
        ("wf", "", (), ()),
        ("wf(1)", "", (), (1,)),
        ("wf.task", ".task", (), ()),
        ("wf[0].print", "[0].print", (), ()),
        ("wf[1].print(3:hello world)(2)", "[1].print", (3,), (2,)),
        ("wf.a(0:x:1.5,y:[2] 3).b(1:z)", ".a.b", (0, 1), ()),
        ("wf(0).a(1)[0].b(2:q)(3)", ".a[0].b", (2,), (0, 1, 3)),
        ("wf.task.onExit", ".task.onExit", (), ()),
        ("wf.task(1:a).hooks.run_it", ".task.hooks.run_it", (1,), ()),
        ("wf.onExit[0].notify", ".onExit[0].notify", (), ()),
        ("wf.a(0:line\nbreak)", ".a", (0,), ()),
    ],
)
def test_a_name_is_taken_apart(
    name: str, place: str, items: tuple[int, ...], attempts: tuple[int, ...]
) -> None:
    path = parse_node_name("wf", name)
    assert (path.place, path.items, path.attempts) == (place, items, attempts)
    assert path.attempt == (path.segments[-1].attempt or 0)


def test_an_item_may_look_like_anything() -> None:
    path = parse_node_name("wf", "wf.t(0:a.b[1]:c)(1).u")
    assert path.segments == (Segment(""), Segment(".t", 0, "a.b[1]:c", 1), Segment(".u"))


@pytest.mark.parametrize("name", ["other.task", "wf/task", "wf.task(", "wf.", "wf[x].a", "wf.a(0:b"])
def test_a_name_that_no_controller_makes_is_refused(name: str) -> None:
    with pytest.raises(InvalidObject, match="node name"):
        parse_node_name("wf", name)
