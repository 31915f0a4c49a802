"""A database that cannot be used says why, in one line, by a type of its own; and is left as it was."""

import os
import shutil
import sqlite3
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest
from sqlalchemy import event

from stowplan.errors import InvalidInput
from stowplan.observe.history import (
    HistoryDamaged,
    HistoryError,
    HistoryForeign,
    HistoryFull,
    HistoryLocked,
    HistoryReadOnly,
    HistoryStore,
    HistoryTooNew,
    HistoryUnreachable,
    MissingDriver,
)
from tests.history_cases import execution


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A history with one row, closed."""
    path = tmp_path / "history.db"
    store = HistoryStore.open(f"sqlite:///{path}")
    store.write([execution()], 0.0)
    store.close()
    return path


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    path.write_bytes(b"once upon a time " * 500)
    with pytest.raises(HistoryDamaged, match=r"history\.db is not an SQLite database; name another file"):
        HistoryStore.open(f"sqlite:///{path}")
    assert path.read_bytes() == b"once upon a time " * 500


def test_a_file_whose_pages_were_overwritten(file: Path) -> None:
    whole = file.read_bytes()
    file.write_bytes(whole[:100] + b"\xff" * (len(whole) - 100))
    with pytest.raises(HistoryDamaged, match="damaged"):
        HistoryStore.open(f"sqlite:///{file}")


def test_a_truncated_file(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:5000])
    with pytest.raises(HistoryDamaged):
        HistoryStore.open(f"sqlite:///{file}").write([execution("pod-2")], 0.0)


def test_a_newer_schema(file: Path) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE stowplan_history_version SET version_num = '9999'")
    connection.close()
    with pytest.raises(HistoryTooNew, match=r"version 9999, this Stowplan knows up to 0003"):
        HistoryStore.open(f"sqlite:///{file}")


def test_tables_of_somebody_else(tmp_path: Path) -> None:
    path = tmp_path / "theirs.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE workflows (theirs TEXT)")
    connection.close()
    with pytest.raises(HistoryForeign, match="table 'workflows'"):
        HistoryStore.open(f"sqlite:///{path}")


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(HistoryUnreachable, match="check that its folder exists"):
        HistoryStore.open(f"sqlite:///{tmp_path}/no/such/folder/history.db")


def test_another_process_holds_it(file: Path) -> None:
    store = HistoryStore.open(f"sqlite:///{file}", lock_wait_s=0.05)
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(HistoryLocked, match="held by another process"):
        store.write([execution("pod-2")], 0.0)
    assert store.counts()["executions"] == 1  # reading does not wait
    other.execute("ROLLBACK")
    other.close()
    assert store.write([execution("pod-2")], 0.0) == 1
    store.close()


def test_a_full_disk_writes_nothing_and_heals(file: Path) -> None:
    store = HistoryStore.open(f"sqlite:///{file}")
    limit = [30]

    def bound(connection: sqlite3.Connection, _record: object) -> None:
        connection.execute(f"PRAGMA max_page_count = {limit[0]}")

    store._database.engine.dispose()
    event.listen(store._database.engine, "connect", bound)
    with pytest.raises(HistoryFull, match="its disk is full"):
        store.write([execution(f"pod-{i}") for i in range(300)], 0.0)
    assert store.counts()["executions"] == 1
    limit[0] = 10**6
    store._database.engine.dispose()
    assert store.write([execution(f"pod-{i}") for i in range(300)], 0.0) == 300
    store.close()


@pytest.fixture
def unwritable() -> Iterator[Path]:
    """A history that another user may read and not write."""
    folder = Path(tempfile.mkdtemp(prefix="stowplan-ro-"))  # tmp_path is for its owner only
    path = folder / "history.db"
    store = HistoryStore.open(f"sqlite:///{path}")
    store.write([execution()], 0.0)
    store.close()
    path.chmod(0o444)
    folder.chmod(0o555)
    yield path
    folder.chmod(0o755)
    shutil.rmtree(folder)


def test_a_file_that_may_not_be_written(unwritable: Path) -> None:
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)  # rights do not bind root: nobody opens it
    try:
        with pytest.raises(HistoryReadOnly, match="cannot be written; check the rights"):
            HistoryStore.open(f"sqlite:///{unwritable}")
    finally:
        if is_root:
            os.seteuid(0)


def test_two_that_start_together_make_one_schema(url: str) -> None:
    together = threading.Barrier(4)
    failures: list[BaseException] = []

    def start() -> None:
        together.wait()
        try:
            HistoryStore.open(url).close()
        except BaseException as error:  # noqa: BLE001 - the test shows it
            failures.append(error)

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    store = HistoryStore.open(url)
    assert store.counts()["executions"] == 0
    store.close()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("history.db", "cannot be read"),
        ("", "cannot be read"),
        ("oracle://x/y", "names oracle; SQLite and PostgreSQL"),
        ("nosuch://x/y", "names nosuch; SQLite and PostgreSQL"),
        ("sqlite://", "names no file"),
        ("sqlite:///:memory:", "names no file"),
    ],
)
def test_urls_that_name_no_history(url: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        HistoryStore.open(url)


def test_passwords_are_not_told(tmp_path: Path) -> None:
    with pytest.raises(HistoryUnreachable) as caught:
        HistoryStore.open(f"postgresql://me:secret@/history?host={tmp_path}")
    assert "secret" not in str(caught.value)
    assert "me:***@" in str(caught.value)


def test_without_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingDriver, match=r"stowplan\[postgresql\]"):
        HistoryStore.open("postgresql://me@127.0.0.1/history")


def alter(server: str, statement: LiteralString) -> None:
    with psycopg.connect(host=server, user="stowplan", dbname="postgres", autocommit=True) as connection:
        connection.execute(statement)


def test_postgresql_says_what_is_wrong(postgresql_server: str, postgresql_url: str) -> None:
    nowhere = f"postgresql://stowplan@/nowhere?host={postgresql_server}"
    with pytest.raises(HistoryUnreachable):
        HistoryStore.open(nowhere)
    with pytest.raises(HistoryUnreachable):
        HistoryStore.open(postgresql_url.replace("stowplan@", "stranger@"))
    alter(postgresql_server, "CREATE TABLE decisions (theirs TEXT)")
    with pytest.raises(HistoryForeign, match="'decisions'"):
        HistoryStore.open(postgresql_url)


def test_postgresql_that_is_read_only(postgresql_server: str, postgresql_url: str) -> None:
    HistoryStore.open(postgresql_url).close()
    alter(postgresql_server, "ALTER ROLE stowplan SET default_transaction_read_only = on")
    try:
        store = HistoryStore.open(postgresql_url)
        with pytest.raises(HistoryReadOnly, match="read-only"):
            store.write([execution()], 0.0)
        store.close()
    finally:
        options = "-c default_transaction_read_only=off"
        with psycopg.connect(
            host=postgresql_server, user="stowplan", dbname="postgres", options=options
        ) as connection:
            connection.execute("ALTER ROLE stowplan RESET default_transaction_read_only")


def test_postgresql_that_is_locked(postgresql_server: str, postgresql_url: str) -> None:
    store = HistoryStore.open(postgresql_url, lock_wait_s=0.05)
    with psycopg.connect(host=postgresql_server, user="stowplan", dbname="postgres") as other:
        other.execute("LOCK TABLE executions IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(HistoryLocked):
            store.write([execution()], 0.0)
    assert store.write([execution()], 0.0) == 1
    store.close()


def test_postgresql_whose_session_is_ended_is_reached_again(
    postgresql_server: str, postgresql_url: str
) -> None:
    store = HistoryStore.open(postgresql_url)
    alter(
        postgresql_server,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE pid <> pg_backend_pid() AND datname = 'postgres'",
    )
    assert store.write([execution()], 0.0) == 1
    store.close()


def test_errors_are_of_one_tree() -> None:
    assert issubclass(HistoryLocked, HistoryError)
    assert HistoryLocked.passes
    assert not HistoryDamaged.passes
