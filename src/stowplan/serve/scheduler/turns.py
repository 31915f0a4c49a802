"""A limit on how many do something at once, which knows how many wait for their turn."""

from __future__ import annotations

import asyncio
from types import TracebackType

__all__ = ["Turns"]


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
