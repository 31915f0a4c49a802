"""A proxy before the API server that answers with faults: what a scheduler has to live through.

It speaks HTTP on both sides, so it can answer 429, 500 or 410 itself, say nothing, or cut a connection in the
middle of an answer; it hands everything else on as it is, watches line by line as they come. A client shows
who it is with a bearer token, as a service account does: a certificate would end here.

It runs in a thread of this process and listens in the hub's namespace, where nobody but the cluster's own
processes reaches it.
"""

import asyncio
import contextlib
import json
import random
import ssl
import threading
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

import aiohttp
from aiohttp import web

from testbed import network
from testbed.control_plane import ControlPlane

HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "host"}
SILENCE_S = 300.0
EXPIRED = {
    "type": "ERROR",
    "object": {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": "Expired",
        "message": "too old resource version",
        "code": 410,
    },
}


class Fault(StrEnum):
    """What can become of a request."""

    TOO_MANY = "429"
    """Refused for a second; it was not carried out."""
    FAILED = "500"
    """An error; it was not carried out."""
    LOST_ANSWER = "lost answer"
    """It was carried out, and the connection is cut before the answer."""
    CUT = "cut"
    """The connection is cut before it is carried out; a watch or a list in the middle of it."""
    SILENT = "silent"
    """No answer comes at all; it was not carried out."""
    GONE = "410"
    """A watch ends with 'too old resource version'; nothing else is touched."""


@dataclass
class FaultyProxy:
    """The proxy; its context is the time in which it runs.

    Attributes:
        plane: Whose API server it stands before.
        chances: Of each fault, for each request that it can befall; nothing by default.
        only: A part of the paths that faults befall; all by default.
        is_down: Whether every connection is cut at once, as when the server is gone.
        done: Faults by kind.
    """

    plane: ControlPlane
    seed: int = 0
    chances: dict[Fault, float] = field(default_factory=dict[Fault, float])
    only: str = ""
    is_down: bool = False
    done: Counter[Fault] = field(default_factory=Counter[Fault])

    def __enter__(self) -> Self:
        """Begin to listen."""
        self._rng = random.Random(self.seed)  # noqa: S311 - faults, no secrets
        serving = self.plane.authority.issue("faulty-proxy", "faulty-proxy", addresses=["127.0.0.1"])
        self._socket = network.listen(self.plane.site.hub, "127.0.0.1")
        self._tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._tls.load_cert_chain(serving.certificate, serving.key)
        self._watches: set[web.StreamResponse] = set()
        started: Future[None] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run(started)), daemon=True)
        self._thread.start()
        started.result(30.0)
        return self

    def __exit__(self, *_: object) -> None:
        """End it with all its connections."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30.0)

    @property
    def address(self) -> str:
        """The URL at which a client finds it."""
        return f"https://127.0.0.1:{self._socket.getsockname()[1]}"

    def cut_all(self) -> None:
        """Cut all connections that are open now."""
        self._loop.call_soon_threadsafe(self._cut_all)

    def _cut_all(self) -> None:
        for connection in list(self._server.connections):
            transport = connection.transport
            if transport is not None:
                transport.abort()

    async def _run(self, started: "Future[None]") -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        authority = ssl.create_default_context(cafile=self.plane.authority.pair.certificate)
        connector = aiohttp.TCPConnector(ssl=authority, limit=0)
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10.0)
        self._server = web.Server(self._handle, access_log=None)
        runner = web.ServerRunner(self._server, shutdown_timeout=1.0)
        async with aiohttp.ClientSession(
            connector=connector, timeout=timeout, auto_decompress=False
        ) as self._up:
            await runner.setup()
            await web.SockSite(runner, self._socket, ssl_context=self._tls).start()
            started.set_result(None)
            await self._stop.wait()
            self._cut_all()
            await runner.cleanup()

    def _drawn(self, request: web.BaseRequest) -> Fault | None:
        if self.only not in request.path:
            return None
        is_watch = request.query.get("watch") in {"1", "true"}
        for fault, chance in self.chances.items():
            fits = is_watch if fault is Fault.GONE else not (is_watch and fault is Fault.LOST_ANSWER)
            if fits and self._rng.random() < chance:
                self.done[fault] += 1
                return fault
        return None

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if self.is_down:
            return self._cut(request)
        fault = self._drawn(request)
        match fault:
            case Fault.TOO_MANY:
                return _status(429, "TooManyRequests", {"Retry-After": "1"})
            case Fault.FAILED:
                return _status(500, "InternalError", {})
            case Fault.SILENT:
                await asyncio.sleep(SILENCE_S)
                return self._cut(request)
            case Fault.CUT if request.method != "GET":
                return self._cut(request)
            case _:
                return await self._hand_on(request, fault)

    def _cut(self, request: web.BaseRequest) -> web.StreamResponse:
        """Cut the request's connection; the answer that this returns reaches nobody."""
        if request.transport is not None:
            request.transport.abort()
        return web.Response()

    async def _hand_on(self, request: web.BaseRequest, fault: Fault | None) -> web.StreamResponse:
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP}
        url = f"{self.plane.server}{request.rel_url}"
        body = await request.read()
        try:
            asked = self._up.request(request.method, url, headers=headers, data=body, allow_redirects=False)
            async with asked as answer:
                if fault is Fault.LOST_ANSWER:
                    await answer.read()
                    return self._cut(request)
                kept = {k: v for k, v in answer.headers.items() if k.lower() not in HOP_BY_HOP}
                response = web.StreamResponse(status=answer.status, headers=kept)
                with contextlib.suppress(ConnectionResetError):  # of the client's connection
                    await response.prepare(request)
                    await self._pass_on(request, answer, response, fault)
                return response
        except aiohttp.ClientError:  # the API server is not there: neither is the client's connection
            return self._cut(request)

    async def _pass_on(
        self,
        request: web.BaseRequest,
        answer: aiohttp.ClientResponse,
        response: web.StreamResponse,
        fault: Fault | None,
    ) -> None:
        async for piece in answer.content.iter_any():
            if fault is Fault.CUT:
                await response.write(piece[: len(piece) // 2])
                self._cut(request)
                return
            await response.write(piece)
            if fault is Fault.GONE and piece.endswith(b"\n"):
                await response.write(json.dumps(EXPIRED).encode() + b"\n")
                break
        await response.write_eof()


def _status(code: int, reason: str, headers: Mapping[str, str]) -> web.Response:
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": reason,
        "message": "the proxy of the tests says so",
        "code": code,
    }
    return web.json_response(body, status=code, headers=headers)
