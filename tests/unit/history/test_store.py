"""What goes into the history comes out again, once, in whatever order; on SQLite and a real PostgreSQL."""

from dataclasses import replace
from typing import cast

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from stowplan.errors import InvalidInput
from stowplan.observe.history import (
    ClassKey,
    DurationModel,
    Execution,
    ExecutionStatus,
    HistoryRefused,
    HistoryStore,
    Observation,
    Record,
    Retention,
)
from stowplan.observe.history.engine import Database
from stowplan.observe.history.tables import METADATA, VERSION_TABLE
from tests.history_cases import ALIGN, SHAPE, SORT, decision, execution, seen, snapshot, workflow


def test_all_facts_come_back(store: HistoryStore) -> None:
    assert store.write([snapshot(), decision(snapshot="5e1f"), execution(), workflow()], 200.0) == 4
    assert store.execution("pod-1") == execution()
    assert store.decision("d-1") == decision(snapshot="5e1f")
    assert store.snapshot("5e1f") == snapshot()
    assert store.workflow("lab", "variant-calling-x7") == workflow()
    assert store.counts() == {"decisions": 1, "executions": 1, "snapshots": 1, "workflows": 1}


def test_what_is_not_kept_is_none(store: HistoryStore) -> None:
    assert store.execution("pod-1") is None
    assert store.decision("d-1") is None
    assert store.snapshot("5e1f") is None
    assert store.workflow("lab", "x") is None
    assert store.write([], 0.0) == 0


def test_the_same_again_changes_nothing(store: HistoryStore) -> None:
    records: list[Record] = [decision(), execution(), workflow(), snapshot(), execution()]
    store.write(records, 200.0)
    before = dump(store)
    store.write(records, 999.0)
    assert dump(store) == before


def test_a_life_told_in_pieces_is_one_row(store: HistoryStore) -> None:
    whole = execution()
    unknown = dict.fromkeys(("started_s", "finished_s", "status", "exit_code", "reason"))
    used = dict.fromkeys(("peak_memory_bytes", "cpu_time_s", "read_bytes", "written_bytes"), None)
    created = replace(whole, **unknown, **used, placed_s=None, node=None, node_class=None, neighbours=None)
    bare = Execution(pod_uid="pod-1", key=ALIGN)
    running = replace(whole, finished_s=None, status=None, exit_code=None, reason=None, peak_memory_bytes=1)
    for piece in (bare, created, running, whole, created, bare, running):
        store.write([piece], 200.0)
    assert store.execution("pod-1") == whole


def test_no_neighbours_are_not_unknown_neighbours(store: HistoryStore) -> None:
    store.write([replace(execution(), neighbours=()), replace(execution("pod-2"), neighbours=None)], 0.0)
    alone, unknown = store.execution("pod-1"), store.execution("pod-2")
    assert alone is not None
    assert unknown is not None
    assert (alone.neighbours, unknown.neighbours) == ((), None)


def test_a_phase_only_goes_forward(store: HistoryStore) -> None:
    for phase in ("Pending", "Running", "Pending", "", "Succeeded", "Running", "Failed"):
        store.write([workflow(phase)], 200.0)
    found = store.workflow("lab", "variant-calling-x7")
    assert found is not None
    assert found.phase == "Succeeded"


def test_all_of_a_batch_or_nothing(store: HistoryStore) -> None:
    bad = replace(workflow(workflow_uid="wf-2"), origin=cast("str", None))
    with pytest.raises(HistoryRefused, match="does not take it"):
        store.write([execution(), decision("d-1"), workflow(), bad], 200.0)
    assert set(store.counts().values()) == {0}


def test_decisions_of_a_pod_are_newest_first(store: HistoryStore) -> None:
    store.write([decision(f"d-{i}", decided_s=100.0 + i) for i in range(5)], 200.0)
    found = store.decisions_of_pod("lab", "variant-calling-pod-1", most=3)
    assert [each.decision_id for each in found] == ["d-4", "d-3", "d-2"]
    assert store.decisions_of_pod("other", "variant-calling-pod-1") == []


def test_the_newest_run_of_a_workflows_name_is_found(store: HistoryStore) -> None:
    store.write([workflow(workflow_uid="old")], 100.0)
    store.write([workflow(workflow_uid="new")], 200.0)
    found = store.workflow("lab", "variant-calling-x7")
    assert found is not None
    assert found.workflow_uid == "new"


