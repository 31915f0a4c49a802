"""Durations: learnt from the history, by class, item and kind of node, and passed on to what waits."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from stowplan.core.domain import ClassKey
from stowplan.observe.history import Execution, ExecutionStatus, HistoryStore
from stowplan.observe.history.durations import DurationModel
from stowplan.observe.history.fitting import fit_model
from stowplan.serve.workflows.expectations import item_of_place
from tests.history_cases import seen
from tests.unit.argo.cases import container, dag, task, workflow
from tests.unit.workflows.cases import T0, ended, node, pod, running, status, task_pod
from tests.unit.workflows.live import Live

CHAIN = workflow(
    dag(
        "main",
        task("a", "short"),
        task("b", "long", dependencies=["a"]),
        task("c", "short", dependencies=["a"]),
    ),
    container("short"),
    container("long"),
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[HistoryStore]:
    opened = HistoryStore.open(f"sqlite:///{tmp_path / 'history.db'}")
    yield opened
    opened.close()


def ran(store: HistoryStore, template: str, place: str, seconds: float, **fields: object) -> None:
    """Write a run of a class."""
    number = store.counts()["executions"]
    given: dict[str, object] = {
        "pod_uid": f"earlier-{number}",
        "key": ClassKey("name/wf", template, place),
        "workflow_uid": f"earlier-{number // 10}",
        "started_s": T0 - 10_000.0 + number,
        "finished_s": T0 - 10_000.0 + number + seconds,
        "status": ExecutionStatus.DONE,
        **fields,
    }
    store.write([Execution(**given)], T0)  # type: ignore[arg-type]


def test_what_waits_is_expected_anew_when_more_is_known(store: HistoryStore) -> None:
    live = Live(store)
    live.show(CHAIN)
    b = live.tell(task_pod(".b"))
    progress = live.book.progress_of("jobs/wf")
    assert progress is not None
    assert live.book.task_of(b, 0.0).task.expected_s == pytest.approx(60.0)
    assert progress.remaining_work_s == pytest.approx(180.0)
    for template, place, seconds in (("short", ".a", 10.0), ("long", ".b", 300.0), ("short", ".c", 20.0)):
        for _ in range(3):
            ran(store, template, place, seconds)
    live.learn()
    assert live.book.progress_of("jobs/wf") is progress
    pending = live.book.task_of(b, 0.0)
    assert pending.task.expected_s == pytest.approx(300.0)
    assert pending.progress is progress
    assert progress.remaining_work_s == pytest.approx(330.0)
    assert progress.upward_rank_s.tolist() == pytest.approx([310.0, 300.0, 20.0])
    assert [one.expected_s for one in progress.workflow.tasks] == pytest.approx([10.0, 300.0, 20.0])
    assert live.book.expected(b).source == "class"


def test_what_ended_stays_ended_when_more_is_known(store: HistoryStore) -> None:
    live = Live(store)
    live.show(CHAIN, status(nodes={".a": node("Succeeded")}))
    ran(store, "long", ".b", 300.0)
    ran(store, "short", ".c", 20.0)
    live.learn()
    progress = live.book.progress_of("jobs/wf")
    assert progress is not None
    assert progress.remaining_work_s == pytest.approx(320.0)
    live.show(CHAIN, status(nodes={".a": node("Succeeded"), ".c": node("Succeeded")}))
    assert progress.remaining_work_s == pytest.approx(300.0)
    live.show(CHAIN, status(nodes={}))  # it goes back, and is made anew with what is expected now
    again = live.book.progress_of("jobs/wf")
    assert again is not None
    assert again.upward_rank_s[1] == pytest.approx(300.0)


def test_kinds_of_nodes_have_durations_of_their_own(store: HistoryStore) -> None:
    for _ in range(4):
        for place in (".a", ".c"):
            ran(store, "short", place, 10.0, node_class="small")
            ran(store, "short", place, 5.0, node_class="large")
    live = Live(store)
    live.show(CHAIN)
    live.learn()
    a = live.tell(task_pod(".a"))
    on_small, on_large = live.book.expected_on(a, "n1"), live.book.expected_on(a, "n2")
    assert on_small is not None
    assert on_large is not None
    assert on_small.expected_s == pytest.approx(2.0 * on_large.expected_s, rel=0.05)
    pending = live.book.task_of(a, 0.0).task
    factors = dict(pending.work.machine_factors)
    assert factors["small"] == pytest.approx(2.0 * factors["large"], rel=0.05)
    assert pending.expected_s * factors["small"] == pytest.approx(on_small.expected_s)


def test_items_that_repeat_are_told_apart(store: HistoryStore) -> None:
    fan = workflow(dag("main", task("e", withItems=["a", "b"])), container("leaf"))
    for run in range(3):
        for item, seconds in (("0", 10.0), ("1", 100.0)):
            ran(store, "leaf", ".e", seconds, item=item, workflow_uid=f"run-{run}")
    live = Live(store)
    live.show(fan)
    live.learn()
    progress = live.book.progress_of("jobs/wf")
    assert progress is not None
    first, second = (one.expected_s for one in progress.workflow.tasks)
    assert second > 5.0 * first
    pods = [live.tell(task_pod(f".e({number}:{name})")) for number, name in enumerate("ab")]
    assert [live.book.task_of(one, 0.0).task.expected_s for one in pods] == pytest.approx([first, second])


@pytest.mark.parametrize(
    ("place", "item"), [("", ""), (".a", ""), (".a#3", "3"), (".a#3.b#12", "3.12"), (".a#3.b#*", "")]
)
def test_an_item_is_its_numbers(place: str, item: str) -> None:
    assert item_of_place(place) == item


def test_what_was_foretold_is_held_against_what_came() -> None:
    live = Live()
    live.show(CHAIN, status())
    live.book._expectations.renew(
        DurationModel([seen(100.0, key=ClassKey("name/wf", "short", ".a"), run=f"r{n}") for n in range(5)])
    )
    a = live.tell(task_pod(".a"))
    a = live.tell(running(a))
    a = live.tell(running(a, started_s=T0))
    # What is learnt after it was placed no longer counts.
    live.book._expectations.renew(DurationModel(()))
    live.tell(ended(a, finished_s=T0 + 80.0))
    failed = live.tell(running(live.tell(task_pod(".c")), started_s=T0))
    live.tell(ended(failed, "Failed", exit_code=1, reason="Error", finished_s=T0 + 1.0))
    (run,) = live.book.accuracy()
    assert (run.workflow, run.tasks, run.from_own_runs) == ("jobs/wf", 1, 1)
    assert run.median_error == pytest.approx(0.25)
    assert live.book.status["accuracy"] == [
        {"workflow": "jobs/wf", "tasks": 1, "from_own_runs": 1, "median_error": 0.25}
    ]


def test_a_pod_that_is_placed_before_its_workflow_is_read_is_foretold_when_it_is() -> None:
    live = Live()
    live.book._expectations.renew(
        DurationModel([seen(100.0, key=ClassKey("name/wf", "short", ".a"), run=f"r{n}") for n in range(5)])
    )
    a = live.tell(running(live.tell(task_pod(".a", template="other"))))
    live.show(CHAIN, status())
    live.tell(ended(live.tell(running(a, started_s=T0)), finished_s=T0 + 100.0))
    (run,) = live.book.accuracy()
    assert run.from_own_runs == 1
    assert run.median_error == pytest.approx(0.0)


def test_ends_that_wait_to_be_written_are_learnt_later(store: HistoryStore) -> None:
    live = Live(store)
    live.tell(ended(running(live.tell(pod("one")), started_s=T0), finished_s=T0 + 9.0))
    live.history.queued = 1
    live.learn()
    assert live.book._recorder.has_new_ends
    live.history.queued = 0
    live.learn()
    assert not live.book._recorder.has_new_ends


@pytest.mark.slow  # it starts an interpreter
def test_a_long_history_is_learnt_in_a_process_of_its_own(store: HistoryStore, tmp_path: Path) -> None:
    ran(store, "long", ".b", 300.0)
    url = f"sqlite:///{tmp_path / 'history.db'}"
    model = asyncio.run(fit_model(store, url, T0, (), few=0))
    key = ClassKey("name/wf", "long", ".b")
    here = asyncio.run(fit_model(store, "", T0, ()))
    assert model.expected(key) == here.expected(key)
    assert model.expected(key).expected_s == pytest.approx(300.0)
