"""Recorder and replay over a real history: what is kept, what is left out and says so, what is told."""

import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stowplan.core.decoder import Infeasible, Placed, Wait
from stowplan.core.domain import (
    ClusterState,
    Node,
    NodeSet,
    PendingTask,
    Phase,
    PodRemoved,
    PodShape,
    Resources,
    RunningTask,
    Task,
    WorkProfile,
)
from stowplan.core.policy import make_policy
from stowplan.errors import InvalidFile, InvalidInput, ReplayDiffers
from stowplan.kube.api.status import SchedulingStatus
from stowplan.kube.live.pod import LivePod
from stowplan.observe.history import (
    ClassKey,
    DurationModel,
    Execution,
    ExecutionStatus,
    ExpectedDuration,
    HistoryStore,
    WorkflowRun,
)
from stowplan.serve.record import RecordLimits
from stowplan.serve.record.answers import pod_answer, workflow_answer
from stowplan.serve.record.bookkeeping import Bookkeeping
from stowplan.serve.record.replaying import replay_decision
from stowplan.serve.workflows.expectations import one_task
from tests.recorder_cases import Small, ids_of, live_pod
from tests.unit.argo.cases import container, dag, task, workflow
from tests.unit.workflows.cases import T0, node, running, status, task_pod
from tests.unit.workflows.live import Live


@pytest.fixture
def store(tmp_path: Path) -> Iterator[HistoryStore]:
    opened = HistoryStore.open(f"sqlite:///{tmp_path / 'history.db'}")
    yield opened
    opened.close()


def test_decisions_replay_from_the_history(store: HistoryStore) -> None:
    small = Small(store, limits=RecordLimits(chain=3))
    for number in range(8):
        small.cycle(float(number), small.task(f"p{number}", 500 + 100 * number))
        if number == 4:
            small.state.apply(PodRemoved("lab/p1"))
            small.running.pop("lab/p1").pending.progress.done(0)
    small.close()
    links = []
    for number in range(8):
        (decision_id,) = ids_of(store, f"p{number}")
        done = replay_decision(store, decision_id)
        assert done.decision.pod == f"p{number}"
        links.append(done.links)
    assert links == [1, 2, 3, 1, 2, 3, 1, 2]  # a new chain after three
    assert small.recorder.state.without_record == {}


def test_what_takes_the_place_of_something_gone_is_not_taken_for_it() -> None:
    """Python gives a new object the address of one that is gone: what is known by address is held."""
    state = ClusterState()
    state.apply(NodeSet(Node("n", Resources({"cpu": 1000}))))
    books = Bookkeeping(state, np.random.default_rng(1), make_policy("srpt"))
    work = WorkProfile((Phase(1.0),))
    unseen = [one_task(Task(f"w{number}", PodShape(), work, 1.0)) for number in range(50)]
    for number, progress in enumerate(unseen):
        pending = PendingTask("lab/pod", progress, 0, 0.0)
        captured = books.capture(0.0, (), {"lab/pod": RunningTask(pending, 0, 0.0, float(number))})
        assert captured is not None
        assert [each.progress for each in captured.progress] == [progress]
        books.kept(captured)
        del captured


def test_a_row_says_who_could_take_it_and_what_is_expected(store: HistoryStore) -> None:
    asked: list[tuple[str, str]] = []

    def expect(pod: LivePod, node: str) -> ExpectedDuration:
        asked.append((pod.key, node))
        return DurationModel([]).expected(ClassKey("o", "t", "/t"))

    small = Small(store, expect=expect)
    small.cycle(0.0, small.task("large", 3000))
    small.close()
    (decision,) = store.decisions_of_pod("lab", "large")
    assert (decision.node, decision.candidates, decision.refused) == ("a", 1, {"NodeResourcesFit": 1})
    assert decision.pod_uid == "uid-large"
    assert decision.decided_s == 1000.0
    assert decision.expected_source == "nothing"
    assert decision.expected_s == pytest.approx(60.0)
    assert decision.expected_low_s is not None
    assert decision.explanation["outcome"] == "placed"
    assert asked == [("lab/large", "a")]


