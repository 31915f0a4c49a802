"""Versions of a workflow as JSON: heads, graphs, and what cannot be read."""

import pytest
from structlog.testing import capture_logs

from stowplan.errors import InvalidObject
from stowplan.kube.argo import Shelf, open_object
from stowplan.serve.workflows.document import WorkflowReader, head_of, seconds_of
from tests.unit.argo.cases import container, dag, task, workflow
from tests.unit.workflows.cases import T0, Followed, node, raw, seconds, status
from tests.unit.workflows.live import Live

PLAIN = workflow(dag("main", task("a"), task("b", dependencies=["a"])), container("leaf"))


def test_a_head_is_read_without_the_rest() -> None:
    head = head_of(raw(PLAIN, status("Failed", finishedAt="2023-11-14T22:14:20Z")))
    assert (head.key, head.uid, head.phase, head.has_ended) == ("jobs/wf", "uid-wf", "Failed", True)
    assert (head.submitted_s, head.started_s, head.finished_s) == (T0, T0 + 1.0, T0 + 60.0)
    young = head_of(raw(PLAIN))
    assert (young.phase, young.has_ended, young.started_s) == ("", False, None)


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("2023-11-14T22:13:20Z", T0),
        ("2023-11-14T23:13:20+01:00", T0),
        ("", None),
        (None, None),
        ("soon", None),
    ],
)
def test_times_of_the_api(time: str | None, expected: float | None) -> None:
    assert seconds_of(time) == expected


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"[]",
        b"{}",
        b'{"metadata": 1}',
        b'{"metadata": {"name": 3}}',
        b'{"metadata": {}, "status": []}',
        b'{"metadata": {}, "status": {"phase": {}}}',
    ],
)
def test_what_has_no_head_is_refused(broken: bytes) -> None:
    with pytest.raises(InvalidObject):
        head_of(broken)
    with pytest.raises(InvalidObject):
        WorkflowReader().read(broken, Shelf(), seconds(), 0.0)


def test_a_specification_is_read_once_as_long_as_it_stays() -> None:
    seen = Followed(PLAIN)
    seen.see()
    first = seen.live
    seen.see(status(nodes={".a": node("Succeeded")}))
    assert seen.live is first
    seen.workflow = workflow(dag("main", task("a"), task("new", dependencies=["a"])), container("leaf"))
    seen.see(status(nodes={".a": node("Succeeded")}))
    assert seen.states() == {".a": "DONE", ".new": "PENDING"}


def test_a_workflow_made_from_a_template_is_read_with_it() -> None:
    template = workflow(container("main"), kind="WorkflowTemplate", name="lib", entrypoint="main")
    made = {**PLAIN, "spec": {"workflowTemplateRef": {"name": "lib"}}}
    reading = Followed(made).reading()
    assert "no WorkflowTemplate of that name" in reading.problem
    assert reading.origin == "template/lib"
    seen = Followed(made, open_object(template))
    assert seen.see().origin == "template/lib"
    assert seen.states() == {"": "PENDING"}


def test_durations_that_are_as_good_as_before_change_nothing() -> None:
    seen = Followed(PLAIN, expected_of=seconds(leaf=100.0))
    seen.see()
    assert seen.reader.renew(seconds(leaf=101.0)) is None
    renewed = seen.reader.renew(seconds(leaf=110.0))
    assert renewed is not None
    assert [one.expected_s for one in renewed.tasks] == [110.0, 110.0]
    assert WorkflowReader().renew(seconds()) is None


def test_one_workflow_that_trips_the_reader_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    live = Live()

    def trip(*_: object) -> None:
        raise KeyError("unforeseen")

    with monkeypatch.context() as patch, capture_logs() as lines:
        patch.setattr(WorkflowReader, "read", trip)
        live.show(PLAIN)
    assert [line["event"] for line in lines] == ["workflow cannot be read"]
    live.show(PLAIN)
    assert live.book.progress_of("jobs/wf") is not None


def test_a_fault_is_told_once() -> None:
    live = Live()
    wrong = workflow(dag("main", task("a", "nowhere")), container("leaf"))
    with capture_logs() as lines:
        live.show(wrong)
        live.show(wrong, status("Running"))
        live.show(wrong, status("Error"))
    assert [line["event"] for line in lines] == ["workflow has no task graph"]
    assert "nowhere" in lines[0]["reason"]
