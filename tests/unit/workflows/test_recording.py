"""What is written of pods and workflows that ran, and when."""

import dataclasses

import pytest

from stowplan.core.domain import MEMORY, ClassKey
from stowplan.kube.live.pod import Owner
from stowplan.observe.history import ExecutionStatus, Neighbour
from stowplan.serve.workflows import recording
from tests.unit.argo.cases import container, dag, task, workflow
from tests.unit.workflows.cases import SHAPE, T0, ended, main, node, pod, running, status, task_pod
from tests.unit.workflows.live import Live

DIAMOND = workflow(
    dag(
        "main",
        task("a"),
        task("b", depends="a"),
        task("c", depends="a"),
        task("d", depends="b && c"),
        task("mend", depends="a.Failed"),
    ),
    container("leaf"),
)


def test_a_life_is_written_as_it_was() -> None:
    live = Live()
    live.show(DIAMOND, status())
    beside = live.tell(running(pod("beside", owner=Owner("DaemonSet", "agent", "u")), started_s=T0))
    a = live.tell(task_pod(".a", shape=dataclasses.replace(SHAPE, scheduling_gates=("gate",))))
    live.clock.move(3.0)
    a = live.tell(dataclasses.replace(a, shape=SHAPE))
    live.clock.move(1.0)
    a = live.tell(running(a))
    live.clock.move(2.0)
    a = live.tell(running(a, started_s=T0 + 5.0))
    live.clock.move(30.0)
    live.tell(ended(a, finished_s=T0 + 35.0))
    start, end = live.history.executions(a.name)
    assert start.status is None
    assert (end.ready_s, end.placed_s, end.started_s, end.finished_s) == (T0 + 3, T0 + 4, T0 + 5, T0 + 35)
    assert (end.status, end.exit_code, end.reason) == (ExecutionStatus.DONE, 0, "Completed")
    assert (end.node, end.node_class, end.workflow_uid) == ("n1", "small", "uid-wf")
    assert end.key == ClassKey("name/wf", "leaf", ".a")
    assert end.neighbours == (Neighbour(ClassKey("DaemonSet/agent", "busybox", ""), 1),)
    assert end.shape is not None
    assert (end.shape.image, end.shape.cpu_request_cores) == ("busybox", 0.5)
    assert end.expected_s == pytest.approx(60.0)
    assert end.expected_source == "nothing"
    assert beside.key in live.book.running


def test_nothing_is_written_before_the_class_is_known() -> None:
    live = Live()
    a = live.tell(task_pod(".a"))
    live.tell(ended(running(a, started_s=T0), finished_s=T0 + 5.0))
    assert live.history.executions() == []
    live.show(DIAMOND, status("Succeeded"))
    (only,) = live.history.executions()
    assert only.key == ClassKey("name/wf", "leaf", ".a")
    assert only.status is ExecutionStatus.DONE


def test_a_pod_whose_workflow_never_shows_is_written_by_its_name() -> None:
    live = Live()
    a = live.tell(task_pod(".a", workflow="nightly-x7k2d", uid="gone"))
    live.tell(ended(running(a, started_s=T0), finished_s=T0 + 5.0))
    live.book._pods.give_up(live.clock.monotonic())
    (only,) = live.history.executions()
    assert only.key == ClassKey("generated/nightly", "leaf", ".a")


