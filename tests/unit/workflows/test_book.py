"""Pods as tasks: in their workflow, beside it, and of none; what runs; what is written when they end."""

import dataclasses

import pytest

from stowplan.core.domain import MEMORY, ClassKey, NodeRemoved
from stowplan.kube.api.status import SchedulingStatus
from stowplan.kube.live.listener import ClusterChange
from stowplan.kube.live.pod import LivePod, Owner
from stowplan.observe.history import ExecutionStatus, Neighbour
from tests.unit.argo.cases import container, dag, task, workflow
from tests.unit.workflows.cases import SHAPE, T0, agent_pod, main, node, pod, status, task_pod
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


def running(waiting: LivePod, node_name: str = "n1", started_s: float | None = None) -> LivePod:
    """The pod on a node; with `started_s` its main container runs."""
    container = dataclasses.replace(waiting.main, started_s=started_s)
    return dataclasses.replace(waiting, node_name=node_name, phase="Running", main=container)


def ended(live: LivePod, phase: str = "Succeeded", **of_main: object) -> LivePod:
    """The pod after its end."""
    fields = {"exit_code": 0, "reason": "Completed", **of_main}
    return dataclasses.replace(live, phase=phase, main=dataclasses.replace(live.main, **fields))


# ---- tasks ----


def test_a_pod_is_the_task_of_its_workflow() -> None:
    live = Live()
    live.show(DIAMOND)
    a = live.tell(task_pod(".a"))
    pending = live.book.task_of(a, 5.0)
    assert pending.progress is live.book.progress_of("jobs/wf")
    assert (pending.key, pending.ready_s) == (a.key, 5.0)
    assert pending.progress.workflow.tasks[pending.index].name == ".a"
    assert pending.task.shape is a.shape
    assert live.book.task_of(a, 5.0) is pending  # nothing has changed: it is asked for in every cycle


def test_a_pod_that_is_seen_before_its_workflow_finds_it() -> None:
    live = Live()
    a = live.tell(task_pod(".a"))
    alone = live.book.task_of(a, 5.0)
    assert len(alone.progress.workflow) == 1
    live.show(DIAMOND)
    assert live.book.task_of(a, 5.0).progress is live.book.progress_of("jobs/wf")


def test_pods_move_the_progress_before_the_status_does() -> None:
    live = Live()
    live.show(DIAMOND)
    progress = live.book.progress_of("jobs/wf")
    assert progress is not None
    whole_s = progress.remaining_work_s
    a = live.tell(task_pod(".a"))
    assert progress.status.tolist()[0] == 1
    a = live.tell(running(a))
    assert progress.status.tolist()[0] == 2
    live.tell(ended(a))
    assert progress.status.tolist()[:3] == [3, 1, 1]
    assert progress.remaining_work_s == pytest.approx(whole_s * 3 / 4)
    live.delete(a)  # its success stays known until the status says so
    assert progress.status.tolist()[:3] == [3, 1, 1]


def test_a_pod_that_the_graph_does_not_foresee_stands_beside_its_workflow() -> None:
    live = Live()
    live.show(DIAMOND)
    mend = live.tell(task_pod(".mend"))
    pending = live.book.task_of(mend, 0.0)
    progress = live.book.progress_of("jobs/wf")
    assert progress is not None
    assert len(pending.progress.workflow) == 1
    assert pending.progress.remaining_work_s == progress.remaining_work_s + pending.task.expected_s
    live.show(DIAMOND, status("Failed"))
    assert live.book.task_of(mend, 0.0).progress.remaining_work_s == pending.task.expected_s


def test_pods_of_a_workflow_without_a_graph_are_tasks_of_their_own() -> None:
    live = Live()
    cyclic = workflow(
        dag("main", task("a", dependencies=["b"]), task("b", dependencies=["a"])), container("leaf")
    )
    live.show(cyclic)
    a = live.tell(task_pod(".a"))
    assert len(live.book.task_of(a, 0.0).progress.workflow) == 1
    assert live.book.progress_of("jobs/wf") is None
    assert "jobs/wf" in live.book.degraded["workflows"]
    explained = live.book.explain_workflow("jobs", "wf")
    assert explained is not None
    assert "wait for each other" in explained["problem"]


