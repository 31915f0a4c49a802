"""How long look-ahead may go on: asked before each further plan, and made anew for every cycle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

__all__ = ["Budget", "Counted", "MakeBudget", "Timed"]


class Budget(Protocol):
    """What is left of a cycle's time."""

    def is_spent(self) -> bool:
        """Tell whether no further plan may be examined."""
        ...

    def is_over(self) -> bool:
        """Tell whether even the plan under examination must be given up."""
        ...


MakeBudget = Callable[[], Budget]


class Counted:
    """So many plans, whatever the time: for simulation, and to decide again as was decided once."""

    def __init__(self, plans: int) -> None:
        """Allow `plans` plans."""
        self._left = plans

    def is_spent(self) -> bool:
        """Count one plan, or tell that there is none left."""
        self._left -= 1
        return self._left < 0

    def is_over(self) -> bool:
        """Never: a plan that was begun is examined."""
        return False


class Timed:
    """So many seconds by a clock that only goes forward."""

    def __init__(self, limit_s: float, monotonic: Callable[[], float]) -> None:
        """Begin now."""
        self._monotonic = monotonic
        self._ends_s = monotonic() + limit_s

    def is_spent(self) -> bool:
        """Tell whether the time is over."""
        return self.is_over()

    def is_over(self) -> bool:
        """Tell whether the time is over."""
        return self._monotonic() >= self._ends_s
