"""A TCP proxy that does to connections what networks do: delays, cuts in mid-stream, resets, silence."""

import asyncio
import contextlib
import functools
import socket
import struct
from typing import Self


class ToxicProxy:
    """Forwards connections from a port of the loopback to a server.

    Attributes:
        delay_s: Added to whatever is on its way to the client.
        cut_after_bytes: After so many bytes to the client a connection is reset.
        is_refusing: Whether new connections are reset at once.
        is_silent: Whether whatever is on its way to the client is held back; connections stay open.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._serving: set[asyncio.Future[None]] = set()
        self.delay_s = 0.0
        self.cut_after_bytes: int | None = None
        self.is_refusing = False
        self.is_silent = False
        self.accepted = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    async def __aenter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.0)
        self._accepting = asyncio.ensure_future(self._accept())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._accepting.cancel()
        self.reset_all()
        await asyncio.gather(self._accepting, *self._serving, return_exceptions=True)
        self._listener.close()

    def reset_all(self) -> None:
        """Reset all connections, in both directions."""
        for each in self._serving:
            each.cancel()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            client, _ = await loop.sock_accept(self._listener)
            client.settimeout(0.0)
            self.accepted += 1
            if self.is_refusing:
                _reset(client)
                continue
            serving = asyncio.ensure_future(self._serve(client))
            self._serving.add(serving)
            serving.add_done_callback(functools.partial(self._served, client))

    def _served(self, client: socket.socket, serving: asyncio.Future[None]) -> None:
        client.close()  # of a task that was cancelled before it began
        self._serving.discard(serving)

    async def _serve(self, client: socket.socket) -> None:
        server = socket.socket()
        server.settimeout(0.0)
        pumps: list[asyncio.Future[None]] = []
        try:
            await asyncio.get_running_loop().sock_connect(server, self._target)
            pumps += [
                asyncio.ensure_future(self._pump(client, server, is_answer=False)),
                asyncio.ensure_future(self._pump(server, client, is_answer=True)),
            ]
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        except OSError:  # the server is not there: neither is the client's connection
            pass
        finally:
            for pump in pumps:
                pump.cancel()
            try:  # a socket is closed when nobody waits for it
                await asyncio.gather(*pumps, return_exceptions=True)
            finally:
                _reset(client)
                _reset(server)

    async def _pump(self, source: socket.socket, target: socket.socket, *, is_answer: bool) -> None:
        loop = asyncio.get_running_loop()
        passed = 0
        with contextlib.suppress(OSError):
            while data := await loop.sock_recv(source, 1 << 16):
                if is_answer:
                    while self.is_silent:  # noqa: ASYNC110 - a plain attribute is what a test sets
                        await asyncio.sleep(0.01)
                    if self.delay_s:
                        await asyncio.sleep(self.delay_s)
                    if self.cut_after_bytes is not None and passed + len(data) > self.cut_after_bytes:
                        await loop.sock_sendall(target, data[: max(0, self.cut_after_bytes - passed)])
                        return
                await loop.sock_sendall(target, data)
                passed += len(data)


def _reset(each: socket.socket) -> None:
    """Close with a reset: without lingering."""
    each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    each.close()
