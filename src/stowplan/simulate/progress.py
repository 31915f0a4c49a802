"""How far a run is, for whoever watches it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Observer", "RunProgress"]


@dataclass(frozen=True, slots=True)
class RunProgress:
    """How far a run is. `tasks` counts all of the workload."""

    now_s: float
    tasks: int
    ended_tasks: int
    pending_tasks: int
    running_tasks: int


Observer = Callable[[RunProgress], None]
