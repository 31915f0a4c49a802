"""Tasks that live and die together: when one ends unasked, the process ends with its error."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self

from stowplan.errors import InternalError

__all__ = ["Together"]


class Together:
    """Runs tasks for the duration of a block; at its end they are cancelled, the last begun first."""

    def __init__(self) -> None:
        """Start without any."""
        self._tasks: dict[str, asyncio.Task[Any]] = {}

    async def __aenter__(self) -> Self:
        """Begin."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Cancel what still runs and wait for it."""
        for task in reversed(self._tasks.values()):
            task.cancel()
            await asyncio.wait({task})

    def start(self, name: str, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run `work`, which is to last as long as the block."""
        task = self._tasks[name] = asyncio.create_task(work, name=name)
        return task

    def ended(self) -> str:
        """Name the tasks that have ended, and why; empty while all run."""
        return "; ".join(f"{name} ended" for name, task in self._tasks.items() if task.done())

    async def until(self, stop: asyncio.Event) -> None:
        """Wait until `stop` is set.

        Raises:
            InternalError: a task ended by itself. What it raised is raised as it is.
        """
        waiting = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({waiting, *self._tasks.values()}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        for name, task in self._tasks.items():
            if task.done():
                task.result()
                raise InternalError(f"{name} came to an end, which it must not while the service runs")
