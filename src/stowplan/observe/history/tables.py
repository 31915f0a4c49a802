"""The tables of the history. Migrations make them; a test holds the two together."""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
)

__all__ = ["DECISIONS", "EXECUTIONS", "METADATA", "PHASE_RANK", "SNAPSHOTS", "VERSION_TABLE", "WORKFLOWS"]

VERSION_TABLE: Final = "stowplan_history_version"

PHASE_RANK: Final = {"": 0, "Pending": 1, "Running": 2}
"""How far a workflow has come; all other phases are ends."""

METADATA: Final = MetaData()

SNAPSHOTS: Final = Table(
    "snapshots",
    METADATA,
    Column("sha256", Text, primary_key=True),
    Column("format", Text, nullable=False),
    Column("content", LargeBinary, nullable=False),
    Column("taken_s", Double, nullable=False),
    Column("parent_sha256", Text),
)

DECISIONS: Final = Table(
    "decisions",
    METADATA,
    Column("decision_id", Text, primary_key=True),
    Column("decided_s", Double, nullable=False),
    Column("snapshot_sha256", Text),
    Column("policy", Text, nullable=False),
    Column("policy_version", Text, nullable=False),
    Column("mode", Text, nullable=False),
    Column("pod_uid", Text, nullable=False),
    Column("namespace", Text, nullable=False),
    Column("pod", Text, nullable=False),
    Column("node", Text),
    Column("candidates", Integer, nullable=False),
    Column("refused", JSON, nullable=False),
    Column("expected_s", Double),
    Column("expected_low_s", Double),
    Column("expected_high_s", Double),
    Column("expected_source", Text),
    Column("runner_up", Text),
    Column("margin", Double),
    Column("explanation", JSON, nullable=False),
    Index("decisions_by_time", "decided_s"),
    Index("decisions_by_uid", "pod_uid", "decided_s"),
    Index("decisions_by_pod", "namespace", "pod", "decided_s"),
    Index("decisions_by_snapshot", "snapshot_sha256"),
)

EXECUTIONS: Final = Table(
    "executions",
    METADATA,
    Column("pod_uid", Text, primary_key=True),
    Column("namespace", Text, nullable=False),
    Column("pod", Text, nullable=False),
    Column("workflow_uid", Text),
    Column("class_origin", Text, nullable=False),
    Column("class_template", Text, nullable=False),
    Column("class_place", Text, nullable=False),
    Column("item", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("node", Text),
    Column("node_class", Text),
    Column("image", Text),
    Column("command", Text),
    Column("cpu_request_cores", Double),
    Column("memory_request_bytes", BigInteger),
    Column("ready_s", Double),
    Column("placed_s", Double),
    Column("started_s", Double),
    Column("finished_s", Double),
    Column("status", Text),
    Column("exit_code", Integer),
    Column("reason", Text),
    Column("peak_memory_bytes", BigInteger),
    Column("cpu_time_s", Double),
    Column("read_bytes", BigInteger),
    Column("written_bytes", BigInteger),
    Column("neighbours", JSON(none_as_null=True)),
    Column("expected_s", Double),
    Column("expected_source", Text),
    Column(
        "noted_s", Double, nullable=False
    ),  # when the row was first written: the age of one without an end
    Index("executions_by_class", "class_origin", "class_template", "class_place", "finished_s"),
    Index("executions_by_workflow", "workflow_uid"),
    Index("executions_by_pod", "namespace", "pod"),
    Index("executions_by_time", "noted_s"),
)

WORKFLOWS: Final = Table(
    "workflows",
    METADATA,
    Column("workflow_uid", Text, primary_key=True),
    Column("namespace", Text, nullable=False),
    Column("workflow", Text, nullable=False),
    Column("origin", Text, nullable=False),
    Column("phase", Text, nullable=False),
    Column("submitted_s", Double),
    Column("started_s", Double),
    Column("finished_s", Double),
    Column("noted_s", Double, nullable=False),
    Index("workflows_by_name", "namespace", "workflow"),
    Index("workflows_by_time", "noted_s"),
)