def test_the_same_refusal_is_told_once(store: HistoryStore) -> None:
    small = Small(store)
    first, wide, huge = small.task("first", 4000), small.task("wide", 3000), small.task("huge", 9000)
    small.cycle(0.0, first)
    for number in range(1, 5):
        small.cycle(float(number), wide, huge)
    small.state.apply(PodRemoved("lab/first"))
    small.running.pop("lab/first").pending.progress.done(0)
    small.cycle(5.0, wide, huge)
    small.close()
    told = [decision.explanation["outcome"] for decision in reversed(store.decisions_of_pod("lab", "wide"))]
    assert told == ["waits", "placed"]
    (never,) = store.decisions_of_pod("lab", "huge")
    assert never.explanation["outcome"] == "infeasible"
    assert never.node is None
    for decision_id in [*ids_of(store, "wide"), *ids_of(store, "huge")]:
        report = replay_decision(store, decision_id).replayed.report
        assert any(
            isinstance(outcome, Placed | Wait | Infeasible)
            for _, outcome in (*report.placed, *report.waiting, *report.infeasible)
        )


def test_without_room_for_the_record_the_decision_is_kept_and_says_so(store: HistoryStore) -> None:
    small = Small(store, limits=RecordLimits(pause_s=2.0))
    small.keeper.is_full = True
    small.cycle(0.0, small.task("p0", 100))
    assert small.recorder.state.is_degraded
    small.keeper.is_full = False
    small.cycle(1.0, small.task("p1", 100))  # in the pause: not tried
    small.cycle(5.0, small.task("p2", 100))
    small.close()
    assert small.recorder.state.without_record == {"history": 2}
    assert not small.recorder.state.is_degraded
    for name in ("p0", "p1"):
        with pytest.raises(InvalidInput, match="the history had no room"):
            replay_decision(store, ids_of(store, name)[0])
    assert replay_decision(store, ids_of(store, "p2")[0]).links == 1


def test_a_full_queue_leaves_records_out_and_the_chain_goes_on(
    store: HistoryStore,
) -> None:
    small = Small(store, limits=RecordLimits(waiting=0))
    small.cycle(0.0, small.task("p0", 100))
    small.recorder._limits = RecordLimits()
    small.cycle(1.0, small.task("p1", 100))
    small.recorder._limits = RecordLimits(waiting=0)
    small.cycle(2.0, small.task("p2", 100))
    small.recorder._limits = RecordLimits()
    small.cycle(3.0, small.task("p3", 100))
    small.close()
    for name in ("p0", "p2"):
        with pytest.raises(InvalidInput, match="faster than they could be recorded"):
            replay_decision(store, ids_of(store, name)[0])
    assert replay_decision(store, ids_of(store, "p3")[0]).links == 2


def test_a_policy_that_remembers_is_not_recorded(store: HistoryStore) -> None:
    small = Small(store, policy="fgd")
    small.cycle(0.0, small.task("p0"))
    small.close()
    assert small.recorder.state.without_record == {"policy": 1}
    assert not small.recorder.state.is_degraded
    with pytest.raises(InvalidInput, match="remembers"):
        replay_decision(store, ids_of(store, "p0")[0])


