"""Keeps every decision, explained, and nearly always a record to replay it from.

In the scheduler's thread a cycle is only held fast (`Bookkeeping`); a thread writes it as a frame on top of
the one before, presses it, gives it the name of its content, and hands record and decisions to the history,
in this order. Now and then a frame holds the whole cluster, and a new chain begins.

What waits is bounded. Where records come faster than they are written, or the history has no room, the record
of a cycle is left out, never its decisions; they say so themselves, and so do `state` and the log.
"""

from __future__ import annotations

import hashlib
import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final, Protocol
from uuid import uuid4

import structlog

from stowplan.core.decoder import Infeasible, Wait
from stowplan.core.domain import PendingTask, RunningTask
from stowplan.core.engine import CycleReport, Engine
from stowplan.core.lookahead import LookAhead
from stowplan.core.record import FORMAT, CycleCapture, FrameWriter, Setup, decided_to_plain
from stowplan.core.semantics import NodeReadings
from stowplan.errors import StowplanError
from stowplan.kube.live.pod import LivePod
from stowplan.observe.history import DecisionMode, Record, Snapshot
from stowplan.serve.record.bookkeeping import Bookkeeping
from stowplan.serve.record.rows import Expect, Told, decision_rows, refusal_of

__all__ = ["SNAPSHOT_FORMAT", "DecisionRecorder", "RecordLimits", "RecorderState"]

SNAPSHOT_FORMAT: Final = f"stowplan-cycle/{FORMAT}+zlib"
_LEVEL: Final = 6
_KNOWN_REFUSALS: Final = 100_000
_LOG = structlog.get_logger(__name__)


class Keeps(Protocol):
    """Where records go; `HistoryWriter` is one."""

    def put(self, record: Record) -> bool:
        """Take a record; return whether there was room. Never waits."""
        ...


@dataclass(frozen=True, slots=True)
class RecordLimits:
    """How much waits to be written, and how long chains get.

    Attributes:
        waiting: cycles that wait at most; further ones are kept without a record.
        chain: cycles after which the whole cluster is written again.
        growth: so are chains that have grown to this many times what their first record takes.
        pause_s: after a record that the history did not take, none is tried for so long.
    """

    waiting: int = 64
    chain: int = 256
    growth: float = 16.0
    pause_s: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderState:
    """How the recorder is doing.

    Attributes:
        decisions: decisions that were handed to the history.
        records: cycles that can be replayed.
        record_bytes: what they take.
        without_record: cycles that cannot, by why: "queue", "history", "policy", "error".
        waiting: cycles that are being written.
        is_degraded: whether the last cycle is without a record, for another reason than the policy.
    """

    decisions: int
    records: int
    record_bytes: int
    without_record: Mapping[str, int]
    waiting: int
    is_degraded: bool


@dataclass(frozen=True, slots=True)
class _Job:
    capture: CycleCapture | None
    no_record: str
    pending: Sequence[PendingTask]
    report: CycleReport
    told: Sequence[Told]
    decided_s: float
    examined: Mapping[str, Any] | None


