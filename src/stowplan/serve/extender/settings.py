"""What an extender can be told."""

from __future__ import annotations

import math
from dataclasses import dataclass

from stowplan.errors import InvalidInput

__all__ = ["ExtenderSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtenderSettings:
    """Settings of one extender.

    Attributes:
        budget_s: how long an answer may take in seconds; what took longer is answered as if the extender knew
            nothing.
        slow_in_a_row: after so many answers in a row that took too long, or failed, the extender rests.
        rest_s: for how long, in seconds, it then answers at once and without asking its policy.
        in_flight_s: how long, in seconds, a pod that was scored counts as being on its best node, unless the
            cluster says sooner where it is; 0: not at all.
        largest_body_bytes: requests that are larger are refused.
        schedulers: whose pods are expected to be asked about, by `spec.schedulerName`.
        silent_after: after so many of their pods in a row that were given a node without a question, though
            there was a choice, kube-scheduler counts as not asking any more; 0: never.
    """

    budget_s: float = 0.05
    slow_in_a_row: int = 3
    rest_s: float = 5.0
    in_flight_s: float = 2.0
    largest_body_bytes: int = 64 * 2**20
    schedulers: tuple[str, ...] = ("default-scheduler",)
    silent_after: int = 3

    def __post_init__(self) -> None:
        """Refuse what cannot be meant.

        Raises:
            InvalidInput: a number is out of its range.
        """
        for name, amount, least in (
            ("budget_s", self.budget_s, 0.0),
            ("rest_s", self.rest_s, 0.0),
            ("in_flight_s", self.in_flight_s, -math.ulp(0.0)),
        ):
            if not (math.isfinite(amount) and amount > least):
                raise InvalidInput(f"extender: {name} is {amount}; write a number of seconds above 0")
        for name, count, least in (
            ("slow_in_a_row", self.slow_in_a_row, 1),
            ("largest_body_bytes", self.largest_body_bytes, 1024),
            ("silent_after", self.silent_after, 0),
        ):
            if count < least:
                raise InvalidInput(f"extender: {name} is {count}; write at least {least}")
