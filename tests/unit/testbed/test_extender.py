"""The recording extender over real HTTP, sent what kube-scheduler 1.37 sends."""

import http.client
import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from testbed.differential.extender import NOT_BOUND, Recorded, RecordingExtender
from testbed.errors import ComponentFailed


@pytest.fixture
def extender() -> Iterator[RecordingExtender]:
    with RecordingExtender(socket.create_server(("127.0.0.1", 0))) as running:
        yield running


@pytest.fixture
def connection(extender: RecordingExtender) -> Iterator[http.client.HTTPConnection]:
    host, _, port = extender.url.removeprefix("http://").rpartition(":")
    kept = http.client.HTTPConnection(host, int(port), timeout=5.0)
    yield kept
    kept.close()


def post(connection: http.client.HTTPConnection, verb: str, body: bytes) -> tuple[int, dict[str, Any]]:
    connection.request("POST", f"/{verb}", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def filter_call(uid: str, *nodes: str, nominated: str = "") -> bytes:
    """The keys are Go's field names, those of the pod are the API's; what is not set may be null."""
    status = {"phase": "Pending"} | ({"nominatedNodeName": nominated} if nominated else {})
    metadata = {"name": f"name-of-{uid}", "namespace": "default", "uid": uid, "creationTimestamp": None}
    pod = {"metadata": metadata, "spec": {"containers": []}, "status": status}
    return json.dumps({"Pod": pod, "Nodes": None, "NodeNames": nodes}).encode()


def bind_call(uid: str, node: str) -> bytes:
    return json.dumps({"PodName": "p", "PodNamespace": "default", "PodUID": uid, "Node": node}).encode()


def test_the_nodes_of_a_filter_call_are_recorded_and_returned_unchanged(
    extender: RecordingExtender, connection: http.client.HTTPConnection
) -> None:
    assert post(connection, "filter", filter_call("u", "n2", "n1")) == (200, {"NodeNames": ["n2", "n1"]})
    assert extender.recorded("u") == Recorded(frozenset({"n1", "n2"}))


def test_a_binding_is_recorded_and_refused(
    extender: RecordingExtender, connection: http.client.HTTPConnection
) -> None:
    post(connection, "filter", filter_call("u", "n1", "n2"))
    assert post(connection, "bind", bind_call("u", "n2")) == (200, {"Error": NOT_BOUND})
    assert extender.recorded("u") == Recorded(frozenset({"n1", "n2"}), "n2")


def test_of_a_pod_nobody_asked_about_nothing_is_known(extender: RecordingExtender) -> None:
    assert extender.recorded("never-seen") == Recorded()


@pytest.mark.parametrize("everywhere", [("n1", "n2"), ("n2",)])
def test_a_nominated_pod_is_sent_on_from_its_node_to_all(
    extender: RecordingExtender, connection: http.client.HTTPConnection, everywhere: tuple[str, ...]
) -> None:
    assert post(connection, "filter", filter_call("u", "n2", nominated="n2"))[1] == {"NodeNames": []}
    again = post(connection, "filter", filter_call("u", *everywhere, nominated="n2"))
    assert again[1] == {"NodeNames": list(everywhere)}
    assert extender.recorded("u") == Recorded(frozenset(everywhere), fits_where_nominated=True)


@pytest.mark.parametrize("everywhere", [("n1", "n3"), ("n1",)])
def test_a_nominated_pod_that_does_not_fit_there_is_asked_about_once(
    extender: RecordingExtender, connection: http.client.HTTPConnection, everywhere: tuple[str, ...]
) -> None:
    assert post(connection, "filter", filter_call("u", *everywhere, nominated="n2"))[1] == {
        "NodeNames": list(everywhere)
    }
    assert extender.recorded("u") == Recorded(frozenset(everywhere))


def test_when_a_pod_comes_back_the_first_time_counts(
    extender: RecordingExtender, connection: http.client.HTTPConnection
) -> None:
    for nodes in (("n1", "n2"), ("n3",)):
        post(connection, "filter", filter_call("u", *nodes))
        post(connection, "bind", bind_call("u", nodes[0]))
    assert extender.recorded("u") == Recorded(frozenset({"n1", "n2"}), "n1")


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("filter", b"{"),
        ("filter", b'{"Pod": {"metadata": {"uid": "u"}}, "NodeNames": null}'),
        ("filter", b'{"NodeNames": ["n1"]}'),
        ("bind", b'{"PodUID": "u"}'),
        ("prioritize", b"{}"),
    ],
)
def test_what_it_cannot_answer_is_refused_and_makes_the_record_void(
    extender: RecordingExtender, connection: http.client.HTTPConnection, verb: str, body: bytes
) -> None:
    status, answer = post(connection, verb, body)
    assert status == 400
    assert answer["Error"]
    with pytest.raises(ComponentFailed, match=f"was sent /{verb}: "):
        extender.recorded("u")


def test_pods_asked_about_at_the_same_time_do_not_mix(extender: RecordingExtender) -> None:
    host, _, port = extender.url.removeprefix("http://").rpartition(":")

    def ask(number: int) -> None:
        own = http.client.HTTPConnection(host, int(port), timeout=5.0)
        post(own, "filter", filter_call(f"u{number}", f"n{number}", "shared"))
        own.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(ask, range(20)))
    for number in range(20):
        assert extender.recorded(f"u{number}").feasible == {f"n{number}", "shared"}


def test_its_entry_in_the_configuration_names_its_address_and_both_verbs(extender: RecordingExtender) -> None:
    entry = extender.configuration
    assert entry["urlPrefix"] == extender.url
    assert (entry["filterVerb"], entry["bindVerb"]) == ("filter", "bind")
    assert entry["nodeCacheCapable"] is True


def test_afterwards_nothing_listens_any_more() -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    address = listening.getsockname()
    with RecordingExtender(listening):
        socket.create_connection(address, timeout=5.0).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, timeout=5.0)
