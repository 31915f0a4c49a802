"""A scripted API server, for faults that a real one cannot be made to show.

It keeps config maps in memory with one version for all, as etcd does, and remembers changes since a version
that can be moved (`compact`). A test puts faults into `script`: each request takes the next one.
"""

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Self

from aiohttp import web

from stowplan.kube.api.access import Access
from stowplan.kube.api.resources import Resource

THINGS = Resource("", "v1", "configmaps", "ConfigMap")

Json = dict[str, Any]
Fault = Callable[[web.Request], Awaitable[web.StreamResponse | None]]


def status(code: int, reason: str, message: str, **headers: str) -> Fault:
    """Answer with a Status; `Retry_After="1"` sets that header."""

    async def answer(_: web.Request) -> web.StreamResponse:
        body = {"kind": "Status", "code": code, "reason": reason, "message": message}
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.json_response(body, status=code, headers=named)

    return answer


async def cut(request: web.Request) -> None:
    """Close the connection without an answer."""
    assert request.transport is not None
    request.transport.abort()


async def work(_: web.Request) -> None:
    """No fault."""


async def say_nothing(_: web.Request) -> None:
    """Never answer."""
    await asyncio.sleep(60.0)


class FakeServer:
    """The server; an asynchronous context manager.

    Attributes:
        script: What goes wrong with the next requests, in order; then nothing does.
        requests: Method and path of each request, and its headers.
        objects: By name.
        line_limits: How many lines the next watches send before the connection is cut in mid-line.
        watch_limits: How many lines the next watches send before they end in order.
    """

    def __init__(self) -> None:
        self.script: deque[Fault] = deque()
        self.requests: list[tuple[str, str, Json]] = []
        self.objects: dict[str, Json] = {}
        self.version = 100
        self.oldest = 100
        self.changes: list[tuple[int, str, Json]] = []
        self.line_limits: deque[int] = deque()
        self.watch_limits: deque[int] = deque()
        self.open_watches = 0
        self._changed = asyncio.Condition()

    @property
    def access(self) -> Access:
        return Access(server=f"http://127.0.0.1:{self.port}")

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port: int = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def put(self, name: str, **fields: Any) -> Json:  # noqa: ANN401 - whatever the object has
        """Create an object or change it."""
        old = self.objects.get(name)
        uid = old["metadata"]["uid"] if old else f"uid-{self.version}"
        return await self._change("MODIFIED" if old else "ADDED", name, uid, fields)

    async def remove(self, name: str) -> None:
        """Delete an object."""
        await self._change("DELETED", name, self.objects[name]["metadata"]["uid"], None)

    async def _change(self, kind: str, name: str, uid: str, fields: Json | None) -> Json:
        self.version += 1
        metadata = {"name": name, "namespace": "n", "uid": uid, "resourceVersion": str(self.version)}
        made = {"metadata": metadata, **(fields or {})}
        if fields is None:
            del self.objects[name]
        else:
            self.objects[name] = made
        self.changes.append((self.version, kind, made))
        async with self._changed:
            self._changed.notify_all()
        return made

    def compact(self) -> None:
        """Forget all past versions."""
        self.oldest = self.version

    def cut_all(self) -> None:
        """Cut all connections that are open."""
        assert self._runner.server is not None
        for connection in self._runner.server.connections:
            if connection.transport is not None:
                connection.transport.abort()

    def versions(self) -> dict[str, str]:
        """Resource version by key."""
        return {f"n/{name}": made["metadata"]["resourceVersion"] for name, made in self.objects.items()}

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request.method, request.path, dict(request.headers)))
        if self.script:
            answer = await self.script.popleft()(request)
            if answer is not None:
                return answer
        if request.query.get("watch"):
            return await self._watch(request)
        begin, _, at = request.query.get("continue", "").partition("@")
        if at and int(at) < self.oldest:
            answer = await status(410, "Expired", "the continue token is too old")(request)
            assert answer is not None
            return answer
        names = [name for name in sorted(self.objects) if name > begin]
        limit = int(request.query.get("limit", 1000))
        metadata = {"resourceVersion": at or str(self.version)}
        if len(names) > limit:
            metadata["continue"] = f"{names[limit - 1]}@{metadata['resourceVersion']}"
        return web.json_response(
            {"metadata": metadata, "items": [self.objects[name] for name in names[:limit]]}
        )

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        since = int(request.query["resourceVersion"])
        answer = web.StreamResponse()
        await answer.prepare(request)
        sent, self.open_watches = 0, self.open_watches + 1
        whole = self.watch_limits.popleft() if self.watch_limits else None
        lines = self.line_limits.popleft() if self.line_limits else None
        try:
            if since < self.oldest:
                gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
                await answer.write(line("ERROR", gone))
                return answer
            while True:
                for version, kind, made in self.changes:
                    if version > since:
                        since = version
                        if sent == lines:
                            await answer.write(line(kind, made)[:-20])
                            assert request.transport is not None
                            request.transport.close()
                            return answer
                        if sent == whole:
                            return answer
                        await answer.write(line(kind, made))
                        sent += 1
                if whole is not None and sent >= whole:
                    return answer
                async with self._changed:
                    await self._changed.wait()
        finally:
            self.open_watches -= 1


def line(kind: str, made: Json) -> bytes:
    """A line of a watch."""
    return json.dumps({"type": kind, "object": made}).encode() + b"\n"
