"""The history: what ran where, when, beside what and for how long, and what the next run can expect of it.

`HistoryStore` keeps it (SQLite by default, PostgreSQL by URL), `HistoryWriter` writes it beside the
scheduler, `DurationModel` foretells durations from it. `docs/HISTORY.md` is the guide.
"""

from stowplan.core.domain import ClassKey, WorkShape
from stowplan.observe.history.accuracy import RunAccuracy, accuracy_of, accuracy_of_runs
from stowplan.observe.history.durations import DurationModel
from stowplan.observe.history.errors import (
    HistoryDamaged,
    HistoryError,
    HistoryForeign,
    HistoryFull,
    HistoryLocked,
    HistoryReadOnly,
    HistoryRefused,
    HistoryTooNew,
    HistoryUnreachable,
    MissingDriver,
)
from stowplan.observe.history.expected import ExpectedDuration, Source
from stowplan.observe.history.observations import Observation
from stowplan.observe.history.records import (
    Decision,
    DecisionMode,
    Execution,
    ExecutionStatus,
    Neighbour,
    Record,
    Snapshot,
    WorkflowRun,
)
from stowplan.observe.history.store import HistoryStore, Retention
from stowplan.observe.history.writer import HistoryState, HistoryWriter, QueueLimits

__all__ = [
    "ClassKey",
    "Decision",
    "DecisionMode",
    "DurationModel",
    "Execution",
    "ExecutionStatus",
    "ExpectedDuration",
    "HistoryDamaged",
    "HistoryError",
    "HistoryForeign",
    "HistoryFull",
    "HistoryLocked",
    "HistoryReadOnly",
    "HistoryRefused",
    "HistoryState",
    "HistoryStore",
    "HistoryTooNew",
    "HistoryUnreachable",
    "HistoryWriter",
    "MissingDriver",
    "Neighbour",
    "Observation",
    "QueueLimits",
    "Record",
    "Retention",
    "RunAccuracy",
    "Snapshot",
    "Source",
    "WorkShape",
    "WorkflowRun",
    "accuracy_of",
    "accuracy_of_runs",
]
