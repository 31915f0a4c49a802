"""What a process takes from the system goes back, and a connection takes little."""

import asyncio
import gc
import os
import ssl
import subprocess
import sys
from asyncio.sslproto import SSLProtocol
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from stowplan.serve import memory
from stowplan.serve.memory import (
    TLS_BUFFER_BYTES,
    give_back,
    small_tls_buffers,
    spare_the_collector,
)
from testbed.certificates import Authority

BODY = bytes(range(256)) * 4096  # 1 MiB: many times the buffer

FRAGMENTED = """
import asyncio, pathlib, resource
from stowplan.serve.memory import give_back

def resident_pages():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1])

async def run():
    large, small = [], []
    for _ in range(1500):
        large.append(bytearray(60_000))
        small.append(bytearray(900))
    full = resident_pages()
    large.clear()
    freed = resident_pages()
    task = asyncio.create_task(give_back(0.01))
    for _ in range(500):
        await asyncio.sleep(0.02)
        if full - resident_pages() > 0.8 * 1500 * 60_000 / resource.getpagesize():
            break
    print(full - freed, full - resident_pages(), task.done())

asyncio.run(run())
"""

MANY_THREADS = """
import ctypes, re, sys, tempfile, threading
from stowplan.serve.memory import few_arenas

if sys.argv[1] == "few":
    few_arenas()
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
together = threading.Barrier(6)

def take():
    together.wait()
    for _ in range(1000):
        libc.malloc(1000)
    together.wait()

threads = [threading.Thread(target=take) for _ in range(6)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
libc.fopen.restype = ctypes.c_void_p
with tempfile.NamedTemporaryFile() as file:
    told = ctypes.c_void_p(libc.fopen(file.name.encode(), b"w"))
    libc.malloc_info(0, told)
    libc.fclose(told)
    print(len(re.findall("<heap ", file.read().decode())))
"""


def _arenas(how: str, **environment: str) -> int:
    command = [sys.executable, "-c", MANY_THREADS, how]
    run = subprocess.run(
        command, check=True, capture_output=True, text=True, env={"PATH": os.environ["PATH"], **environment}
    )
    return int(run.stdout)


async def _fetch(server: ssl.SSLContext, client: ssl.SSLContext) -> tuple[SSLProtocol, bytes]:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(BODY)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=server) as serving:
        port = serving.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client)
        protocol = writer.transport._ssl_protocol  # pyright: ignore[reportAttributeAccessIssue]
        assert isinstance(protocol, SSLProtocol)
        body = await reader.read(-1)
        writer.close()
        return protocol, body


def test_a_connection_sets_little_aside_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SSLProtocol, "max_size", SSLProtocol.max_size)  # put back afterwards
    authority = Authority(tmp_path)
    pair = authority.issue("server", "server", addresses=["127.0.0.1"])
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(pair.certificate, pair.key)
    client = ssl.create_default_context(cafile=authority.pair.certificate)
    small_tls_buffers()
    protocol, body = asyncio.run(_fetch(server, client))
    assert body == BODY
    assert len(protocol._ssl_buffer) == TLS_BUFFER_BYTES  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and GNU's C library")
def test_what_is_free_between_things_that_stay_goes_back_to_the_system() -> None:
    run = subprocess.run([sys.executable, "-c", FRAGMENTED], check=True, capture_output=True, text=True)
    by_itself, given_back, ended = run.stdout.split()
    pages = 1500 * 60_000 // 4096
    assert int(by_itself) < 0.2 * pages, "the pages went back without us: the test shows nothing"
    assert int(given_back) > 0.8 * pages
    assert ended == "False"


@pytest.mark.skipif(sys.platform != "linux", reason="needs GNU's C library")
def test_threads_share_two_arenas_unless_the_environment_says_otherwise() -> None:
    assert _arenas("usual") > 2, "the test shows nothing"
    assert _arenas("few") == 2
    assert _arenas("few", MALLOC_ARENA_MAX="3") == 3
    assert _arenas("few", GLIBC_TUNABLES="glibc.malloc.arena_max=4") == 4


def test_a_c_library_that_cannot_is_told_once_and_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda _: object())

    async def run() -> bool:
        task = asyncio.create_task(give_back(0.0))
        await asyncio.sleep(0.05)
        lives = not task.done()
        task.cancel()
        return lives

    with capture_logs() as logs:
        assert asyncio.run(run())
    assert [each["event"] for each in logs] == ["unused memory stays with the process"]


def test_what_is_there_is_passed_over_by_the_collector() -> None:
    thresholds = gc.get_threshold()
    try:
        spare_the_collector()
        assert gc.get_freeze_count() > 10_000
        assert gc.get_threshold() != thresholds
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)
