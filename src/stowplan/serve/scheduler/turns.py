"""A limit on how many do something at once, which knows how many wait for their turn."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Final

__all__ = ["AT_ONCE", "Turns"]

AT_ONCE: Final = 256
"""Requests that place pods, at the API server at once.

The API server works off many waiting requests for less each than few (wake-ups, events that go out
together): on two processors it took about 330 bindings per second of 24 at once, 470 of 64 and 750 of 200.
With its own defaults, priority and fairness lets in 245 of all service accounts, queues 300 more of one, and
refuses beyond. Source: kubernetes/kubernetes apiserver/pkg/apis/flowcontrol/bootstrap, 1.37 (workload-low
has 100 of 245 shares of 600 seats; hands of 6 queues of 50).
"""


class Turns:
    """An asynchronous context manager that lets in so many at once, in order of arrival."""

    def __init__(self, at_once: int) -> None:
        """Let in `at_once`."""
        self._free = asyncio.Semaphore(at_once)
        self.waiting = 0
        """How many wait for their turn."""

    async def __aenter__(self) -> None:
        """Wait for a turn."""
        self.waiting += 1
        try:
            await self._free.acquire()
        finally:
            self.waiting -= 1

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the turn to the next."""
        self._free.release()
