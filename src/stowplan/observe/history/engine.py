"""Connections to the history's database: SQLite by default, PostgreSQL by URL.

SQLite runs with a write-ahead log: readers (the dashboard, `stowplan explain`) never wait for the writer, nor
it for them. Whoever writes takes the write lock when the transaction begins, so that waiting happens there
and not in the middle. A power cut may lose the last seconds, never the database (synchronous = NORMAL).

Source: https://sqlite.org/wal.html, https://sqlite.org/pragma.html#pragma_synchronous; SQLAlchemy 2,
"Serializable isolation / Savepoints / Transactional DDL" of the SQLite dialect.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import Final

import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from stowplan.errors import InvalidInput
from stowplan.observe.history.errors import MissingDriver, told

__all__ = ["Database"]

_WRITES: Final = "stowplan_writes"
_STATEMENT_LIMIT_S: Final = 60
_CONNECT_LIMIT_S: Final = 5
_RETRY_S: Final = 0.01
_PRIMARY_CODE: Final = 0xFF  # of an extended SQLite result code


class Database:
    """A database by its URL. `where` is the URL without the password, for messages."""

    def __init__(self, url: str, *, lock_wait_s: float) -> None:
        """Prepare; nothing is opened before the first use.

        Args:
            url: `sqlite:///FILE` or `postgresql://USER@HOST/NAME`.
            lock_wait_s: how long to wait for another process that holds the database.

        Raises:
            InvalidInput: the URL is none, names no file, or another kind of database.
            MissingDriver: PostgreSQL's driver is not installed.
        """
        parsed = _parse(url)
        self.where = parsed.render_as_string(hide_password=True)
        self.is_sqlite = parsed.get_backend_name() == "sqlite"
        try:
            if self.is_sqlite:
                self.engine = sa.create_engine(parsed, connect_args={"timeout": lock_wait_s})
                event.listen(self.engine, "connect", partial(_prepare_sqlite, lock_wait_s))
                event.listen(self.engine, "begin", _begin_sqlite)
            else:
                limits = (
                    f"-c statement_timeout={_STATEMENT_LIMIT_S}s -c lock_timeout={lock_wait_s * 1000:.0f}"
                )
                self.engine = sa.create_engine(
                    parsed.set(drivername="postgresql+psycopg"),
                    connect_args={"connect_timeout": _CONNECT_LIMIT_S, "options": limits},
                    pool_pre_ping=True,
                )
        except ModuleNotFoundError as error:
            raise MissingDriver(
                f"history {self.where} needs {error.name}, which is not installed; "
                "install stowplan[postgresql]"
            ) from None

    @contextmanager
    def reading(self) -> Generator[sa.Connection, None, None]:
        """Yield a connection in a transaction that sees one state of the database.

        Raises:
            HistoryError: the database fails.
        """
        try:
            with self.engine.connect() as connection, connection.begin():
                yield connection
        except SQLAlchemyError as error:
            raise told(error, self.where) from error

    @contextmanager
    def writing(self) -> Generator[sa.Connection, None, None]:
        """Yield a connection in a write transaction; all of it is kept, or nothing.

        Raises:
            HistoryError: the database fails; nothing was written.
        """
        try:
            with self.engine.connect().execution_options(**{_WRITES: True}) as connection, connection.begin():
                yield connection
        except SQLAlchemyError as error:
            raise told(error, self.where) from error

    def close(self) -> None:
        """Close all connections."""
        self.engine.dispose()


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
        backend = parsed.get_backend_name()
    except (ArgumentError, NoSuchModuleError):
        raise InvalidInput(
            f"history URL {url!r} cannot be read; write sqlite:///FILE or postgresql://USER@HOST/NAME"
        ) from None
    if backend not in ("sqlite", "postgresql"):
        raise InvalidInput(f"history URL {url!r} names {backend}; SQLite and PostgreSQL are supported")
    if backend == "sqlite" and parsed.database in (None, "", ":memory:"):
        raise InvalidInput(f"history URL {url!r} names no file; write sqlite:///FILE")
    return parsed


def _prepare_sqlite(lock_wait_s: float, connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None  # transactions are begun below, not by the driver's guesses
    cursor = connection.cursor()
    try:
        _log_ahead(cursor, lock_wait_s)
        cursor.execute("PRAGMA synchronous = NORMAL")
    finally:
        cursor.close()


def _log_ahead(cursor: sqlite3.Cursor, within_s: float) -> None:
    """Have the database log ahead; of two that make it do so at once, SQLite lets neither wait by itself."""
    until_s = time.monotonic() + within_s
    while True:
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & _PRIMARY_CODE != sqlite3.SQLITE_BUSY or time.monotonic() >= until_s:
                raise
            time.sleep(_RETRY_S)
        else:
            return


def _begin_sqlite(connection: sa.Connection) -> None:
    writes = bool(connection.get_execution_options().get(_WRITES))
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