def test_what_cannot_be_replayed_says_why(store: HistoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    small = Small(store)
    small.cycle(0.0, small.task("p0"))
    small.cycle(1.0, small.task("p1"))
    small.close()
    first, second = ids_of(store, "p0")[0], ids_of(store, "p1")[0]
    with pytest.raises(InvalidInput, match="has no decision 'nonsense'"):
        replay_decision(store, "nonsense")
    monkeypatch.setattr("stowplan.serve.record.replaying.__version__", "9.9")
    with pytest.raises(InvalidInput, match=r"this is Stowplan 9\.9; replay it with Stowplan"):
        replay_decision(store, first)
    monkeypatch.undo()
    chain = store.snapshot_chain(store.decision(second).snapshot_sha256 or "")  # pyright: ignore[reportOptionalMemberAccess]
    broken = replace(chain[1], sha256="broken", content=chain[1].content[:20])
    foreign = replace(chain[1], sha256="foreign", format="other/1")
    orphan = replace(chain[1], sha256="orphan", parent_sha256="gone")
    told = store.decision(second)
    assert told is not None
    store.write([broken, foreign, orphan], 0.0)
    for name, match in (
        ("broken", "damaged"),
        ("foreign", "format 'other/1'"),
        ("orphan", "stands on one that is not"),
    ):
        store.write([replace(told, decision_id=name, snapshot_sha256=name)], 0.0)
        with pytest.raises(InvalidFile, match=match):
            replay_decision(store, name)
    store.write([replace(told, decision_id="other node", node="b" if told.node == "a" else "a")], 0.0)
    with pytest.raises(ReplayDiffers, match="lab/p1: node: "):
        replay_decision(store, "other node")


def test_a_record_that_was_tampered_with_differs(store: HistoryStore) -> None:
    small = Small(store)
    small.cycle(0.0, small.task("p0"))
    small.close()
    told = store.decision(ids_of(store, "p0")[0])
    assert told is not None
    snapshot = store.snapshot(told.snapshot_sha256 or "")
    assert snapshot is not None
    frame = zlib.decompress(snapshot.content)
    assert frame.count(b"\xa5score\xcb") == 1
    at = frame.index(b"\xa5score\xcb") + 7
    other = frame[:at] + bytes([frame[at] ^ 0x80]) + frame[at + 1 :]  # the sign of the score
    store.write([replace(snapshot, sha256="t", content=zlib.compress(other))], 0.0)
    store.write([replace(told, decision_id="t", snapshot_sha256="t")], 0.0)
    with pytest.raises(ReplayDiffers, match="explanation: score: -"):
        replay_decision(store, "t")


def test_what_is_told_of_a_pod(store: HistoryStore) -> None:
    small = Small(store)
    small.cycle(0.0, small.task("p0"))
    small.close()
    assert pod_answer(store, "lab", "nobody") is None
    waiting = pod_answer(store, "lab", "new", live=live_pod("lab/new", PodShape()))
    assert waiting is not None
    assert waiting["now"]["waits"] == "not decided on yet"
    store.write(
        [
            Execution(
                pod_uid="uid-p0", key=ClassKey("o", "t", "/t"), namespace="lab", pod="p0", node="a",
                started_s=1001.0, finished_s=1007.0, status=ExecutionStatus.DONE,
            )
        ],
        0.0,
    )  # fmt: skip
    answer = pod_answer(store, "lab", "p0")
    assert answer is not None
    assert answer["why"]["node"] == answer["node"] == "a"
    assert answer["why"]["runner_up"] == "b"
    assert answer["why"]["replayable"]
    assert (answer["predicted"]["expected_s"], answer["real"]["took_s"]) == (5.0, 6.0)
    assert answer["real"]["off_by"] == pytest.approx(0.2)
    assert [decision["outcome"] for decision in answer["decisions"]] == ["placed"]


def test_what_is_told_of_a_workflow(store: HistoryStore) -> None:
    live = Live()
    live.show(workflow(dag("main", task("one"), task("two", depends="one")), container("leaf")))
    waiting = SchedulingStatus("Unschedulable", "0/2 nodes")
    pod = live.tell(task_pod(".one", status=waiting))
    answer = workflow_answer(store, "jobs", "wf", live=live.book.explain_workflow("jobs", "wf"))
    assert answer is not None
    one, two = answer["tasks"]
    assert (one["state"], one["pod"], one["waits_why"]) == ("pending", pod.name, "0/2 nodes")
    assert (two["state"], two["waits_for"]) == ("waiting", [".one"])
    assert (answer["uid"], answer["open_tasks"]) == ("uid-wf", 2)
    assert answer["remaining_work_s"] == pytest.approx(120.0)
    assert workflow_answer(store, "lab", "w") is None
    store.write(
        [
            WorkflowRun(workflow_uid="u", namespace="lab", workflow="w", phase="Running"),
            Execution(
                pod_uid="uid-w-one", key=ClassKey("o", "t", "/one"), pod="w-one", workflow_uid="u", node="a",
                started_s=1.0, finished_s=4.0, status=ExecutionStatus.DONE,
            ),
        ],
        0.0,
    )  # fmt: skip
    answer = workflow_answer(store, "lab", "w")
    assert answer is not None
    (one,) = answer["tasks"]
    assert (one["task"], one["state"], one["took_s"]) == ("one", "done", 3.0)
    assert (answer["problem"], answer["open_tasks"], answer["beside"], answer["unknown"]) == (
        None,
        None,
        [],
        [],
    )


def test_what_the_history_has_of_a_workflow_stands_with_what_is_live(store: HistoryStore) -> None:
    live = Live()
    chain = workflow(dag("main", task("one"), task("two", depends="one")), container("leaf"))
    live.show(chain, status("Running"))
    pod = live.tell(running(task_pod(".one"), started_s=T0))
    run = WorkflowRun(
        workflow_uid="uid-wf",
        namespace="jobs",
        workflow="wf",
        phase="Pending",
        origin="name/wf",
        started_s=T0,
    )
    begun = Execution(
        pod_uid=pod.uid, key=ClassKey("name/wf", "leaf", ".one"), pod=pod.name, workflow_uid="uid-wf",
        node="n1", attempt=1, started_s=T0,
    )  # fmt: skip
    store.write([run, begun], 0.0)
    answer = workflow_answer(store, "jobs", "wf", live=live.book.explain_workflow("jobs", "wf"))
    assert answer is not None
    assert (answer["phase"], answer["origin"]) == ("Running", "name/wf")
    assert [(row["task"], row["state"], row.get("attempt")) for row in answer["tasks"]] == [
        (".one", "running", 1),
        (".two", "waiting", None),
    ]
    # Another of the same name: what the history has is of the one before.
    live.show(chain, status("Running"), uid="second")
    answer = workflow_answer(store, "jobs", "wf", live=live.book.explain_workflow("jobs", "wf"))
    assert answer is not None
    assert (answer["uid"], [row.get("attempt") for row in answer["tasks"]]) == ("second", [None, None])


def test_a_task_whose_pods_are_gone_is_told_once(store: HistoryStore) -> None:
    live = Live()
    many = "{{tasks.one.outputs.result}}"
    tasks = (
        task("one"),
        task("each", depends="one", withItems=["x", "y"]),
        task("many", depends="one", withParam=many),
        task("idle"),
    )
    places = {
        "": node("Running", "DAG"),
        ".idle": node("Skipped", "Skipped"),
        ".many": node("Succeeded", "TaskGroup"),
    }
    places |= {path: node("Succeeded") for path in (".one", ".each(0:x)", ".each(1:y)", ".many(0:z)")}
    live.show(workflow(dag("main", *tasks), container("leaf")), status("Running", places))
    ends = [
        Execution(
            pod_uid=f"{place}{item}", key=ClassKey("name/wf", "leaf", place), item=item,
            workflow_uid="uid-wf", started_s=T0, finished_s=T0 + 1.0, status=ExecutionStatus.DONE,
        )
        for place, item in ((".one", ""), (".each", "0"), (".many", "0"))
    ]  # fmt: skip
    store.write([WorkflowRun(workflow_uid="uid-wf", namespace="jobs", workflow="wf"), *ends], 0.0)
    answer = workflow_answer(store, "jobs", "wf", live=live.book.explain_workflow("jobs", "wf"))
    assert answer is not None
    assert sorted((row["task"], row["item"] or "", row["state"]) for row in answer["tasks"]) == [
        (".each", "0", "done"),
        (".each#1", "1", "done"),  # of this one the history has nothing
        (".idle", "", "skipped"),
        (".many", "0", "done"),
        (".one", "", "done"),
    ]


def test_a_workflow_without_a_graph_is_told_with_what_is_wrong_with_it() -> None:
    live = Live()
    live.show(
        workflow(dag("main", task("a", dependencies=["b"]), task("b", dependencies=["a"])), container("leaf"))
    )
    answer = workflow_answer(None, "jobs", "wf", live=live.book.explain_workflow("jobs", "wf"))
    assert answer is not None
    assert "wait for each other" in answer["problem"]
    assert answer["tasks"] == []
