"""One run of one task, as far as its duration goes: an end that was seen, or only that it took longer.

What is a duration and what is not: a run that did its work to the end is one. A run that still goes on, or
that was cut off from outside (evicted, its node lost), took longer than it had by then: a bound, known as
right censoring. A run that failed or passed its memory limit says nothing about how long the work takes, and
gives no observation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from stowplan.core.domain import ClassKey, WorkShape
from stowplan.errors import InvalidInput

__all__ = ["Observation"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """How long a task of class `key` ran.

    `elapsed_s` is the duration where `is_complete`, else a lower bound of it. `run` names the workflow run
    (its uid), `item` the item of a fan-out ("" without one), `node_class` the kind of machine ("" unknown),
    `seen_s` when it ended or was looked at, in seconds since the epoch.
    """

    key: ClassKey
    elapsed_s: float
    run: str
    seen_s: float
    is_complete: bool = True
    item: str = ""
    node_class: str = ""
    shape: WorkShape | None = None

    def __post_init__(self) -> None:
        """Refuse a time that no run can have.

        Raises:
            InvalidInput: `elapsed_s` is negative, or a time is NaN or infinite.
        """
        if not (math.isfinite(self.elapsed_s) and self.elapsed_s >= 0.0):
            raise InvalidInput(
                f"{self.key.in_words()}: elapsed_s is {self.elapsed_s}; it must be finite and ≥ 0"
            )
        if not math.isfinite(self.seen_s):
            raise InvalidInput(f"{self.key.in_words()}: seen_s is {self.seen_s}; it must be finite")
