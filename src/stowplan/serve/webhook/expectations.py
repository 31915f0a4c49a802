"""What earlier runs tell, as plans take it, kept current in the background."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from stowplan.kube.plan import History, history_of
from stowplan.observe.history import HistoryStore
from stowplan.observe.history.durations import DurationModel
from stowplan.serve.refitting import Refitter

__all__ = ["Expectations"]


class Expectations:
    """The history at a URL. Without a URL nothing is known."""

    def __init__(
        self,
        url: str,
        *,
        refit_s: float,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Fit to the history at `url` about every `refit_s` seconds, once `run` runs."""
        self._url = url
        self._store: HistoryStore | None = None
        self._history = History()
        self._refitter = Refitter(
            self._opened, self._take, url=url, refit_s=refit_s, wall=wall, monotonic=monotonic
        )
        self.classes = 0

    @property
    def history(self) -> History:
        """What is known now."""
        return self._history

    @property
    def error(self) -> str:
        """Why the history could not be read; empty: it could."""
        return self._refitter.error

    async def run(self) -> None:
        """Fit until cancelled."""
        try:
            await self._refitter.run()
        finally:
            if self._store is not None:
                await asyncio.shield(asyncio.to_thread(self._store.close))

    async def _opened(self) -> HistoryStore | None:
        if self._store is None and self._url:
            self._store = await asyncio.to_thread(HistoryStore.open, self._url)
        return self._store

    def _take(self, model: DurationModel, took_s: float) -> None:
        del took_s
        self.classes = len(model)
        self._history = history_of(model)
