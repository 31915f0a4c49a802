"""How the scheduler fares, for `stowplan status`, health and logs; and what works in a lesser way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import structlog

from stowplan.core.decoder import Degraded

__all__ = ["Degradations", "LastCycle", "SchedulerStatus"]

_ENGINE = "engine"
_POLICY = "policy "

_LOG = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LastCycle:
    """What came of the last cycle: when it ended (seconds since the epoch), how long it took, how many."""

    ended_s: float
    duration_s: float
    placed: int
    waiting: int
    infeasible: int
    deferred: int


@dataclass(frozen=True, slots=True)
class SchedulerStatus:
    """How the scheduler fares.

    Attributes:
        queues: pods by state: active, backoff, unschedulable, gated, in_flight.
        under_way: placements that are being carried out, those included whose outcome is not known.
        closed: nodes that take no pods for a moment.
        is_draining: whether no new cycle will begin.
        last_cycle: None before the first.
        degraded: what works in a lesser way, and why, by component; empty when all is well.
    """

    queues: Mapping[str, int]
    under_way: int
    closed: Sequence[str]
    is_draining: bool
    last_cycle: LastCycle | None
    degraded: Mapping[str, str]


class Degradations:
    """What the cycles had to do without, by component."""

    def __init__(self) -> None:
        """Start well."""
        self._why: dict[str, str] = {}

    @property
    def why(self) -> Mapping[str, str]:
        """What works in a lesser way, and why."""
        return self._why

    def cycle_failed(self, error: Exception) -> None:
        """Note that a cycle came to nothing; called while the error is handled."""
        self._why[_ENGINE] = f"{type(error).__name__}: {error}"
        _LOG.exception("cycle failed")

    def cycled(self, degraded: Degraded | None) -> None:
        """Note that a cycle came to its end, and what failed in it."""
        now = degraded.component if degraded is not None else ""
        for component in [name for name in self._why if name == _ENGINE or name.startswith(_POLICY)]:
            if component != now:
                del self._why[component]
                _LOG.info("recovered", component=component)
        if degraded is not None:
            if degraded.component not in self._why:
                _LOG.warning(
                    "degraded",
                    component=degraded.component,
                    reason=degraded.reason,
                    used_instead=degraded.used_instead,
                )
            self._why[degraded.component] = degraded.reason
