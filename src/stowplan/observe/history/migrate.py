"""Brings a database to the schema of this Stowplan, or refuses it whole.

All steps run in one transaction that nobody else can be in, so a database is of the old version or of the new
one, and of two processes that start together one migrates and the other finds it done.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import sqlalchemy as sa
from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from stowplan.observe.history.errors import HistoryForeign, HistoryTooNew
from stowplan.observe.history.tables import METADATA, VERSION_TABLE

__all__ = ["migrate", "newest_version"]

_FOLDER: Final = Path(__file__).with_name("migrations")
_LOCK: Final = 0x53_74_6F_77  # names our lock among the advisory locks of a PostgreSQL database


def _script() -> ScriptDirectory:
    return ScriptDirectory(_FOLDER, version_locations=[_FOLDER / "versions"])


def newest_version() -> str:
    """Return the version that this Stowplan writes."""
    return str(_script().get_current_head())


def migrate(connection: sa.Connection, where: str) -> None:
    """Upgrade the database of `connection`, which is in a write transaction of its own.

    Raises:
        HistoryTooNew: a newer Stowplan made it.
        HistoryForeign: tables of our names are there that we did not make.
        sqlalchemy.exc.SQLAlchemyError: the database fails; nothing has changed then.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
    script = _script()
    # Alembic must not begin or end transactions: this one is ours.
    context = MigrationContext.configure(
        connection, opts={"version_table": VERSION_TABLE, "transactional_ddl": True}
    )
    current = context.get_current_revision()
    if current is None:
        present = set(sa.inspect(connection).get_table_names())
        ours = sorted(present & METADATA.tables.keys())
        if ours:
            raise HistoryForeign(
                f"history {where} has a table {ours[0]!r}, but not of ours ({VERSION_TABLE} is not there); "
                "give the history a database or file of its own"
            )
    elif current not in {step.revision for step in script.walk_revisions()}:
        raise HistoryTooNew(
            f"history {where} has schema version {current}, this Stowplan knows up to {newest_version()}; "
            "use the newer Stowplan, or another database"
        )
    steps = list(script.iterate_revisions("head", current or "base"))
    with Operations.context(context):
        for step in reversed(steps):
            step.module.upgrade()
            context.stamp(script, step.revision)