def test_attempts_of_a_workflow(store: HistoryStore) -> None:
    store.write(
        [execution("b"), replace(execution("a"), ready_s=101.0), execution("c", workflow_uid="x")], 0.0
    )
    assert [each.pod_uid for each in store.executions_of_workflow("wf-1")] == ["b", "a"]


def test_what_counts_as_a_duration(store: HistoryStore) -> None:
    def ended(uid: str, status: ExecutionStatus) -> Execution:
        return execution(uid, status=status, started_s=100.0, finished_s=130.0)

    store.write(
        [
            ended("done", ExecutionStatus.DONE),
            ended("evicted", ExecutionStatus.EVICTED),
            ended("lost", ExecutionStatus.NODE_LOST),
            ended("failed", ExecutionStatus.FAILED),
            ended("oom", ExecutionStatus.OOM_KILLED),
            execution("runs", started_s=150.0, finished_s=None, status=None),
            execution("gone unseen", started_s=150.0, finished_s=None, status=None),
            execution("pending", started_s=None, finished_s=None, status=None),
            execution("never started", started_s=None, finished_s=130.0, status=ExecutionStatus.DONE),
        ],
        0.0,
    )
    found = store.observations(200.0, running=["runs", "pending", "unheard of"])
    told = sorted((each.elapsed_s, each.is_complete, each.seen_s) for each in found)
    assert told == [(30.0, False, 130.0), (30.0, False, 130.0), (30.0, True, 130.0), (50.0, False, 200.0)]
    assert all((each.key, each.shape, each.item, each.run) == (ALIGN, SHAPE, "3", "wf-1") for each in found)
    assert all(each.node_class == "c5.xlarge" for each in found)


def test_clocks_that_were_set_give_no_negative_duration(store: HistoryStore) -> None:
    store.write([execution(started_s=100.0, finished_s=99.0)], 0.0)
    assert [each.elapsed_s for each in store.observations(200.0)] == [0.0]


def test_of_each_class_the_newest_runs_are_learned_from(store: HistoryStore) -> None:
    store.write(
        [
            execution(f"{key.template}-{i}", key=key, started_s=100.0 * i, finished_s=100.0 * i + 10.0 + i)
            for key, count in ((ALIGN, 30), (SORT, 3))
            for i in range(count)
        ],
        0.0,
    )
    found = store.observations(1e6, per_class=5)
    assert sorted(each.elapsed_s for each in found if each.key == ALIGN) == [35.0, 36.0, 37.0, 38.0, 39.0]
    assert sum(each.key == SORT for each in found) == 3


def test_a_thousand_running_pods_are_asked_for_in_parts(store: HistoryStore) -> None:
    store.write([execution(str(i), finished_s=None, status=None) for i in range(1200)], 0.0)
    assert len(store.observations(200.0, running=[str(i) for i in range(1200)])) == 1200


def test_the_next_run_is_expected_from_the_last(store: HistoryStore) -> None:
    store.write([execution(str(i), started_s=0.0, finished_s=40.0 + i) for i in range(5)], 0.0)
    found = DurationModel(store.observations(100.0)).expected(ALIGN, node_class="c5.xlarge")
    assert (found.expected_s, found.runs, found.knows_node_class) == (pytest.approx(42.0), 5, True)


def test_retention_by_age(store: HistoryStore) -> None:
    store.write(
        [
            execution("old", finished_s=100.0),
            execution("new", finished_s=900.0),
            decision("old", decided_s=100.0, snapshot="old"),
            decision("new", decided_s=900.0, snapshot="new"),
            snapshot("old", taken_s=100.0),
            snapshot("new", taken_s=100.0),
            workflow("Succeeded", workflow_uid="old", finished_s=100.0),
        ],
        900.0,
    )
    store.write([execution("no end", finished_s=None, status=None)], 300.0)
    removed = store.prune(Retention(age_s=500.0), 1000.0)
    assert removed == {"executions": 2, "decisions": 1, "snapshots": 1, "workflows": 1}
    assert store.execution("new") is not None
    assert store.snapshot("new") is not None


def test_retention_by_number_keeps_the_newest(store: HistoryStore) -> None:
    store.write([execution(str(i), finished_s=100.0 + i) for i in range(10)], 200.0)
    store.write([decision(str(i), decided_s=100.0 + i) for i in range(2)], 200.0)
    assert store.prune(Retention(rows=4), 200.0)["executions"] == 6
    assert [i for i in range(10) if store.execution(str(i)) is not None] == [6, 7, 8, 9]
    assert store.counts()["decisions"] == 2