@pytest.mark.parametrize(
    ("phase", "fields", "of_main", "expected"),
    [
        ("Failed", {}, {"exit_code": 1, "reason": "Error"}, ExecutionStatus.FAILED),
        ("Failed", {}, {"exit_code": 137, "reason": "OOMKilled"}, ExecutionStatus.OOM_KILLED),
        ("Failed", {"reason": "Evicted"}, {"exit_code": 137, "reason": "Error"}, ExecutionStatus.EVICTED),
        ("Failed", {"is_preempted": True}, {"exit_code": 143, "reason": "Error"}, ExecutionStatus.EVICTED),
        ("Failed", {"reason": "OutOfcpu"}, {"exit_code": None, "reason": ""}, ExecutionStatus.FAILED),
        ("Failed", {"node_name": "gone"}, {"exit_code": None, "reason": ""}, ExecutionStatus.NODE_LOST),
        ("Failed", {"reason": "NodeLost"}, {"exit_code": None, "reason": ""}, ExecutionStatus.NODE_LOST),
    ],
)
def test_how_a_pod_ended(
    phase: str, fields: dict[str, object], of_main: dict[str, object], expected: ExecutionStatus
) -> None:
    live = Live()
    one = live.tell(running(pod("one"), started_s=T0))
    live.tell(dataclasses.replace(ended(one, phase, **of_main), **fields))
    assert live.history.executions()[-1].status is expected


@pytest.mark.parametrize(
    ("node_name", "expected"), [("n1", ExecutionStatus.EVICTED), ("gone", ExecutionStatus.NODE_LOST)]
)
def test_a_pod_that_is_deleted_while_it_runs_was_cut_off(node_name: str, expected: ExecutionStatus) -> None:
    live = Live()
    one = live.tell(running(pod("one"), node_name, started_s=T0))
    live.tell(dataclasses.replace(one, is_terminating=True))
    live.clock.move(7.0)
    live.delete(one)
    last = live.history.executions()[-1]
    assert (last.status, last.finished_s) == (expected, T0 + 7.0)
    waiting = live.tell(pod("waiting"))
    live.delete(waiting)
    assert live.history.executions("waiting") == []


@pytest.mark.parametrize(
    ("phase", "exit_code", "expected"),
    [
        ("Succeeded", 0, ExecutionStatus.EVICTED),  # it ends well when it is asked to
        ("Failed", 143, ExecutionStatus.EVICTED),
        ("Failed", 2, ExecutionStatus.FAILED),
    ],
)
def test_a_pod_that_ends_while_it_is_deleted_was_cut_off(
    phase: str, exit_code: int, expected: ExecutionStatus
) -> None:
    live = Live()
    one = live.tell(running(pod("one"), started_s=T0))
    one = live.tell(dataclasses.replace(one, is_terminating=True))
    live.tell(ended(one, phase, exit_code=exit_code, finished_s=T0 + 3.0))
    assert live.history.executions()[-1].status is expected


def test_a_pod_that_is_deleted_after_its_end_has_ended_well() -> None:
    live = Live()
    one = live.tell(ended(running(pod("one"), started_s=T0), finished_s=T0 + 3.0))
    live.tell(dataclasses.replace(one, is_terminating=True))
    live.delete(one)
    (only,) = live.history.executions()
    assert only.status is ExecutionStatus.DONE


def test_a_pod_that_vanishes_ended_unseen() -> None:
    live = Live()
    one = live.tell(running(pod("one"), started_s=T0))
    live.delete(one)
    (start,) = live.history.executions()
    assert start.status is None
    assert live.book.running == {}


def test_nothing_is_left_of_what_is_over() -> None:
    live = Live()
    for number in range(50):
        live.show(DIAMOND, status(), uid=f"u{number}")
        for place in ("a", "b", "mend"):
            one = live.tell(task_pod(f".{place}", uid=f"u{number}", key=f"jobs/p{number}-{place}"))
            live.book.task_of(one, 0.0)
            live.tell(ended(running(one, started_s=T0), finished_s=T0 + 3.0))
            live.delete(live.pods[one.key])
        live.hide(DIAMOND, uid=f"u{number}")
    pods, running_tasks = live.book._pods, live.book._pods.running
    assert [len(pods), pods.without_class, len(pods._of_workflow), len(pods._running_on)] == [0, 0, 0, 0]
    assert [len(pods.workflows), len(running_tasks._tasks), len(running_tasks._expected)] == [0, 0, 0]
    assert len(running_tasks._ends) <= 64


