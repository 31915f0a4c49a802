"""How a record joins what the table already knows of it: facts are added, none is taken back.

Kubernetes tells the same thing many times: at every restart the whole list comes again, and the watch repeats
itself. So every statement here can run any number of times, and in any order, with the same end: a fact that
is known stays, one that is not is filled in, what was used only grows, and a phase only goes forward.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.elements import ColumnElement

from stowplan.observe.history.records import Decision, Execution, Record, Snapshot, WorkflowRun
from stowplan.observe.history.tables import DECISIONS, EXECUTIONS, PHASE_RANK, SNAPSHOTS, WORKFLOWS

__all__ = ["row_of", "statement"]

_Value = ColumnElement[Any]
_GROWS: Final = frozenset({"attempt", "peak_memory_bytes", "cpu_time_s", "read_bytes", "written_bytes"})
_TEXT: Final = frozenset({"namespace", "pod", "item", "workflow", "origin"})
_LAST_RANK: Final = max(PHASE_RANK.values()) + 1


def row_of(record: Record, now_s: float) -> tuple[sa.Table, Mapping[str, object]]:
    """Return the table of a record and its row; `now_s` is the time of writing."""
    match record:
        case Snapshot():
            return SNAPSHOTS, {
                "sha256": record.sha256,
                "format": record.format,
                "content": record.content,
                "taken_s": record.taken_s,
                "parent_sha256": record.parent_sha256,
            }
        case Decision():
            row = {column.name: getattr(record, column.name) for column in DECISIONS.columns}
            row["mode"] = record.mode.value
            row["refused"], row["explanation"] = dict(record.refused), dict(record.explanation)
            return DECISIONS, row
        case WorkflowRun():
            names = [column.name for column in WORKFLOWS.columns if column.name != "noted_s"]
            return WORKFLOWS, {name: getattr(record, name) for name in names} | {"noted_s": now_s}
        case Execution():
            return EXECUTIONS, _execution_row(record, now_s)


_APART: Final = frozenset(
    {
        "class_origin",
        "class_template",
        "class_place",
        "image",
        "command",
        "cpu_request_cores",
        "memory_request_bytes",
        "status",
        "neighbours",
        "noted_s",
    }
)


def _execution_row(record: Execution, now_s: float) -> dict[str, object]:
    shape, beside = record.shape, record.neighbours
    row: dict[str, object] = {
        column.name: getattr(record, column.name)
        for column in EXECUTIONS.columns
        if column.name not in _APART
    }
    return row | {
        "class_origin": record.key.origin,
        "class_template": record.key.template,
        "class_place": record.key.place,
        "image": None if shape is None else shape.image,
        "command": None if shape is None else shape.command,
        "cpu_request_cores": None if shape is None else shape.cpu_request_cores,
        "memory_request_bytes": None if shape is None else shape.memory_request_bytes,
        "status": None if record.status is None else record.status.value,
        "neighbours": None
        if beside is None
        else [[each.key.origin, each.key.template, each.key.place, each.count] for each in beside],
        "noted_s": now_s,
    }


@cache
def statement(table: sa.Table, dialect: str) -> sa.Insert:
    """Return the statement that adds a row of `table`, or joins it with the one that is there."""
    insert = sqlite.insert(table) if dialect == "sqlite" else postgresql.insert(table)
    keys = list(table.primary_key.columns)
    if table in (DECISIONS, SNAPSHOTS):  # made whole, once
        return insert.on_conflict_do_nothing(index_elements=keys)
    joined = {
        column.name: _rule(column.name)(column, insert.excluded[column.name])
        for column in table.columns
        if not column.primary_key
    }
    return insert.on_conflict_do_update(index_elements=keys, set_=joined)


def _rule(name: str) -> Callable[[_Value, _Value], _Value]:
    if name == "phase":
        return _further
    if name == "noted_s":
        return lambda old, new: sa.case((new < old, new), else_=old)
    if name in _GROWS:
        return lambda old, new: sa.case((sa.or_(old.is_(None), new > old), new), else_=old)
    if name in _TEXT:
        return lambda old, new: sa.case((old == "", new), else_=old)
    return sa.func.coalesce


def _further(old: _Value, new: _Value) -> _Value:
    def rank(phase: _Value) -> _Value:
        known: Mapping[str, int] = PHASE_RANK
        return sa.case(*[(phase == name, number) for name, number in known.items()], else_=_LAST_RANK)

    return sa.case((rank(new) > rank(old), new), else_=old)