def test_what_a_kept_snapshot_stands_on_stays_too(store: HistoryStore) -> None:
    chain = [
        snapshot(name, taken_s=100.0, parent=parent)
        for name, parent in (("a", None), ("b", "a"), ("c", "b"), ("d", "c"), ("other", None))
    ]
    store.write([*chain, decision("d-1", decided_s=9000.0, snapshot="c")], 9000.0)
    assert [link.sha256 for link in store.snapshot_chain("d")] == ["a", "b", "c", "d"]
    assert store.prune(Retention(age_s=86400.0), 9000.0)["snapshots"] == 2
    assert store.snapshot_chain("c") == chain[:3]
    assert store.snapshot_chain("d") == []
    assert store.snapshot_chain("other") == []


def test_the_newest_decision_of_each_pod(store: HistoryStore) -> None:
    told = (("d-1", "p", 1.0), ("d-2", "p", 2.0), ("d-3", "q", 1.5))
    store.write([replace(decision(one), pod_uid=pod, decided_s=at_s) for one, pod, at_s in told], 9.0)
    latest = store.latest_decisions({"p", "q", "r"})
    assert {uid: found.decision_id for uid, found in latest.items()} == {"p": "d-2", "q": "d-3"}


def test_a_snapshot_that_a_decision_may_yet_name_stays(store: HistoryStore) -> None:
    store.write([snapshot(taken_s=1000.0)], 1000.0)
    store.prune(Retention(), 1001.0)
    assert store.snapshot("5e1f") is not None


@pytest.mark.parametrize(("age_s", "rows"), [(0.0, 5), (-1.0, 5), (5.0, 0), (float("nan"), 5)])
def test_retention_of_nothing_is_refused(age_s: float, rows: int) -> None:
    with pytest.raises(InvalidInput, match="both must be positive"):
        Retention(age_s=age_s, rows=rows)


def test_opened_again_all_is_there(url: str) -> None:
    for _ in range(2):
        opened = HistoryStore.open(url)
        opened.write([execution()], 0.0)
        opened.close()
    opened = HistoryStore.open(url)
    assert opened.counts()["executions"] == 1
    opened.close()


def test_migrations_make_the_tables_that_the_code_knows(url: str) -> None:
    HistoryStore.open(url).close()
    database = Database(url, lock_wait_s=1.0)
    with database.reading() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        assert compare_metadata(context, METADATA) == []
    database.close()


def test_nonsense_is_refused_before_it_is_in_a_batch() -> None:
    with pytest.raises(InvalidInput, match="name that it is stored under"):
        Execution(pod_uid="", key=ALIGN)
    with pytest.raises(InvalidInput, match=r"'p'.*cpu_time_s is inf"):
        Execution(pod_uid="p", key=ALIGN, cpu_time_s=float("inf"))
    with pytest.raises(InvalidInput, match="63 bits"):
        Execution(pod_uid="p", key=ALIGN, read_bytes=2**63)
    with pytest.raises(InvalidInput, match=r"command.*without NUL"):
        Execution(pod_uid="p", key=ALIGN, shape=replace(SHAPE, command="a\0b"))
    with pytest.raises(InvalidInput, match="Unicode"):
        Execution(pod_uid="\ud800", key=ALIGN)
    with pytest.raises(InvalidInput, match="explanation cannot be written as JSON"):
        replace(decision(), explanation={"what": object()})
    with pytest.raises(InvalidInput, match="explanation cannot be written as JSON"):
        replace(decision(), explanation={"score": float("nan")})


def test_names_may_hold_any_character(store: HistoryStore) -> None:
    key = ClassKey("Größe", "'; DROP TABLE executions; --", "/a/\N{SNOWMAN}")
    store.write([replace(execution(), key=key)], 0.0)
    found = store.execution("pod-1")
    assert found is not None
    assert found.key == key
    assert store.observations(1e3)[0].key == key


def dump(store: HistoryStore) -> list[object]:
    with store._database.reading() as connection:
        return [connection.execute(sa.select(table)).all() for table in METADATA.sorted_tables]


def test_an_observation_is_what_the_model_takes(store: HistoryStore) -> None:
    store.write([execution(started_s=100.0, finished_s=142.0)], 0.0)
    (found,) = store.observations(200.0)
    expected = seen(42.0, run="wf-1", seen_s=142.0, item="3", node_class="c5.xlarge", shape=SHAPE)
    assert isinstance(found, Observation)
    assert found == expected