def test_a_workflow_run_is_written_when_its_phase_changes() -> None:
    live = Live()
    live.show(DIAMOND)
    live.show(DIAMOND, status("Running"))
    live.show(DIAMOND, status("Running", {".a": node("Running")}))
    live.show(DIAMOND, status("Succeeded", finishedAt="2023-11-14T22:14:20Z"))
    assert [run.phase for run in live.history.runs()] == ["", "Running", "Succeeded"]
    last = live.history.runs()[-1]
    assert (last.submitted_s, last.started_s, last.finished_s) == (T0, T0 + 1.0, T0 + 60.0)
    assert (last.namespace, last.workflow, last.origin) == ("jobs", "wf", "name/wf")


def test_what_had_ended_before_is_only_noted() -> None:
    live = Live()
    live.show(DIAMOND, status("Succeeded"))
    assert live.book.progress_of("jobs/wf") is None
    assert live.book.status["workflows"] == {"followed": 0, "unreadable": 0, "ended": 0}
    assert [(run.phase, run.origin) for run in live.history.runs()] == [("Succeeded", "name/wf")]


def test_an_ended_workflow_is_dropped_when_its_pods_have_spoken() -> None:
    live = Live()
    live.show(DIAMOND, status())
    a = live.tell(running(task_pod(".a"), started_s=T0))
    live.show(DIAMOND, status("Succeeded"))
    live.clock.move(61.0)
    live.book._drop_ended()
    assert live.book.progress_of("jobs/wf") is not None
    live.tell(ended(a, finished_s=T0 + 5.0))
    live.book._drop_ended()
    assert live.book.progress_of("jobs/wf") is None
    assert live.history.executions(a.name)[-1].key == ClassKey("name/wf", "leaf", ".a")


def test_a_deleted_workflow_is_gone() -> None:
    live = Live()
    live.show(DIAMOND)
    live.tell(task_pod(".a"))
    live.hide(DIAMOND)
    assert live.book.explain_workflow("jobs", "wf") is None


def test_nodes_without_a_label_are_of_a_kind_by_what_they_allocate() -> None:
    live = Live()
    live.set_node("bare", "", {MEMORY: 2**33 + 12345, "nvidia.com/gpu": 2})
    live.tell(ended(running(pod("one"), "bare", started_s=T0), finished_s=T0 + 1.0))
    assert live.history.executions()[-1].node_class == "4.0cpu 8Gi 2xnvidia.com/gpu"


def test_a_text_that_no_database_takes_is_mended() -> None:
    live = Live()
    odd = pod("odd", main=main(image="a\0b", command=("x" * 300,)))
    live.tell(ended(running(odd, started_s=T0), finished_s=T0 + 1.0))
    (record,) = live.history.executions()
    assert record.shape is not None
    assert "\0" not in record.shape.image
    assert record.shape.command.startswith("sha256:")


def test_what_the_history_has_no_room_for_is_written_later() -> None:
    live = Live()
    store, live.history.store = live.history.store, None  # not open yet
    first = live.tell(ended(running(pod("first"), started_s=T0), finished_s=T0 + 1.0))
    live.book._recorder.catch_up()
    assert live.history.executions() == []
    assert live.book.status["records_owed"] == 1
    live.history.store, live.history.queued = store, 20_000
    live.tell(ended(running(pod("second"), started_s=T0), finished_s=T0 + 2.0))
    live.book._recorder.catch_up()
    assert live.history.executions() == []
    live.history.queued = 10
    live.delete(first)
    live.book._recorder.catch_up()
    assert [record.pod for record in live.history.executions()] == ["first", "second"]
    assert live.book.status["records_owed"] == 0


def test_what_waits_for_room_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "_MOST_OWED", 3)
    live = Live()
    live.history.queued = 20_000
    for number in range(5):
        live.tell(ended(running(pod(f"p{number}"), started_s=T0), finished_s=T0 + 1.0))
    live.history.queued = 0
    live.book._recorder.catch_up()
    assert [record.pod for record in live.history.executions()] == ["p0", "p1", "p2"]
