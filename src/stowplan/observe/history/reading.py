"""Rows of the database as records again."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from stowplan.core.domain import ClassKey, WorkShape
from stowplan.observe.history.observations import Observation
from stowplan.observe.history.records import (
    Decision,
    DecisionMode,
    Execution,
    ExecutionStatus,
    Neighbour,
    Snapshot,
    WorkflowRun,
)

__all__ = ["decision_of", "execution_of", "observation_of", "snapshot_of", "workflow_of"]


def _facts(row: sa.RowMapping) -> dict[str, Any]:
    return {str(name): value for name, value in row.items() if name != "noted_s"}


def decision_of(row: sa.RowMapping) -> Decision:
    """Return a row of `decisions`."""
    facts = _facts(row)
    return Decision(mode=DecisionMode(facts.pop("mode")), **facts)


def snapshot_of(row: sa.RowMapping) -> Snapshot:
    """Return a row of `snapshots`."""
    return Snapshot(**_facts(row))


def workflow_of(row: sa.RowMapping) -> WorkflowRun:
    """Return a row of `workflows`."""
    return WorkflowRun(**_facts(row))


def execution_of(row: sa.RowMapping) -> Execution:
    """Return a row of `executions`."""
    facts = _facts(row)
    key, shape = _pop_key(facts), _pop_shape(facts)
    beside, status = facts.pop("neighbours"), facts.pop("status")
    return Execution(
        key=key,
        shape=shape,
        status=None if status is None else ExecutionStatus(status),
        neighbours=None
        if beside is None
        else tuple(Neighbour(ClassKey(*each[:3]), each[3]) for each in beside),
        **facts,
    )


def observation_of(row: sa.RowMapping, now_s: float) -> Observation:
    """Return a row of `executions` that has begun as an observation at `now_s`."""
    facts = _facts(row)
    seen_s = now_s if facts["finished_s"] is None else facts["finished_s"]
    return Observation(
        key=_pop_key(facts),
        # The two times may come from clocks that were set in between.
        elapsed_s=max(0.0, seen_s - facts["started_s"]),
        run=facts["workflow_uid"] or facts["pod_uid"],
        seen_s=seen_s,
        is_complete=facts["status"] == ExecutionStatus.DONE.value,
        item=facts["item"],
        node_class=facts["node_class"] or "",
        shape=_pop_shape(facts),
    )


def _pop_key(facts: dict[str, Any]) -> ClassKey:
    return ClassKey(facts.pop("class_origin"), facts.pop("class_template"), facts.pop("class_place"))


def _pop_shape(facts: dict[str, Any]) -> WorkShape | None:
    image, command = facts.pop("image"), facts.pop("command")
    cores, memory_bytes = facts.pop("cpu_request_cores"), facts.pop("memory_request_bytes")
    return None if image is None else WorkShape(image, command, cores, memory_bytes)
