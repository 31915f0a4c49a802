"""Writes the history beside the scheduler: records go into a bounded queue, a thread takes them in batches.

`put` never waits and never fails: a slow disk makes the queue longer, a full queue makes records drop, and
both are told by `state`, which metrics, log and dashboard show. What is in a batch is written in one
transaction. A batch that fails for a reason that may pass (locked, full, unreachable) stays and is tried
again with growing pauses; one that the database refuses is tried record by record, and only the bad ones
drop.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from stowplan.observe.history.errors import HistoryError
from stowplan.observe.history.records import Record, Snapshot
from stowplan.observe.history.store import HistoryStore, Retention

__all__ = ["HistoryState", "HistoryWriter", "QueueLimits"]

_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 30.0
_PRUNE_EVERY_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """How much waits in memory at most, and how much goes into one transaction.

    `gather_s` is how long a record may wait for others to share a transaction with.
    """

    records: int = 20_000
    snapshot_bytes: int = 64 * 2**20
    batch: int = 500
    gather_s: float = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryState:
    """How the history is doing.

    Attributes:
        queued: records that wait.
        written: records written since the start.
        dropped: records lost since the start, by reason: "overflow", "refused", "closed".
        error: what the last attempt to write failed with; empty: it went well.
        failing_since_s: since when it has failed, by the clock of the writer; None: it does not.
        pruned: rows removed by age and number since the start.
    """

    queued: int
    written: int
    dropped: Mapping[str, int]
    error: str
    failing_since_s: float | None
    pruned: int

    @property
    def is_degraded(self) -> bool:
        """Whether records are not getting through now."""
        return self.failing_since_s is not None


class HistoryWriter:
    """Writes to one store from a thread of its own; `start` it, `stop` it."""

    def __init__(
        self,
        store: HistoryStore,
        clock: Callable[[], float],
        *,
        limits: QueueLimits | None = None,
        retention: Retention | None = None,
    ) -> None:
        """Prepare to write to `store`.

        Args:
            store: where to.
            clock: gives seconds since the epoch.
            limits: of the queue.
            retention: what is kept; looked after once an hour.
        """
        self._store = store
        self._clock = clock
        self._limits = limits or QueueLimits()
        self._retention = retention or Retention()
        self._changed = threading.Condition()
        self._queue: deque[Record] = deque()
        self._queued_bytes = 0
        self._in_hand = 0
        self._is_stopping = False
        self._deadline_over = False
        self._written = 0
        self._pruned = 0
        self._dropped: dict[str, int] = {}
        self._error = ""
        self._failing_since_s: float | None = None
        self._pruned_at_s = -_PRUNE_EVERY_S
        self._thread = threading.Thread(target=self._run, name="history-writer", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def put(self, record: Record) -> bool:
        """Queue a record; return whether there was room. Takes microseconds, whatever the disk does."""
        size = _size(record)
        with self._changed:
            waiting = len(self._queue) + self._in_hand
            if self._is_stopping:
                self._drop("closed", 1)
                return False
            if waiting >= self._limits.records or self._queued_bytes + size > self._limits.snapshot_bytes:
                self._drop("overflow", 1)
                return False
            self._queue.append(record)
            self._queued_bytes += size
            self._changed.notify_all()
            return True

    @property
    def state(self) -> HistoryState:
        """How it is going."""
        with self._changed:
            return HistoryState(
                queued=len(self._queue) + self._in_hand,
                written=self._written,
                dropped=dict(self._dropped),
                error=self._error,
                failing_since_s=self._failing_since_s,
                pruned=self._pruned,
            )

    def flush(self, timeout_s: float) -> bool:
        """Wait until all that was put is written or dropped; return whether that was so in time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._queue and not self._in_hand, timeout_s)

    def stop(self, timeout_s: float) -> HistoryState:
        """Write what waits, for at most `timeout_s`, and end the thread; return the last state.

        What could not be written by then counts as dropped ("closed"). The store stays open.
        """
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
        self.flush(timeout_s)
        with self._changed:
            self._deadline_over = True
            self._changed.notify_all()
        if self._thread.ident is not None:  # it was started
            self._thread.join(timeout_s)
        with self._changed:
            self._drop("closed", len(self._queue) + self._in_hand)
            self._queue.clear()
            self._in_hand = 0
        return self.state

    def _drop(self, reason: str, count: int) -> None:
        if count:
            self._dropped[reason] = self._dropped.get(reason, 0) + count

    def _run(self) -> None:
        try:
            self._write_until_stopped()
        except Exception as error:
            # Nobody waits for this thread: without this, records would pile up unseen.
            self._failed(f"the writer has ended: {error!r}")
            with self._changed:
                self._is_stopping = True
            raise

    def _write_until_stopped(self) -> None:
        pause_s = _FIRST_PAUSE_S
        batch: list[Record] = []
        while True:
            batch = batch or self._take()
            if not batch and self._is_stopping:
                return
            try:
                self._write(batch)
                batch = []
                self._prune()
            except HistoryError as error:
                self._failed(str(error))
                if self._sleep(pause_s):
                    return
                pause_s = min(2.0 * pause_s, _LONGEST_PAUSE_S)
            else:
                pause_s = _FIRST_PAUSE_S

    def _take(self) -> list[Record]:
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._is_stopping, _PRUNE_EVERY_S)
            if len(self._queue) < self._limits.batch and not self._is_stopping:
                self._changed.wait_for(
                    lambda: len(self._queue) >= self._limits.batch or self._is_stopping, self._limits.gather_s
                )
            count = min(self._limits.batch, len(self._queue))
            batch = [self._queue.popleft() for _ in range(count)]
            self._in_hand = count
            return batch

    def _write(self, batch: list[Record]) -> None:
        refused = 0
        try:
            self._store.write(batch, self._clock())
        except HistoryError as error:
            if error.passes:
                raise
            refused = self._write_singly(batch)
        with self._changed:
            self._written += len(batch) - refused
            self._queued_bytes -= sum(map(_size, batch))
            self._in_hand = 0
            self._drop("refused", refused)
            if batch and not refused:
                self._error, self._failing_since_s = "", None
            self._changed.notify_all()

    def _write_singly(self, batch: list[Record]) -> int:
        refused = 0
        for record in batch:
            try:
                self._store.write([record], self._clock())
            except HistoryError as error:
                if error.passes:
                    raise
                refused += 1
                self._failed(str(error))
        return refused

    def _failed(self, error: str) -> None:
        with self._changed:
            self._error = error
            if self._failing_since_s is None:
                self._failing_since_s = self._clock()

    def _sleep(self, pause_s: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._deadline_over, pause_s)

    def _prune(self) -> None:
        now_s = self._clock()
        if now_s - self._pruned_at_s < _PRUNE_EVERY_S:
            return
        removed = self._store.prune(self._retention, now_s)
        with self._changed:
            self._pruned_at_s = now_s
            self._pruned += sum(removed.values())


def _size(record: Record) -> int:
    return len(record.content) if isinstance(record, Snapshot) else 0
