"""Snapshots that stand on others."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

__all__ = ["down_revision", "revision", "upgrade"]

revision: Final = "0002"
down_revision: Final = "0001"


def upgrade() -> None:
    """Let a snapshot name the one before it."""
    op.add_column("snapshots", sa.Column("parent_sha256", sa.Text))
