"""Keeps a duration model current: it is fitted to the history again and again, in the background.

Fitting takes seconds where the history is long, so the pause after it is long enough to keep it to a
twentieth of a core. What was fitted last holds until the next fit is done, or for as long as the history
cannot be read; `error` says so then.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from concurrent.futures import BrokenExecutor
from typing import Final

import structlog

from stowplan.errors import StowplanError
from stowplan.observe.history import HistoryStore
from stowplan.observe.history.durations import DurationModel
from stowplan.observe.history.fitting import fit_model

__all__ = ["Refitter"]

_log = structlog.get_logger(__name__)
_MOST_SHARE: Final = 0.05  # of a core


class Refitter:
    """Fits the model of one service.

    Attributes:
        error: why the last fit failed; empty: it did not.
    """

    def __init__(  # noqa: PLR0913 - all but three have a default that fits
        self,
        store: Callable[[], Awaitable[HistoryStore | None]],
        take: Callable[[DurationModel, float], None],
        *,
        url: str = "",
        refit_s: float,
        tick_s: float = 1.0,
        has_news: Callable[[], bool] = lambda: True,
        begin: Callable[[], Collection[str]] = tuple,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Fit once `run` runs.

        Args:
            store: gives the history; None: there is none, or not yet. What it raises counts as a failed fit.
            take: given each new model, and how long its fit took in seconds.
            url: where the history is, so that another process can read it.
            refit_s: from one fit to the next at least, in seconds.
            tick_s: how often is looked whether it is time for one.
            has_news: whether there is more to learn from than at the last fit; one that failed is made again
                anyway.
            begin: called when a fit begins; gives the uids of the pods that run now.
            wall: a clock in seconds since the epoch.
            monotonic: a clock in seconds.
        """
        self._store = store
        self._take = take
        self._url = url
        self._refit_s = refit_s
        self._tick_s = min(tick_s, refit_s)
        self._has_news = has_news
        self._begin = begin
        self._wall = wall
        self._monotonic = monotonic
        self._due_s: float | None = None  # None: it was never fitted
        self.error = ""

    async def run(self) -> None:
        """Fit when it is time, until cancelled."""
        while True:
            if self._is_due():
                await self.fit()
            await asyncio.sleep(self._tick_s)

    def pause_s(self, took_s: float) -> float:
        """Return the pause in seconds after a fit that took `took_s`."""
        return max(self._refit_s, took_s / _MOST_SHARE)

    async def fit(self) -> None:
        """Fit once, if there is a history; if it cannot be read, what was known stays."""
        begin_s = self._monotonic()
        try:
            store = await self._store()
            if store is None:
                return
            model = await fit_model(store, self._url, self._wall(), self._begin())
        except (StowplanError, OSError, BrokenExecutor) as error:
            if str(error) != self.error:
                _log.warning("durations cannot be learnt", reason=str(error))
            self.error = str(error)
        else:
            self.error = ""
            self._take(model, self._monotonic() - begin_s)
        now_s = self._monotonic()
        self._due_s = now_s + self.pause_s(now_s - begin_s)

    def _is_due(self) -> bool:
        if self._due_s is None:
            return True
        return self._monotonic() >= self._due_s and (bool(self.error) or self._has_news())
