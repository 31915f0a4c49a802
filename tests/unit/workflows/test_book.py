"""Pods as tasks: in their workflow, beside it, and of none; what runs; what is told of them."""

import dataclasses

import pytest

from stowplan.core.domain import ClassKey, NodeRemoved
from stowplan.kube.api.status import SchedulingStatus
from stowplan.kube.live.listener import ClusterChange
from stowplan.kube.live.pod import Owner
from tests.unit.argo.cases import container, dag, task, workflow
from tests.unit.workflows.cases import T0, agent_pod, ended, node, pod, running, status, task_pod
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


# ---- what is told to people ----


def test_a_workflow_is_explained_with_what_is_open() -> None:
    live = Live()
    listed = workflow(
        dag(
            "main",
            task("list"),
            task("each", depends="list", withParam="{{tasks.list.outputs.result}}"),
            task("mend", depends="list.Failed"),
        ),
        container("leaf"),
    )
    live.show(listed, status(nodes={"": node("Running", "DAG"), ".list": node("Running")}))
    live.tell(running(task_pod(".list"), started_s=T0))
    live.tell(task_pod(".mend"))
    found = live.book.explain_workflow("jobs", "wf")
    assert found is not None
    assert (found["phase"], found["origin"], found["problem"], found["open_tasks"]) == (
        "Running",
        "name/wf",
        None,
        2,
    )
    assert found["remaining_work_s"] == pytest.approx(120.0)
    assert found["critical_path_s"] == pytest.approx(120.0)
    first, second = found["tasks"]
    assert (first["task"], first["state"], first["instances"], first["open"]) == (".list", "running", 1, 1)
    assert [one["node"] for one in first["pods"]] == ["n1"]
    assert first["expected"]["in_words"] == "60 s by default: no run has been seen yet"
    assert (second["task"], second["state"], second["instances"]) == (".each#*", "waiting", None)
    assert len(found["beside"]) == 1
    assert len(found["unknown"]) == 1
    assert "{{tasks.list.outputs.result}} will tell" in found["unknown"][0]


def test_tasks_are_told_with_their_newest_pod_and_what_they_wait_for() -> None:
    live = Live()
    live.show(DIAMOND)
    a = live.tell(task_pod(".a"))
    found = live.book.explain_workflow("jobs", "wf")
    assert found is not None
    first, second, third, last = found["tasks"]
    assert (first["task"], first["state"], first["uid"], first["waits_for"]) == (".a", "pending", a.uid, [])
    assert (first["pod"], first["node"], first["waits_why"]) == (a.name, None, "not decided on yet")
    assert first["predicted_s"] == first["expected"]["expected_s"]
    assert (second["task"], second["state"], second["waits_for"]) == (".b", "waiting", [".a"])
    assert (third["uid"], last["waits_for"]) == (None, [".b", ".c"])
    assert first["rank_s"] == pytest.approx(180.0)
    assert first["expected"]["source"] == "nothing"


def test_what_was_left_out_is_not_waited_for() -> None:
    live = Live()
    skipping = workflow(
        dag("main", task("a"), task("b"), task("c", depends="(a.Succeeded || a.Skipped) && b")),
        container("leaf"),
    )
    live.show(skipping, status(nodes={"": node("Running", "DAG"), ".a": node("Skipped", "Skipped")}))
    live.tell(running(task_pod(".b"), started_s=T0))
    found = live.book.explain_workflow("jobs", "wf")
    assert found is not None
    assert [(row["state"], row["waits_for"]) for row in found["tasks"]] == [
        ("skipped", []),
        ("running", []),
        ("waiting", [".b"]),
    ]
