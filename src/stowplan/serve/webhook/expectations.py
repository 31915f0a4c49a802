"""What earlier runs tell, fitted again and again in the background.

Fitting takes seconds where the history is long, so the pause after it is long enough to keep it to a
twentieth of a core. What was fitted last holds until the next fit is done, or for as long as the history
cannot be read; `error` says so then.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from stowplan.errors import StowplanError
from stowplan.kube.plan import History, history_of
from stowplan.observe.history import HistoryStore
from stowplan.observe.history.fitting import fit_model

__all__ = ["Expectations"]

_MOST_SHARE: Final = 0.05  # of a core


class Expectations:
    """The history at a URL, as plans take it. Without a URL nothing is known."""

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
        self._refit_s = refit_s
        self._wall = wall
        self._monotonic = monotonic
        self._store: HistoryStore | None = None
        self._history = History()
        self.error = ""
        self.classes = 0

    @property
    def history(self) -> History:
        """What is known now."""
        return self._history

    async def run(self) -> None:
        """Fit until cancelled."""
        try:
            while self._url:
                began_s = self._monotonic()
                await self.refit()
                await asyncio.sleep(self.pause_s(self._monotonic() - began_s))
            await asyncio.Event().wait()
        finally:
            if self._store is not None:
                await asyncio.shield(asyncio.to_thread(self._store.close))

    def pause_s(self, took_s: float) -> float:
        """Return the pause in seconds after a fit that took `took_s`."""
        return max(self._refit_s, took_s / _MOST_SHARE)

    async def refit(self) -> None:
        """Fit once; if the history cannot be read, what was known stays."""
        try:
            if self._store is None:
                self._store = await asyncio.to_thread(HistoryStore.open, self._url)
            model = await fit_model(self._store, self._url, self._wall(), ())
        except StowplanError as error:
            self.error = str(error)
            return
        self.error = ""
        self.classes = len(model)
        self._history = history_of(model)
