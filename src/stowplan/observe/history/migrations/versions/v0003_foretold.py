"""What was foretold of an execution."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

__all__ = ["down_revision", "revision", "upgrade"]

revision: Final = "0003"
down_revision: Final = "0002"


def upgrade() -> None:
    """Keep beside an execution what was expected of it when it was placed."""
    op.add_column("executions", sa.Column("expected_s", sa.Double))
    op.add_column("executions", sa.Column("expected_source", sa.Text))
