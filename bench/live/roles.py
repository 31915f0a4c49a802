"""The three roles in which a reader of the API server is measured, each in a process of its own.

`serve` serves pods on the loopback as fast as they are taken (no TLS, no work of its own per event but one
header). `events` takes changes, and its rate is events per second of its processor time: what else runs on
the machine then hardly counts. `hold` lists everything and keeps it, and its memory is read. A benchmark's
module plays the roles with a reader of its own when it is run as a program.
"""

import asyncio
import contextlib
import json
import resource
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter, process_time
from urllib.parse import parse_qsl

from bench.harness import Row
from bench.live.templates import Json, Template, node, pod
from stowplan.kube.api.resources import NODES, PODS

__all__ = [
    "EVENTS",
    "PODS_HELD",
    "Server",
    "listen",
    "measured",
    "memory",
    "memory_row",
    "play",
    "resident_bytes",
    "until_done",
]

REPOSITORY = Path(__file__).parents[2]
EVENTS = 60_000
PODS_HELD = 50_000

NONE_HELD = (Template({}), 0)  # of any other kind


class Server:
    """Just enough of an API server: lists by page, and a watch that changes pods as fast as it can."""

    def __init__(self, pods: int, nodes: int, events: int) -> None:
        self._held = {PODS.path(): (Template(pod()), pods), NODES.path(): (Template(node()), nodes)}
        self._events = events
        self.watches = 0  # that were begun

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until the client closes it."""
        while head := await reader.readline():
            while (await reader.readline()).strip():
                pass
            path, _, query = head.split()[1].decode().partition("?")
            asked = dict(parse_qsl(query))
            template, count = self._held.get(path, NONE_HELD)
            if "watch" in asked:
                self.watches += 1
                writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
                with contextlib.suppress(ConnectionError):  # the client has seen enough
                    if path == PODS.path():
                        await self._change(writer, template, count)
                    await reader.read()
                break
            begin, limit = int(asked.get("continue") or 0), int(asked["limit"])
            end = min(begin + limit, count)
            items = b",".join(template.fill(number, number + 1) for number in range(begin, end))
            metadata = b'{"resourceVersion":"%d"' % count
            metadata += b',"continue":"%d"}' % end if end < count else b"}"
            body = b'{"metadata":' + metadata + b',"items":[' + items + b"]}"
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            await writer.drain()
        writer.close()

    async def _change(self, writer: asyncio.StreamWriter, template: Template, count: int) -> None:
        for number in range(self._events):
            self._tell(writer, b"MODIFIED", template.fill(number % count, count + number + 1))
            await writer.drain()

    @staticmethod
    def _tell(writer: asyncio.StreamWriter, event: bytes, what: bytes) -> None:
        line = b'{"type":"' + event + b'","object":' + what + b"}\n"
        writer.write(b"%x\r\n" % len(line) + line + b"\r\n")


async def listen(server: Server) -> None:
    """Serve on a free port of the loopback, which is printed."""
    listening = await asyncio.start_server(server.answer, "127.0.0.1", 0)
    print(listening.sockets[0].getsockname()[1], flush=True)
    await listening.serve_forever()


async def until_done(is_done: asyncio.Event) -> Json:
    """Wait for it; return the seconds of processor and of the clock that it took."""
    begin_s, cpu_s = perf_counter(), process_time()
    await is_done.wait()
    return {"cpu_s": process_time() - cpu_s, "clock_s": perf_counter() - begin_s}


def resident_bytes() -> int:
    """Memory of this process that is in use now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()


def memory(before_bytes: int, listed_s: float) -> Json:
    """Return what is in use now, was at most, and was before, and how long listing took."""
    return {
        "bytes": resident_bytes(),
        "most_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "before_bytes": before_bytes,
        "listed_s": listed_s,
    }


def memory_row(held: Json, *, name: str, what: str) -> Row:
    """Make the row of what `memory` returned."""
    return Row.exact(
        held["bytes"] / 1e6,
        name=name,
        what=what,
        unit="MB",
        note=f"at most {held['most_bytes'] / 1e6:.0f} MB; {held['before_bytes'] / 1e6:.0f} MB before; "
        f"all listed in {held['listed_s']:.1f} s",
    )


def measured(module: str, role: str, *, served: Sequence[int], asked: Sequence[int] = ()) -> Json:
    """Run one measurement against a server of its own, each in a process of its own.

    Args:
        module: A benchmark's, which plays the roles.
        role: `events` or `hold`.
        served: What the role `serve` is given.
        asked: What the other is given behind the server's port.
    """
    command = [sys.executable, "-m", module]
    server = subprocess.Popen([*command, "serve", *map(str, served)], stdout=subprocess.PIPE, cwd=REPOSITORY)
    try:
        port = server.stdout.readline().decode().strip() if server.stdout is not None else ""
        done = subprocess.run(
            [*command, role, port, *map(str, asked)], stdout=subprocess.PIPE, cwd=REPOSITORY, check=True
        )
    finally:
        server.kill()
        server.communicate()
    return json.loads(done.stdout.splitlines()[-1])  # after what was logged


def play(roles: Mapping[str, Callable[..., Awaitable[Json | None]]], words: Sequence[str]) -> None:
    """Play the role that the first of `words` names with the numbers behind it; print what was measured."""
    role, *numbers = words

    async def playing() -> Json | None:
        return await roles[role](*map(int, numbers))

    print(json.dumps(asyncio.run(playing())))
