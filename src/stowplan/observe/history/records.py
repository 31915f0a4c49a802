"""What the history keeps: decisions, executions, workflows, and the snapshots that decisions replay from.

Times are seconds since the epoch; columns have the names that the simulator's results use for the same facts.
A record may know only some of its facts: None says "not known yet", never "no longer". The same record may
come any number of times, and its parts in any order.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import cache
from typing import cast

from stowplan.core.domain import ClassKey, WorkShape
from stowplan.errors import InvalidInput

__all__ = [
    "Decision",
    "DecisionMode",
    "Execution",
    "ExecutionStatus",
    "Neighbour",
    "Record",
    "Snapshot",
    "WorkflowRun",
]


class DecisionMode(StrEnum):
    """Whether a decision was carried out."""

    LIVE = "live"
    SHADOW = "shadow"


class ExecutionStatus(StrEnum):
    """How an attempt ended; None as long as it has not."""

    DONE = "done"
    FAILED = "failed"
    """Its own exit code, or what its pod tells, says so."""
    OOM_KILLED = "oom_killed"
    """It passed its own memory limit."""
    EVICTED = "evicted"
    """Taken off its node from outside: memory or disk of the node, preemption, a drain, a deletion."""
    NODE_LOST = "node_lost"
    """Its node fell silent for too long, or is gone."""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """How many pods of a class ran on the same node when the pod started."""

    key: ClassKey
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The state that decisions were made from, as bytes to replay them; `sha256` is their name.

    With a parent, the bytes say only what is new since then.
    """

    sha256: str
    format: str
    content: bytes
    taken_s: float
    parent_sha256: str | None = None

    def __post_init__(self) -> None:
        """Check what text and numbers can be stored."""
        _check(self, self.sha256)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One placement that was decided.

    Attributes:
        decision_id: unique over all time.
        decided_s: when.
        snapshot_sha256: names the state it was made from, None where none was kept.
        policy, policy_version: who decided.
        mode: whether it was carried out.
        pod_uid, namespace, pod: what was placed.
        node: where; None: it waits, or nothing could take it.
        candidates: nodes that could take it.
        refused: nodes per filter that could not.
        expected_s, expected_low_s, expected_high_s: the duration foretold on `node`, with its 80 % interval.
        expected_source: whose runs that came from.
        runner_up, margin: the second best node, and by how much it was behind in score.
        explanation: the whole of it, as plain values that JSON knows.
    """

    decision_id: str
    decided_s: float
    policy: str
    policy_version: str
    mode: DecisionMode
    pod_uid: str
    namespace: str
    pod: str
    snapshot_sha256: str | None = None
    node: str | None = None
    candidates: int = 0
    refused: Mapping[str, int] = field(default_factory=dict[str, int])
    expected_s: float | None = None
    expected_low_s: float | None = None
    expected_high_s: float | None = None
    expected_source: str | None = None
    runner_up: str | None = None
    margin: float | None = None
    explanation: Mapping[str, object] = field(default_factory=dict[str, object])

    def __post_init__(self) -> None:
        """Check what text and numbers can be stored."""
        _check(self, self.decision_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """One attempt of one task: the life of one pod.

    Attributes:
        pod_uid: names the attempt.
        key: class of the task.
        workflow_uid, item, attempt: whose, which item of a fan-out, and how many attempts came before.
        node, node_class: where it ran, and what kind of machine that is.
        shape: image, command and requests of the main container.
        ready_s: the pod was there to be placed.
        placed_s: it had a node.
        started_s, finished_s: its main container ran; not the pod's own times, which hold image pulls and
            sidecars.
        status, exit_code, reason: how it ended, in our words, by its exit code and in Kubernetes' words.
        peak_memory_bytes, cpu_time_s, read_bytes, written_bytes: what it used, where known.
        neighbours: what ran beside it when it started; None: not known, empty: nothing.
        expected_s, expected_source: the duration foretold when it was placed, and whose runs that came from.
    """

    pod_uid: str
    key: ClassKey
    namespace: str = ""
    pod: str = ""
    workflow_uid: str | None = None
    item: str = ""
    attempt: int = 0
    node: str | None = None
    node_class: str | None = None
    shape: WorkShape | None = None
    ready_s: float | None = None
    placed_s: float | None = None
    started_s: float | None = None
    finished_s: float | None = None
    status: ExecutionStatus | None = None
    exit_code: int | None = None
    reason: str | None = None
    peak_memory_bytes: int | None = None
    cpu_time_s: float | None = None
    read_bytes: int | None = None
    written_bytes: int | None = None
    neighbours: tuple[Neighbour, ...] | None = None
    expected_s: float | None = None
    expected_source: str | None = None

    def __post_init__(self) -> None:
        """Check what text and numbers can be stored."""
        _check(self, self.pod_uid)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkflowRun:
    """One run of a workflow; `phase` in Argo's words (Pending, Running, Succeeded, Failed, Error)."""

    workflow_uid: str
    namespace: str
    workflow: str
    origin: str = ""
    phase: str = ""
    submitted_s: float | None = None
    started_s: float | None = None
    finished_s: float | None = None

    def __post_init__(self) -> None:
        """Check what text and numbers can be stored."""
        _check(self, self.workflow_uid)


Record = Decision | Execution | WorkflowRun | Snapshot

_MOST: int = 2**63 - 1


def _check(record: Record, name: str) -> None:
    """Refuse what one database takes and another does not, before it is in a batch with good records."""
    kind = type(record).__name__
    if not name:
        raise InvalidInput(f"{kind}: the name that it is stored under is empty; give the object's uid")
    parts: list[Record | WorkShape] = [record]
    if isinstance(record, Execution) and record.shape is not None:
        parts.append(record.shape)
    for item, value in [(item, getattr(part, item)) for part in parts for item in _names(type(part))]:
        if isinstance(value, float) and not math.isfinite(value):
            raise InvalidInput(f"{kind} {name!r}: {item} is {value}; it must be finite, or None")
        if isinstance(value, int) and not -_MOST <= value <= _MOST:
            raise InvalidInput(f"{kind} {name!r}: {item} is {value}; it must fit in 63 bits")
        if isinstance(value, Mapping):
            _check_json(kind, name, item, cast("Mapping[str, object]", value))
        if isinstance(value, str) and not _is_storable(value):
            raise InvalidInput(f"{kind} {name!r}: {item} is {value!r}; it must be Unicode text without NUL")


@cache
def _names(kind: type[Record | WorkShape]) -> tuple[str, ...]:
    return tuple(item.name for item in fields(kind))


def _check_json(kind: str, name: str, item: str, value: Mapping[str, object]) -> None:
    try:
        json.dumps(dict(value), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"{kind} {name!r}: {item} cannot be written as JSON: {error}") from None


def _is_storable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text
