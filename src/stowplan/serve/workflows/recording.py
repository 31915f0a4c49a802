"""What ran, into the history: a record when a pod has started, one when it has ended, one per workflow phase.

The history joins records of one pod, so whatever is told twice (after a restart, all of it) changes nothing.
A pod's class is a fact that stays as first written; so nothing is written before it is known.

When a scheduler begins, all pods that have ended are told at once, maybe before the history is open. What the
history has no room for waits here, bounded in number.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from typing import Final, Protocol

import structlog

from stowplan.core.domain import ClassKey, ClusterState
from stowplan.errors import InvalidInput
from stowplan.observe.history.records import Execution, ExecutionStatus, Neighbour, Record, WorkflowRun
from stowplan.observe.history.store import HistoryStore
from stowplan.serve.workflows.classes import node_class_of
from stowplan.serve.workflows.entries import PodEntry, WorkflowEntry
from stowplan.serve.workflows.metrics import WorkflowMetrics
from stowplan.serve.workflows.predictions import PredictionLedger

__all__ = ["HistorySink", "Recorder", "neighbours_of"]

_log = structlog.get_logger(__name__)
_ROOM: Final = 15_000  # records that wait in the history's own queue, which others write to as well
_MOST_OWED: Final = 100_000


class HistorySink(Protocol):
    """Where records go; `serve.keeping.KeptHistory` is one."""

    @property
    def store(self) -> HistoryStore | None:
        """For questions; None where there is no history, or not yet."""
        ...

    @property
    def status(self) -> Mapping[str, object]:
        """How it is doing; `queued`: records that are not written yet."""
        ...

    def put(self, record: Record) -> bool:
        """Keep a record; return whether there was room. Takes microseconds."""
        ...


def neighbours_of(entries: Iterable[PodEntry], own: PodEntry) -> tuple[Neighbour, ...]:
    """Return what runs beside a pod, by class."""
    counts: Counter[ClassKey] = Counter(entry.key for entry in entries if entry is not own)
    return tuple(Neighbour(key, count) for key, count in sorted(counts.items()))


class Recorder:
    """Writes records of pods and workflows, and judges what was foretold of them."""

    def __init__(
        self,
        sink: HistorySink | None,
        state: ClusterState,
        metrics: WorkflowMetrics,
        ledger: PredictionLedger,
    ) -> None:
        """Write to `sink` (None: nowhere); `state` tells what kinds of machines nodes are."""
        self._sink = sink
        self._state = state
        self._metrics = metrics
        self._ledger = ledger
        self._owed: deque[Record] = deque()
        self.has_new_ends = False

    def node_class(self, node_name: str) -> str:
        """Return the kind of machine of a node; empty where it is gone."""
        row = self._state.row(node_name) if node_name else -1
        node = self._state.nodes[row] if row >= 0 else None  # it may go away while another thread asks
        return node_class_of(node) if node is not None else ""

    def started(self, entry: PodEntry) -> None:
        """Write that a pod runs, once its class is known."""
        if entry.is_classed and not entry.is_noted:
            entry.is_noted = True
            self._put(self._execution(entry))

    def ended(self, entry: PodEntry, status: ExecutionStatus, ended_s: float) -> None:
        """Write that a pod has ended.

        Args:
            entry: its class is known.
            status: how.
            ended_s: when that was seen, for a container whose end nobody told; seconds since the epoch.
        """
        entry.is_noted = entry.is_closed = True
        main = entry.pod.main
        finished_s = main.finished_s
        if finished_s is None and main.started_s is not None:
            finished_s = max(ended_s, main.started_s)
        self._put(self._execution(entry, status=status, finished_s=finished_s))
        self.has_new_ends = True
        if status is ExecutionStatus.DONE and main.started_s is not None and finished_s is not None:
            self._judge(entry, finished_s - main.started_s)

    def workflow(self, entry: WorkflowEntry) -> None:
        """Write how a workflow stands, if that is news."""
        head = entry.head
        if head is None or entry.noted == (head, entry.origin):
            return
        entry.noted = (head, entry.origin)
        try:
            record = WorkflowRun(
                workflow_uid=head.uid,
                namespace=head.namespace,
                workflow=head.name,
                origin=entry.origin,
                phase=head.phase,
                submitted_s=head.submitted_s,
                started_s=head.started_s,
                finished_s=head.finished_s,
            )
        except InvalidInput as error:
            self._refuse(error)
            return
        self._put(record)

    def _judge(self, entry: PodEntry, real_s: float) -> None:
        if entry.foretold is None or entry.workflow is None or entry.workflow.head is None:
            return
        head = entry.workflow.head
        error = self._ledger.add(head.uid, head.key, entry.workflow.origin, entry.foretold, real_s)
        self._metrics.foretold(entry.foretold, error)

    def _execution(
        self,
        entry: PodEntry,
        *,
        status: ExecutionStatus | None = None,
        finished_s: float | None = None,
    ) -> Execution | None:
        pod, main, foretold = entry.pod, entry.pod.main, entry.foretold
        is_of_workflow = pod.owner is not None and pod.owner.kind == "Workflow"
        try:
            return Execution(
                pod_uid=pod.uid,
                key=entry.key,
                namespace=pod.namespace,
                pod=pod.name,
                workflow_uid=pod.owner.uid if pod.owner is not None and is_of_workflow else None,
                item=entry.item,
                attempt=entry.attempt,
                node=pod.node_name or None,
                node_class=self.node_class(pod.node_name) or None,
                shape=entry.shape,
                ready_s=entry.ready_s,
                placed_s=entry.placed_s,
                started_s=main.started_s,
                finished_s=finished_s,
                status=status,
                exit_code=None if status is None else main.exit_code,
                reason=None if status is None else pod.reason or main.reason or None,
                neighbours=entry.neighbours,
                expected_s=None if foretold is None else foretold.expected_s,
                expected_source=None if foretold is None else foretold.source.value,
            )
        except InvalidInput as error:
            self._refuse(error)
            return None

    def _refuse(self, error: InvalidInput) -> None:
        _log.warning("history record refused", reason=str(error))
        self._metrics.lost()

    def _put(self, record: Record | None) -> None:
        if record is None or self._sink is None:
            return
        if self._owed or not self._has_room() or not self._sink.put(record):
            if len(self._owed) < _MOST_OWED:
                self._owed.append(record)
            else:
                self._metrics.lost()

    def catch_up(self) -> None:
        """Write what the history had no room for, as far as it has now."""
        while self._sink is not None and self._owed and self._has_room() and self._sink.put(self._owed[0]):
            self._owed.popleft()

    @property
    def owed(self) -> int:
        """How many records wait for room in the history."""
        return len(self._owed)

    def _has_room(self) -> bool:
        if self._sink is None or self._sink.store is None:
            return False
        queued = self._sink.status.get("queued", 0)
        return not isinstance(queued, int) or queued < _ROOM
