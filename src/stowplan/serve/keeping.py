"""The history of a running service: opened beside it, written beside it, and never in its way.

A database that cannot be opened when the service starts is tried again with growing pauses; until then
records are lost, which is counted and told. One that is damaged, foreign or of a newer version will not mend
itself: that is told too, and the service runs on without a history.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from typing import Final

import structlog

from stowplan.kube.api.backoff import Backoff
from stowplan.observe.history import (
    HistoryError,
    HistoryStore,
    HistoryWriter,
    Record,
    Retention,
)
from stowplan.serve.sections import HistoryConfig

__all__ = ["KeptHistory"]

_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 60.0
_STOP_S: Final = 10.0
_DAY_S: Final = 86400.0

_LOG = structlog.get_logger(__name__)


class KeptHistory:
    """The history at a URL; without a URL, none.

    Attributes:
        store: for questions; None until it could be opened.
    """

    def __init__(self, config: HistoryConfig, *, wall: Callable[[], float] = time.time) -> None:
        """Keep the history that `config` names, once `run` runs."""
        self._config = config
        self._wall = wall
        self._writer: HistoryWriter | None = None
        self._error = ""
        self._lost = 0
        self.store: HistoryStore | None = None

    def put(self, record: Record) -> bool:
        """Keep a record; return whether there was room. Takes microseconds."""
        if self._writer is None:
            self._lost += bool(self._config.url)
            return False
        return self._writer.put(record)

    @property
    def why_degraded(self) -> str:
        """What is wrong, in words; empty: nothing, or no history is wanted."""
        if self._error or self._writer is None:
            return self._error
        state = self._writer.state
        return state.error if state.is_degraded else ""

    @property
    def status(self) -> Mapping[str, object]:
        """How it is doing, as plain values."""
        found: dict[str, object] = {"where": self.store.where if self.store is not None else None}
        if self._writer is not None:
            state = self._writer.state
            found |= {"queued": state.queued, "written": state.written, "dropped": dict(state.dropped)}
        if self._lost:
            found["lost_before_it_was_open"] = self._lost
        if self.why_degraded:
            found["error"] = self.why_degraded
        return found

    async def open(self) -> None:
        """Try to open it once; what fails is told by `why_degraded`."""
        if not self._config.url or self.store is not None:
            return
        try:
            self.store = await asyncio.to_thread(HistoryStore.open, self._config.url)
        except HistoryError as error:
            if str(error) != self._error:
                _LOG.warning("history cannot be opened", reason=str(error))
            self._error = str(error)
            return
        self._error = ""
        self._writer = HistoryWriter(
            self.store, self._wall, retention=Retention(age_s=self._config.keep_days * _DAY_S)
        )
        self._writer.start()
        _LOG.info("history is kept", where=self.store.where)

    async def run(self) -> None:
        """Open it, with growing pauses until it is open; then keep it open until cancelled."""
        pauses = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S, random.Random())  # noqa: S311 - spreads pauses, guards nothing
        try:
            while self._config.url and self.store is None:
                await self.open()
                if self.store is None:
                    await asyncio.sleep(pauses.pause_s())
            await asyncio.Event().wait()
        finally:
            await asyncio.shield(asyncio.to_thread(self._close))

    def _close(self) -> None:
        if self._writer is not None:
            state = self._writer.stop(_STOP_S)
            if state.queued or state.dropped:
                _LOG.warning("history is not whole", queued=state.queued, dropped=dict(state.dropped))
        if self.store is not None:
            self.store.close()
