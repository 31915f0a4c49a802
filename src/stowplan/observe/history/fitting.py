"""Learning durations anew beside the event loop.

A fit is Python that computes: in a thread it would take the interpreter away from the scheduler for tens of
milliseconds at a time where there is much to learn from (50,000 observations: 1 to 1.5 s). So a long history
is fitted in a process of its own, which reads it by itself and hands back the finished model.
"""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Collection
from concurrent.futures import ProcessPoolExecutor
from typing import Final

from stowplan.observe.history.durations import DurationModel
from stowplan.observe.history.store import HistoryStore

__all__ = ["fit_model"]

_FEW: Final = 5000  # executions; fewer are fitted in a thread within a tenth of a second


def _fit(store: HistoryStore, now_s: float, running: Collection[str]) -> DurationModel:
    return DurationModel(store.observations(now_s, running=running))


def _fit_at(url: str, now_s: float, running: Collection[str]) -> DurationModel:
    store = HistoryStore.open(url)
    try:
        return _fit(store, now_s, running)
    finally:
        store.close()


def _count(store: HistoryStore) -> int:
    return store.counts()["executions"]


async def fit_model(
    store: HistoryStore, url: str, now_s: float, running: Collection[str], *, few: int = _FEW
) -> DurationModel:
    """Return the model that follows from the history.

    Args:
        store: the history.
        url: where it is, for another process; empty: there is none, it is fitted here.
        now_s: the time, seconds since the epoch.
        running: uids of the pods that run now.
        few: so many executions are fitted in a thread of this process.

    Raises:
        HistoryError: the history cannot be read.
    """
    if not url or await asyncio.to_thread(_count, store) <= few:
        return await asyncio.to_thread(_fit, store, now_s, running)
    pool = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))
    try:
        return await asyncio.get_running_loop().run_in_executor(pool, _fit_at, url, now_s, running)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
