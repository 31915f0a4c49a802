"""Bindings as the API server wrote them down: what was done, what may have been, what was done twice."""

import json
from pathlib import Path

import pytest

from testbed import audit
from testbed.audit import Binding, bound_twice
from testbed.site import Site


def event(pod: str, code: int, uid: str = "u", node: str = "n") -> str:
    """A line of the log, of an answer."""
    return json.dumps(
        {
            "kind": "Event",
            "auditID": pod,
            "stage": "ResponseComplete",
            "user": {"username": "somebody"},
            "objectRef": {"resource": "pods", "namespace": "ns", "name": pod, "subresource": "binding"},
            "requestObject": {"metadata": {"uid": uid}, "target": {"kind": "Node", "name": node}},
            "responseStatus": {"code": code},
        }
    )


def request(pod: str) -> str:
    """A line of the log, of a request that has come and is not read yet."""
    return json.dumps(
        {
            "kind": "Event",
            "auditID": pod,
            "stage": "RequestReceived",
            "user": {"username": "somebody"},
            "objectRef": {"resource": "pods", "namespace": "ns", "name": pod, "subresource": "binding"},
        }
    )


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setenv("STOWPLAN_CACHE", str(tmp_path))
    made = Site(name="audited", slot=1)
    made.folder.mkdir(parents=True)
    return made


def test_without_a_log_there_are_none(site: Site) -> None:
    assert audit.bindings(site) == []


def test_each_line_is_a_binding_with_its_answer(site: Site) -> None:
    audit.log(site).write_text("\n".join([event("a", 201), event("b", 409, uid="", node="m")]) + "\n")
    assert audit.bindings(site) == [
        Binding("ns/a", "u", "n", "somebody", 201),
        Binding("ns/b", "", "m", "somebody", 409),
    ]


def test_a_request_that_was_never_answered_may_have_been_carried_out(site: Site) -> None:
    audit.log(site).write_text("\n".join([request("a"), request("b"), event("b", 201)]) + "\n")
    assert audit.bindings(site) == [
        Binding("ns/b", "u", "n", "somebody", 201),
        Binding("ns/a", "", "", "somebody", audit.UNANSWERED),
    ]
    assert all(each.may_be_done for each in audit.bindings(site))


def test_the_policy_is_there_before_the_api_server_reads_it(site: Site) -> None:
    (policy,) = (flag.partition("=")[2] for flag in audit.flags(site) if "policy-file" in flag)
    assert json.loads(Path(policy).read_text()) == audit.POLICY


def test_only_what_was_carried_out_counts_as_twice() -> None:
    def binding(code: int, uid: str = "u") -> Binding:
        return Binding("ns/a", uid, "n", "somebody", code)

    assert bound_twice([binding(201), binding(409), binding(409)]) == {}
    assert bound_twice([binding(201), binding(201, uid="of its successor")]) == {}
    assert bound_twice([binding(201), binding(201)]) == {"ns/a u": 2}
    assert [binding(code).may_be_done for code in (201, 409, 404, 499, 500, 504)] == [
        *(True, False, False),
        *(True, True, True),
    ]