class DecisionRecorder:
    """A `DecisionSink`; `start` it, `stop` it. The history is its owner's to open and close."""

    def __init__(  # noqa: PLR0913  (each is one aspect of its surroundings)
        self,
        *,
        engine: Engine,
        setup: Setup,
        writer: Keeps,
        mode: DecisionMode,
        wall: Callable[[], float],
        expect: Expect | None = None,
        limits: RecordLimits | None = None,
    ) -> None:
        """Prepare to record what `engine` decides.

        Args:
            engine: whose cycles are recorded.
            setup: how to make its policies again.
            writer: where decisions and records go.
            mode: whether decisions are carried out.
            wall: gives seconds since the epoch.
            expect: what the history expects of a pod on a node; None: only the policy's own expectation.
            limits: of what waits, and of chains.

        Raises:
            InvalidInput: the engine's generator cannot be written down.
        """
        self._engine = engine
        self._books = Bookkeeping(engine.state, engine.rng, engine.policy)
        self._setup = setup
        self._writer = writer
        self._mode = mode
        self._wall = wall
        self._expect = expect
        self._limits = limits or RecordLimits()
        self._refusals: dict[str, tuple[object, ...]] = {}
        self._links = 0  # cycles since the last whole cluster
        self._resumes_s = 0.0
        self._changed = threading.Condition()
        self._jobs: deque[_Job] = deque()
        self._captures_waiting = 0
        self._is_stopping = False
        self._broken = ""  # said by the thread: why no record can stand on the last one
        self._decisions = self._records = self._record_bytes = 0
        self._without: dict[str, int] = {}
        self._last_without = ""
        self._thread = threading.Thread(target=self._run, name="decision-recorder", daemon=True)
        self._frames = FrameWriter(setup)
        self._parent: str | None = None
        self._chain_bytes = self._first_bytes = 0
        self._ids = _names(uuid4().hex[:12])

    # ---- in the scheduler's thread ----

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def begin(
        self,
        now_s: float,
        pending: Sequence[PendingTask],
        running: Mapping[str, RunningTask],
        readings: NodeReadings | None = None,
    ) -> CycleCapture | str:
        """Hold fast what a cycle is about to decide on; text: why that is not done."""
        with self._changed:
            broken, self._broken = self._broken, ""
        if broken or self._links >= self._limits.chain:
            self._links = 0
            self._books.start_over()
            if broken == "error":
                self._books.look_everywhere()
            if broken == "history":
                self._resumes_s = now_s + self._limits.pause_s
        if now_s < self._resumes_s:
            return "history"
        return self._books.capture(now_s, pending, running, readings) or "policy"

    def end(self, begun: object, report: CycleReport, pods: Mapping[str, LivePod]) -> None:
        """Hand over what came of it, if there is anything new to tell."""
        told = self._told(report, pods)
        if not told:
            return
        capture = begun if isinstance(begun, CycleCapture) else None
        pending = capture.pending if capture is not None else ()
        policy = self._engine.policy
        examined = policy.examined.as_plain() if isinstance(policy, LookAhead) else None
        with self._changed:
            no_record = begun if isinstance(begun, str) else ""
            if capture is not None and self._captures_waiting >= self._limits.waiting:
                capture, no_record = None, "queue"
            job = _Job(capture, no_record, pending, report, told, self._wall(), examined)
            self._jobs.append(job)
            if capture is not None:
                self._captures_waiting += 1
                self._links += 1
                self._books.kept(capture)
            self._changed.notify()

    def _told(self, report: CycleReport, pods: Mapping[str, LivePod]) -> list[Told]:
        told: list[Told] = []
        refusals = self._refusals
        for task, placed in report.placed:
            pod = pods[task.key]
            refusals.pop(pod.uid, None)
            told.append(Told(task, placed, pod))
        why: dict[int, tuple[object, ...]] = {}  # pods of one shape share their outcome
        refused: list[tuple[PendingTask, Wait | Infeasible]] = [*report.waiting, *report.infeasible]
        for task, outcome in refused:
            refusal = why.get(id(outcome))
            if refusal is None:
                refusal = why[id(outcome)] = refusal_of(outcome)
            pod = pods[task.key]
            if refusals.get(pod.uid) != refusal:
                refusals[pod.uid] = refusal
                told.append(Told(task, outcome, pod))
        if len(refusals) > _KNOWN_REFUSALS:  # of pods that are long gone, mostly
            refusals.clear()
        return told

    @property
    def state(self) -> RecorderState:
        """How it is going."""
        with self._changed:
            return RecorderState(
                decisions=self._decisions,
                records=self._records,
                record_bytes=self._record_bytes,
                without_record=dict(self._without),
                waiting=len(self._jobs),
                is_degraded=self._last_without not in ("", "policy"),
            )

    def flush(self, timeout_s: float) -> bool:
        """Wait until all that was told is with the history's writer; return whether that was so in time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._jobs, timeout_s)

    def stop(self, timeout_s: float) -> RecorderState:
        """Write what waits, for at most `timeout_s`, and end; return the last state."""
        self._books.close()
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
        if self._thread.ident is not None:  # it was started
            self._thread.join(timeout_s)
        return self.state

    # ---- in the recorder's thread ----

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._jobs or self._is_stopping)
                if not self._jobs:
                    return
                job = self._jobs[0]
            self._write(job)
            with self._changed:
                self._jobs.popleft()
                self._captures_waiting -= job.capture is not None
                self._changed.notify_all()

    def _write(self, job: _Job) -> None:
        name, no_record = None, job.no_record
        if job.capture is not None:
            name, no_record = self._record(job, job.capture)
        rows = decision_rows(
            job.told,
            job.report,
            ids=self._ids,
            mode=self._mode,
            decided_s=job.decided_s,
            policy=self._setup.policy,
            snapshot=name,
            no_record=no_record,
            examined=job.examined,
            expect=self._expect,
        )
        for row in rows:
            self._writer.put(row)
        with self._changed:
            self._decisions += len(rows)
            if no_record:
                self._without[no_record] = self._without.get(no_record, 0) + 1
        if no_record != self._last_without:
            if no_record:
                _LOG.warning("decisions are kept without a record to replay", why=no_record)
            else:
                _LOG.info("decisions are kept with a record to replay")
            self._last_without = no_record

    def _record(self, job: _Job, capture: CycleCapture) -> tuple[str | None, str]:
        """Write the record; return its name, or why there is none."""
        is_first = capture.state is not None
        if is_first:
            self._parent = None
        elif self._parent is None:  # what it would stand on was not kept
            return None, "history"
        examined = None if job.examined is None else int(job.examined["plans"])
        try:
            decided = decided_to_plain(job.report, capture.pending, examined)
            frame = self._frames.write(capture, decided, self._parent)
        except StowplanError as error:
            _LOG.exception("a cycle cannot be recorded", error=str(error))
            return None, self._break("error")
        content = zlib.compress(frame, _LEVEL)
        name = hashlib.sha256(content).hexdigest()
        record = Snapshot(
            sha256=name,
            format=SNAPSHOT_FORMAT,
            content=content,
            taken_s=job.decided_s,
            parent_sha256=self._parent,
        )
        if not self._writer.put(record):
            return None, self._break("history")
        self._parent = name
        self._first_bytes = len(content) if is_first else self._first_bytes
        self._chain_bytes = len(content) if is_first else self._chain_bytes + len(content)
        with self._changed:
            if self._chain_bytes > self._limits.growth * self._first_bytes:
                self._broken = "growth"
            self._records += 1
            self._record_bytes += len(content)
        return name, ""

    def _break(self, why: str) -> str:
        self._parent = None
        with self._changed:
            self._broken = why
        return why


def _names(run: str) -> Iterator[str]:
    for number in count(1):
        yield f"{run}-{number:x}"
