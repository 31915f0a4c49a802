"""The writer never holds up who puts, loses nothing unseen, and says how it is doing."""

import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from stowplan.observe.history import (
    HistoryFull,
    HistoryRefused,
    HistoryState,
    HistoryStore,
    HistoryWriter,
    QueueLimits,
    Record,
    Retention,
)
from stowplan.observe.history import writer as module
from tests.history_cases import execution, snapshot

SOON_S = 20.0


class StandIn(HistoryStore):
    """A store that keeps records in a list, and fails or waits when it is told to."""

    def __init__(self) -> None:
        self.kept: list[Record] = []
        self.batches: list[int] = []
        self.error: Exception | None = None
        self.bad: set[str] = set()
        self.gate = threading.Event()
        self.gate.set()
        self.pruned_at_s: list[float] = []

    def write(self, records: Iterable[Record], now_s: float) -> int:
        assert self.gate.wait(SOON_S)
        batch = list(records)
        if self.error is not None:
            raise self.error
        if any(getattr(record, "pod_uid", "") in self.bad for record in batch):
            raise HistoryRefused(f"history stand-in does not take it ({now_s})")
        self.kept += batch
        self.batches.append(len(batch))
        return len(batch)

    def prune(self, retention: Retention, now_s: float) -> dict[str, int]:
        self.pruned_at_s.append(now_s)
        return {"executions": retention.rows}


@pytest.fixture
def stand_in() -> StandIn:
    return StandIn()


@pytest.fixture
def start(stand_in: StandIn) -> Iterator[Callable[..., HistoryWriter]]:
    writers: list[HistoryWriter] = []

    def begin(limits: QueueLimits = QueueLimits(gather_s=0.0)) -> HistoryWriter:  # noqa: B008 - never changes
        writer = HistoryWriter(stand_in, lambda: 5000.0, limits=limits, retention=Retention(rows=7))
        writers.append(writer)
        writer.start()
        return writer

    yield begin
    stand_in.gate.set()
    stand_in.error = None
    for writer in writers:
        writer.stop(SOON_S)


def until(writer: HistoryWriter, holds: Callable[[HistoryState], bool]) -> HistoryState:
    give_up_s = time.monotonic() + SOON_S
    while not holds(writer.state):
        assert time.monotonic() < give_up_s, writer.state
        time.sleep(0.001)
    return writer.state


def test_what_is_put_is_written_in_order(stand_in: StandIn, start: Callable[..., HistoryWriter]) -> None:
    writer = start()
    records = [execution(f"pod-{i}") for i in range(50)]
    assert all(writer.put(record) for record in records)
    assert writer.flush(SOON_S)
    assert stand_in.kept == records
    assert writer.state == HistoryState(
        queued=0, written=50, dropped={}, error="", failing_since_s=None, pruned=writer.state.pruned
    )


def test_records_share_transactions(stand_in: StandIn, start: Callable[..., HistoryWriter]) -> None:
    stand_in.gate.clear()
    writer = start(QueueLimits(batch=40, gather_s=0.0))
    for i in range(101):
        writer.put(execution(f"pod-{i}"))
    stand_in.gate.set()
    assert writer.flush(SOON_S)
    written = [size for size in stand_in.batches if size]
    assert sum(written) == 101
    assert max(written) == 40
    assert len(written) <= 4


def test_a_disk_that_stands_still_never_holds_up_who_puts(
    stand_in: StandIn, start: Callable[..., HistoryWriter]
) -> None:
    stand_in.gate.clear()
    writer = start(QueueLimits(records=100, gather_s=0.0))
    began_s = time.perf_counter()
    taken = sum(writer.put(execution(f"pod-{i}")) for i in range(500))
    assert time.perf_counter() - began_s < 2.0
    assert taken == 100
    assert writer.state.dropped == {"overflow": 400}
    assert writer.state.queued == 100
    stand_in.gate.set()
    assert writer.flush(SOON_S)
    assert writer.state.written == 100
    assert writer.put(execution("again there is room"))


