"""Histories to test with: a file of SQLite, and a real PostgreSQL server that runs only for these tests."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from stowplan.observe.history import HistoryStore

STARTUP_S = 60.0


def program_folder() -> Path | None:
    """The folder of PostgreSQL's server programs; Debian keeps them by version, outside of PATH."""
    on_path = shutil.which("initdb")
    if on_path is not None:
        return Path(on_path).parent
    versions = Path("/usr/lib/postgresql")
    found = sorted(versions.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3].split(".")[0]))
    return found[-1].parent if found else None


def server_account() -> pwd.struct_passwd | None:
    """Whom the server runs as: it refuses root; None: ourselves."""
    if os.geteuid() != 0:
        return None
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    return known.get("postgres") or known["nobody"]


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """The folder with the socket of a running server, whose superuser is `stowplan`."""
    programs = program_folder()
    if programs is None:
        pytest.skip("PostgreSQL's server is not installed (Debian: apt-get install postgresql)")
    account = server_account()
    folder = Path(tempfile.mkdtemp(prefix="stowplan-pg-"))  # a short path: a socket's name has 107 bytes
    identity: dict[str, Any] = {}
    if account is not None:
        os.chown(folder, account.pw_uid, account.pw_gid)
        identity = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
    data = folder / "data"
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C", "TZ": "UTC"}
    initialise = [programs / "initdb", "--auth=trust", "--username=stowplan", "--no-sync", "-E", "UTF8", data]
    subprocess.run(initialise, check=True, capture_output=True, cwd=folder, env=environment, **identity)
    settings = {"listen_addresses": "", "unix_socket_directories": str(folder), "fsync": "off"}
    command = [programs / "postgres", "-D", data]
    for name, value in settings.items():
        command += ["-c", f"{name}={value}"]
    log = (folder / "log").open("wb")
    server = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env=environment, **identity)
    try:
        wait_until_it_answers(server, folder)
        yield str(folder)
    finally:
        server.send_signal(signal.SIGINT)  # "fast": sessions are ended
        try:
            server.wait(30)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        log.close()
        shutil.rmtree(folder)


def wait_until_it_answers(server: subprocess.Popen[Any], folder: Path) -> None:
    give_up_s = time.monotonic() + STARTUP_S
    while True:
        try:
            psycopg.connect(host=str(folder), user="stowplan", dbname="postgres").close()
        except psycopg.OperationalError:
            if server.poll() is not None or time.monotonic() > give_up_s:
                pytest.fail(f"PostgreSQL did not start: {(folder / 'log').read_text()[-2000:]}")
            time.sleep(0.05)
        else:
            return


@pytest.fixture
def postgresql_url(postgresql_server: str) -> str:
    """The URL of an empty database."""
    with psycopg.connect(host=postgresql_server, user="stowplan", dbname="postgres") as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    return f"postgresql://stowplan@/postgres?host={postgresql_server}"


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/history.db"
    return str(request.getfixturevalue("postgresql_url"))


@pytest.fixture
def store(url: str) -> Iterator[HistoryStore]:
    """An empty history of each kind."""
    opened = HistoryStore.open(url)
    yield opened
    opened.close()
