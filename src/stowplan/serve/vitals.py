"""Looks at every component from time to time, and tells when one begins or ends to work in a lesser way.

A degradation is a metric (`stowplan_degraded`), a line in the log when it begins and when it ends, and a part
of the status; nobody has to ask for it to be seen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import structlog

__all__ = ["Vitals"]

EVERY_S: Final = 1.0

_LOG = structlog.get_logger(__name__)


class _Metrics(Protocol):
    def degraded(self, component: str, reason: str) -> None: ...


class Vitals:
    """The components of one process that can work in a lesser way."""

    def __init__(self, metrics: _Metrics) -> None:
        """Tell `metrics`."""
        self._metrics = metrics
        self._sources: list[Callable[[], Mapping[str, str]]] = []
        self._last: dict[str, str] = {}

    def watch(self, component: str, why: Callable[[], str]) -> None:
        """Look at one component from now on; `why` says what is wrong, an empty string: nothing."""
        self._sources.append(lambda: {component: why()})

    def watch_many(self, components: Callable[[], Mapping[str, str]]) -> None:
        """Look at several from now on; `components` says what is wrong by component."""
        self._sources.append(components)

    def look(self) -> None:
        """Look at all once, and tell what changed."""
        now: dict[str, str] = {}
        for source in self._sources:
            now.update(source())
        for component in self._last.keys() - now.keys():
            now[component] = ""
        for component, why in now.items():
            before = self._last.get(component, "")
            self._metrics.degraded(component, why)
            if why and not before:
                _LOG.warning("degraded", component=component, reason=why)
            elif before and not why:
                _LOG.info("recovered", component=component)
        self._last = now

    async def run(self) -> None:
        """Look every second, until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(EVERY_S)
