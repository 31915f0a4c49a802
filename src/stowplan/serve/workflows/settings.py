"""How patient the book of live workflows is."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BookSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BookSettings:
    """All in seconds.

    Attributes:
        refit_s: durations are learnt anew at most so often, and only if tasks have ended.
        linger_s: a workflow that has ended is kept for so long, for the last words of its pods.
        unknown_s: a pod whose workflow nobody has seen for so long belongs to none.
        tick_s: how often health is looked at and what is over is dropped.
        slice_s: facts are applied for so long at a time; then whatever else waits has its turn.
        templates_s: workflows wait so long for the templates to be listed, and are then read without.
    """

    refit_s: float = 60.0
    linger_s: float = 60.0
    unknown_s: float = 10.0
    tick_s: float = 1.0
    slice_s: float = 0.005
    templates_s: float = 10.0
