"""What can be wrong with the history's database, told by the database's own error codes.

    HistoryError (a StowplanError)
    ├── HistoryDamaged       not a database, or its pages or indexes do not hold together
    ├── HistoryTooNew        made by a newer Stowplan: its schema is not known here
    ├── HistoryForeign       its tables are not ours, though they have our names
    ├── HistoryLocked        another process has held it for longer than we wait
    ├── HistoryReadOnly      it may be read, not written
    ├── HistoryFull          its disk is full
    ├── HistoryUnreachable   no file can be made there, no server answers, or it does not let us in
    ├── HistoryRefused       it does not take this record
    └── MissingDriver        the URL needs a driver that is not installed

Scheduling goes on without a history: whoever catches one of these says so by a state, a metric and a log.
Codes: https://sqlite.org/rescode.html and PostgreSQL 15, appendix A (SQLSTATE).
"""

from __future__ import annotations

import sqlite3
from typing import Final

from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from stowplan.errors import StowplanError

__all__ = [
    "HistoryDamaged",
    "HistoryError",
    "HistoryForeign",
    "HistoryFull",
    "HistoryLocked",
    "HistoryReadOnly",
    "HistoryRefused",
    "HistoryTooNew",
    "HistoryUnreachable",
    "MissingDriver",
    "told",
]


class HistoryError(StowplanError):
    """The history cannot be used as asked. `passes` tells that trying again later may help."""

    passes = False


class HistoryDamaged(HistoryError):
    """The file is not a database, or the database is damaged."""


class HistoryTooNew(HistoryError):
    """A newer Stowplan made the schema."""


class HistoryForeign(HistoryError):
    """Tables of our names that we did not make."""


class HistoryLocked(HistoryError):
    """Another process holds the database."""

    passes = True


class HistoryReadOnly(HistoryError):
    """The database cannot be written."""

    passes = True


class HistoryFull(HistoryError):
    """The disk of the database is full."""

    passes = True


class HistoryUnreachable(HistoryError):
    """The database cannot be opened, or its server does not answer or does not let us in."""

    passes = True


class HistoryRefused(HistoryError):
    """The database does not take a record or a statement."""


class MissingDriver(HistoryError):
    """The database's driver is not installed."""


_Kind = type[HistoryError]

# Primary result codes of SQLite (the lowest byte of the extended ones).
_SQLITE: Final[dict[int, tuple[_Kind, str]]] = {
    sqlite3.SQLITE_CORRUPT: (HistoryDamaged, "is damaged; move it away, or restore it from a backup"),
    sqlite3.SQLITE_NOTADB: (HistoryDamaged, "is not an SQLite database; name another file, or move it away"),
    sqlite3.SQLITE_BUSY: (HistoryLocked, "is held by another process; see who has it open"),
    sqlite3.SQLITE_LOCKED: (HistoryLocked, "is held by another connection"),
    sqlite3.SQLITE_READONLY: (HistoryReadOnly, "cannot be written; check the rights of the file and folder"),
    sqlite3.SQLITE_FULL: (HistoryFull, "cannot grow: its disk is full; make room, or shorten the retention"),
    sqlite3.SQLITE_CANTOPEN: (
        HistoryUnreachable,
        "cannot be opened; check that its folder exists, and rights",
    ),
    sqlite3.SQLITE_PERM: (HistoryUnreachable, "may not be opened; check its rights"),
    sqlite3.SQLITE_AUTH: (HistoryUnreachable, "may not be opened; check its rights"),
    sqlite3.SQLITE_IOERR: (HistoryUnreachable, "cannot be read or written; check its disk"),
    sqlite3.SQLITE_NOMEM: (HistoryUnreachable, "cannot be used: memory is short"),
}

# SQLSTATEs of PostgreSQL, whole or by class (the first two characters); the longest that fits is taken.
_POSTGRESQL: Final[dict[str, tuple[_Kind, str]]] = {
    "XX001": (HistoryDamaged, "is damaged; restore it from a backup"),
    "XX002": (HistoryDamaged, "has a damaged index; REINDEX it"),
    "55P03": (HistoryLocked, "is locked by another session"),
    "57014": (HistoryLocked, "took longer than the statement's limit"),
    "40": (HistoryLocked, "gave way to another transaction"),
    "25006": (HistoryReadOnly, "is read-only (a standby, or default_transaction_read_only)"),
    "53100": (HistoryFull, "cannot grow: the server's disk is full"),
    "53": (HistoryUnreachable, "has no room for the session (connections or memory)"),
    "08": (HistoryUnreachable, "cannot be reached; check the server and the URL"),
    "57P": (HistoryUnreachable, "is shutting down or starting"),
    "28": (HistoryUnreachable, "does not let us in; check user and password of the URL"),
    "3D": (HistoryUnreachable, "does not exist; create it, or name another in the URL"),
    "42501": (HistoryUnreachable, "denies a right; grant the user its schema"),
}


def told(error: SQLAlchemyError, where: str) -> HistoryError:
    """Return what `error` means for the history at `where` (its URL without password)."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    kind, words = _known(error, cause)
    detail = " ".join(str(cause).split())
    return kind(f"history {where} {words} ({detail})")


def _known(error: SQLAlchemyError, cause: BaseException | None) -> tuple[_Kind, str]:
    code = getattr(cause, "sqlite_errorcode", None)
    if isinstance(code, int) and code & 0xFF in _SQLITE:
        return _SQLITE[code & 0xFF]
    state = getattr(cause, "sqlstate", None)
    if isinstance(state, str):
        for length in (5, 3, 2):
            if state[:length] in _POSTGRESQL:
                return _POSTGRESQL[state[:length]]
    elif isinstance(error, DBAPIError) and (
        error.connection_invalidated or type(cause).__name__ == "OperationalError"
    ):
        # No code: a connection that was never made, or that broke.
        return HistoryUnreachable, "cannot be reached; check the server and the URL"
    return HistoryRefused, "does not take it"