def test_a_recursion_holds_what_is_within() -> None:
    live = Live()
    recursive = workflow(
        dag(
            "main",
            task("flip"),
            task("again", "main", dependencies=["flip"], when="{{tasks.flip.outputs.result}} == tails"),
        ),
        container("leaf"),
    )
    live.show(recursive)
    inner = live.tell(task_pod(".again.again.flip"))
    pending = live.book.task_of(inner, 0.0)
    assert pending.progress.workflow.tasks[pending.index].name == ".again"
    assert live.book.explain_workflow("jobs", "wf")["unknown"] != []  # type: ignore[index]


def test_another_workflow_of_the_same_name_is_another() -> None:
    live = Live()
    live.show(DIAMOND, uid="first")
    first = live.tell(task_pod(".a", uid="first"))
    assert live.book.task_of(first, 0.0).progress is live.book.progress_of("jobs/wf")
    live.show(DIAMOND, uid="second")
    assert live.book.task_of(first, 0.0).progress is not live.book.progress_of("jobs/wf")


def test_a_pod_that_nobody_told_of_can_be_asked_for() -> None:
    live = Live()
    live.show(DIAMOND)
    shown = task_pod(".b")
    assert live.book.task_of(shown, 0.0).progress is live.book.progress_of("jobs/wf")
    assert live.book.status["pods"] == 0


def test_an_agent_pod_is_of_its_workflow() -> None:
    live = Live()
    live.show(DIAMOND)
    agent = live.tell(agent_pod())
    live.tell(ended(running(agent, started_s=T0), finished_s=T0 + 2.0))
    assert live.history.executions()[-1].key == ClassKey("name/wf", "agent", "agent")


@pytest.mark.parametrize(
    ("name", "owner", "origin"),
    [
        ("web-5d4f8c7b9d-x2x4z", Owner("ReplicaSet", "web-5d4f8c7b9d", "u"), "ReplicaSet/web"),
        ("backup-29123456-abcde", Owner("Job", "backup-29123456", "u"), "Job/backup"),
        ("train-stats-abcde", Owner("Job", "train-stats", "u"), "Job/train-stats"),
        ("kafka-0", Owner("StatefulSet", "kafka", "u"), "StatefulSet/kafka"),
        ("etcd-node1", Owner("Node", "node1", "u"), "Node/etcd"),
        ("shell-9x7kd", None, "Pod/shell"),
        ("snakejob-1b4e28ba-2fa1-11d2-883f-0016d3cca427", None, "Pod/snakejob"),
    ],
)
def test_pods_of_one_controller_are_of_one_class(name: str, owner: Owner | None, origin: str) -> None:
    live = Live()
    one = live.tell(pod(name, owner=owner))
    assert live.book.task_of(one, 0.0).task.template == "busybox"
    live.tell(ended(running(one, started_s=T0), finished_s=T0 + 2.0))
    assert live.history.executions()[-1].key == ClassKey(origin, "busybox", "")


# ---- what runs ----


def test_what_runs_is_expected_to_end_and_later_the_longer_it_goes_on() -> None:
    live = Live()
    one = live.tell(pod("one"))
    assert live.book.running == {}
    live.tell(running(one, "n2", started_s=T0))
    (now,) = live.book.running.values()
    assert now.row == live.state.row("n2")
    assert (now.started_s, now.expected_end_s) == (1000.0, 1060.0)
    live.clock.move(500.0)
    (later,) = live.book.running.values()
    assert later.expected_end_s > live.clock.monotonic()
    live.tell(ended(live.pods[one.key], finished_s=T0 + 500.0))
    assert live.book.running == {}


def test_rows_follow_the_nodes() -> None:
    live = Live()
    early = live.tell(running(pod("early"), "n3"))
    assert live.book.running == {}  # its node has not been told yet
    live.set_node("n3")
    live.listener.cluster_changed(ClusterChange.NODE_ADDED)
    assert live.book.running[early.key].row == live.state.row("n3")
    live.state.apply(NodeRemoved("n3"))
    live.listener.cluster_changed(ClusterChange.NODE_REMOVED)
    assert live.book.running == {}
    live.delete(early)
    live.set_node("n3")
    live.listener.cluster_changed(ClusterChange.NODE_ADDED)
    assert live.book.running == {}


def test_a_clock_that_is_set_moves_no_start() -> None:
    live = Live()
    one = live.tell(pod("one"))
    one = live.tell(running(one, started_s=T0))
    live.clock.wall_s += 86400.0
    live.tell(dataclasses.replace(one, status=SchedulingStatus("x", "y")))
    assert live.book.running[one.key].started_s == 1000.0


# ---- what ran ----


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
    assert live.book.live_tasks("jobs", "wf") is None


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