def test_snapshots_are_bounded_by_their_bytes(stand_in: StandIn, start: Callable[..., HistoryWriter]) -> None:
    stand_in.gate.clear()
    writer = start(QueueLimits(snapshot_bytes=20, gather_s=0.0))  # two of eight bytes
    assert [writer.put(snapshot(str(i))) for i in range(3)] == [True, True, False]
    assert writer.put(execution())
    stand_in.gate.set()
    assert writer.flush(SOON_S)
    assert writer.put(snapshot("3"))


def test_a_full_disk_is_told_and_waited_for(
    stand_in: StandIn, start: Callable[..., HistoryWriter], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_FIRST_PAUSE_S", 0.005)
    stand_in.error = HistoryFull("history stand-in cannot grow: its disk is full")
    writer = start()
    writer.put(execution())
    state = until(writer, lambda state: state.is_degraded)
    assert (state.error, state.failing_since_s) == ("history stand-in cannot grow: its disk is full", 5000.0)
    assert (state.written, state.queued, state.dropped) == (0, 1, {})
    stand_in.error = None
    assert writer.flush(SOON_S)
    state = writer.state
    assert (state.written, state.error, state.is_degraded) == (1, "", False)


def test_only_what_is_refused_is_dropped(stand_in: StandIn, start: Callable[..., HistoryWriter]) -> None:
    stand_in.gate.clear()
    stand_in.bad = {"pod-3"}
    writer = start()
    for i in range(6):
        writer.put(execution(f"pod-{i}"))
    stand_in.gate.set()
    assert writer.flush(SOON_S)
    state = writer.state
    assert (state.written, state.dropped) == (5, {"refused": 1})
    assert "does not take it" in state.error
    writer.put(execution("good"))
    until(writer, lambda state: not state.is_degraded)


def test_stop_writes_what_waits(start: Callable[..., HistoryWriter]) -> None:
    writer = start(QueueLimits(gather_s=1000.0))
    for i in range(30):
        writer.put(execution(f"pod-{i}"))
    state = writer.stop(SOON_S)
    assert (state.written, state.queued) == (30, 0)
    assert not writer.put(execution("too late"))
    assert writer.state.dropped == {"closed": 1}


def test_stop_gives_up_on_a_disk_that_is_full(stand_in: StandIn, start: Callable[..., HistoryWriter]) -> None:
    stand_in.error = HistoryFull("full")
    writer = start()
    for i in range(3):
        writer.put(execution(f"pod-{i}"))
    until(writer, lambda state: state.is_degraded)
    state = writer.stop(0.05)
    assert state.dropped == {"closed": 3}
    assert state.queued == 0


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_defect_in_the_thread_is_seen(stand_in: StandIn, start: Callable[..., HistoryWriter]) -> None:
    stand_in.error = ZeroDivisionError("a defect")
    writer = start()
    writer.put(execution())
    state = until(writer, lambda state: state.is_degraded)
    assert "the writer has ended: ZeroDivisionError('a defect')" in state.error
    until(writer, lambda _: not writer.put(execution("pod-2")))
    assert writer.state.dropped["closed"] >= 1


def test_retention_is_looked_after(stand_in: StandIn, start: Callable[..., HistoryWriter]) -> None:
    writer = start()
    writer.put(execution())
    until(writer, lambda state: state.pruned == 7)
    writer.put(execution("pod-2"))
    assert writer.flush(SOON_S)
    assert stand_in.pruned_at_s == [5000.0]


def test_a_real_history_that_is_locked_for_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST_PAUSE_S", 0.005)
    store = HistoryStore.open(f"sqlite:///{tmp_path}/history.db", lock_wait_s=0.01)
    other = sqlite3.connect(tmp_path / "history.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    writer = HistoryWriter(store, lambda: 200.0, limits=QueueLimits(gather_s=0.0))
    writer.start()
    writer.put(execution())
    state = until(writer, lambda state: state.is_degraded)
    assert "held by another process" in state.error
    other.execute("ROLLBACK")
    other.close()
    state = writer.stop(SOON_S)
    assert (state.written, state.is_degraded, state.dropped) == (1, False, {})
    assert store.counts()["executions"] == 1
    store.close()
