"""Whether the process is alive and ready, as named checks that anybody can read.

A check answers with an empty string, or says in words what is wrong. Liveness is for what only a restart
helps; readiness is for what passes by itself. A component that works in a lesser way is neither: it is told
as degraded, in the status and as a metric.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

__all__ = ["Checks"]

Check = Callable[[], str]


class Checks:
    """The checks of one process."""

    def __init__(self) -> None:
        """Start without any: alive and ready."""
        self._alive: dict[str, Check] = {}
        self._ready: dict[str, Check] = {}

    def alive(self, name: str, check: Check) -> None:
        """Add what must hold, or the process is better started anew."""
        self._alive[name] = check

    def ready(self, name: str, check: Check) -> None:
        """Add what must hold before work is sent here."""
        self._ready[name] = check

    def liveness(self) -> Mapping[str, str]:
        """Ask every check of liveness; what is wrong by name, empty where all is well."""
        return {name: check() for name, check in self._alive.items()}

    def readiness(self) -> Mapping[str, str]:
        """Ask every check of readiness; what is wrong by name, empty where all is well."""
        return {name: check() for name, check in self._ready.items()}
