"""The status in its three forms, and in forms that cannot be read."""

import base64
import gzip
import json

import pytest

from stowplan.kube.argo import NodesHere, NodesOffloaded, NodesUnreadable, read_status
from stowplan.kube.argo import status as status_module

NODES = {
    "wf-1": {
        "id": "wf-1",
        "name": "wf[0].a(0:x)(1)",
        "displayName": "a(0:x)(1)",
        "type": "Pod",
        "templateName": "leaf",
        "phase": "Succeeded",
        "boundaryID": "wf",
        "startedAt": "2026-11-30T10:00:00Z",
        "finishedAt": None,
        "hostNodeName": "node-1",
        "children": ["wf-2"],
        "nodeFlag": {"retried": True},
        "resourcesDuration": {"cpu": 3},
        "inTheFuture": [1],
    },
    "wf-2": {
        "id": "wf-2",
        "name": "wf.onExit",
        "type": "Pod",
        "phase": "Running",
        "nodeFlag": {"hooked": True},
    },
    "wf-3": {
        "id": "wf-3",
        "name": "wf[0].b",
        "memoizationStatus": {"hit": True, "key": "k"},
        "phase": "Succeeded",
    },
    "wf-4": {"id": "wf-4", "name": "wf[0].c", "phase": "Running", "daemoned": True},
}


def packed(nodes: object) -> str:
    return base64.b64encode(gzip.compress(json.dumps(nodes).encode(), mtime=0)).decode()


def status(**fields: object) -> dict:
    return {"status": {"phase": "Running", "progress": "1/4", **fields}}


@pytest.mark.parametrize("fields", [{"nodes": NODES}, {"compressedNodes": packed(NODES)}])
def test_plain_and_compressed_nodes_are_the_same(fields: dict) -> None:
    read = read_status(status(**fields))
    assert (read.phase, read.progress, read.is_done) == ("Running", "1/4", False)
    assert isinstance(read.nodes, NodesHere)
    assert read.nodes.was_compressed == ("compressedNodes" in fields)
    nodes = read.nodes.nodes
    assert set(nodes) == set(NODES)
    first = nodes["wf-1"]
    assert (first.name, first.template_name, first.boundary_id) == ("wf[0].a(0:x)(1)", "leaf", "wf")
    assert (first.host_node_name, first.children) == ("node-1", ["wf-2"])
    assert (first.started_at, first.finished_at) == ("2026-11-30T10:00:00Z", None)
    assert [node.is_fulfilled for node in nodes.values()] == [True, False, True, True]
    assert [node.is_hook for node in nodes.values()] == [False, True, False, False]
    assert [node.was_cached for node in nodes.values()] == [False, False, True, False]


def test_nodes_in_the_database_are_not_taken_for_none() -> None:
    read = read_status(status(offloadNodeStatusVersion="fnv:123"))
    assert read.nodes == NodesOffloaded("fnv:123")


def test_nodes_that_are_there_count_though_a_version_is_left() -> None:
    read = read_status(status(offloadNodeStatusVersion="fnv:123", nodes=NODES))
    assert isinstance(read.nodes, NodesHere)


def test_a_workflow_that_nobody_has_seen_yet_has_no_nodes() -> None:
    read = read_status({"spec": {}})
    assert (read.phase, read.nodes) == ("", NodesHere({}))


@pytest.mark.parametrize(
    ("text", "codec"),
    [
        ("***", "base64"),
        (base64.b64encode(b"\x28\xb5\x2f\xfd....").decode(), "zstd"),
        (base64.b64encode(b"\x0b\x02\x80....").decode(), "unknown"),
        (base64.b64encode(gzip.compress(json.dumps(NODES).encode(), mtime=0)[:-20]).decode(), "gzip"),
        (base64.b64encode(gzip.compress(b"x" * 99, mtime=0)[:4] + b"broken").decode(), "gzip"),
        (packed([1]), "gzip"),
        (packed({"a": {"phase": 3}}), "gzip"),
        (packed("no"), "gzip"),
    ],
)
def test_what_cannot_be_read_says_so(text: str, codec: str) -> None:
    nodes = read_status(status(compressedNodes=text)).nodes
    assert isinstance(nodes, NodesUnreadable)
    assert nodes.codec == codec
    assert nodes.reason


def test_nodes_of_a_wrong_type_are_not_guessed_at() -> None:
    nodes = read_status(status(nodes={"a": {"phase": True}})).nodes
    assert isinstance(nodes, NodesUnreadable)
    assert "phase" in nodes.reason


def test_a_bomb_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_module, "_LARGEST", 1024)
    bomb = base64.b64encode(gzip.compress(b" " * 1024 * 1024, mtime=0)).decode()
    nodes = read_status(status(compressedNodes=bomb)).nodes
    assert isinstance(nodes, NodesUnreadable)
    assert "256 MiB" in nodes.reason
