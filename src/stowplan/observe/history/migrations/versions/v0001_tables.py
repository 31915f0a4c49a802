"""Decisions, executions, workflows and snapshots."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

__all__ = ["down_revision", "revision", "upgrade"]

revision: Final = "0001"
down_revision: Final = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "snapshots",
        sa.Column("sha256", sa.Text, primary_key=True),
        sa.Column("format", sa.Text, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.Column("taken_s", sa.Double, nullable=False),
    )
    op.create_table(
        "decisions",
        sa.Column("decision_id", sa.Text, primary_key=True),
        sa.Column("decided_s", sa.Double, nullable=False),
        sa.Column("snapshot_sha256", sa.Text),
        sa.Column("policy", sa.Text, nullable=False),
        sa.Column("policy_version", sa.Text, nullable=False),
        sa.Column("mode", sa.Text, nullable=False),
        sa.Column("pod_uid", sa.Text, nullable=False),
        sa.Column("namespace", sa.Text, nullable=False),
        sa.Column("pod", sa.Text, nullable=False),
        sa.Column("node", sa.Text),
        sa.Column("candidates", sa.Integer, nullable=False),
        sa.Column("refused", sa.JSON, nullable=False),
        sa.Column("expected_s", sa.Double),
        sa.Column("expected_low_s", sa.Double),
        sa.Column("expected_high_s", sa.Double),
        sa.Column("expected_source", sa.Text),
        sa.Column("runner_up", sa.Text),
        sa.Column("margin", sa.Double),
        sa.Column("explanation", sa.JSON, nullable=False),
    )
    op.create_index("decisions_by_time", "decisions", ["decided_s"])
    op.create_index("decisions_by_uid", "decisions", ["pod_uid", "decided_s"])
    op.create_index("decisions_by_pod", "decisions", ["namespace", "pod", "decided_s"])
    op.create_index("decisions_by_snapshot", "decisions", ["snapshot_sha256"])
    op.create_table(
        "executions",
        sa.Column("pod_uid", sa.Text, primary_key=True),
        sa.Column("namespace", sa.Text, nullable=False),
        sa.Column("pod", sa.Text, nullable=False),
        sa.Column("workflow_uid", sa.Text),
        sa.Column("class_origin", sa.Text, nullable=False),
        sa.Column("class_template", sa.Text, nullable=False),
        sa.Column("class_place", sa.Text, nullable=False),
        sa.Column("item", sa.Text, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("node", sa.Text),
        sa.Column("node_class", sa.Text),
        sa.Column("image", sa.Text),
        sa.Column("command", sa.Text),
        sa.Column("cpu_request_cores", sa.Double),
        sa.Column("memory_request_bytes", sa.BigInteger),
        sa.Column("ready_s", sa.Double),
        sa.Column("placed_s", sa.Double),
        sa.Column("started_s", sa.Double),
        sa.Column("finished_s", sa.Double),
        sa.Column("status", sa.Text),
        sa.Column("exit_code", sa.Integer),
        sa.Column("reason", sa.Text),
        sa.Column("peak_memory_bytes", sa.BigInteger),
        sa.Column("cpu_time_s", sa.Double),
        sa.Column("read_bytes", sa.BigInteger),
        sa.Column("written_bytes", sa.BigInteger),
        sa.Column("neighbours", sa.JSON(none_as_null=True)),
        sa.Column("noted_s", sa.Double, nullable=False),
    )
    op.create_index(
        "executions_by_class", "executions", ["class_origin", "class_template", "class_place", "finished_s"]
    )
    op.create_index("executions_by_workflow", "executions", ["workflow_uid"])
    op.create_index("executions_by_pod", "executions", ["namespace", "pod"])
    op.create_index("executions_by_time", "executions", ["noted_s"])
    op.create_table(
        "workflows",
        sa.Column("workflow_uid", sa.Text, primary_key=True),
        sa.Column("namespace", sa.Text, nullable=False),
        sa.Column("workflow", sa.Text, nullable=False),
        sa.Column("origin", sa.Text, nullable=False),
        sa.Column("phase", sa.Text, nullable=False),
        sa.Column("submitted_s", sa.Double),
        sa.Column("started_s", sa.Double),
        sa.Column("finished_s", sa.Double),
        sa.Column("noted_s", sa.Double, nullable=False),
    )
    op.create_index("workflows_by_name", "workflows", ["namespace", "workflow"])
    op.create_index("workflows_by_time", "workflows", ["noted_s"])
