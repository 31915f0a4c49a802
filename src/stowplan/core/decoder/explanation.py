"""Why a task went where it went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["Explanation"]


@dataclass(frozen=True, slots=True)
class Explanation:
    """A decision in full: who could take the task, what refused the rest, and what made the choice.

    `margin` is the chosen score minus the runner-up's. `contributions` are the named parts of the chosen
    score, largest first.
    """

    policy: str
    candidates: int
    refused: Mapping[str, int]
    score: float
    runner_up: str | None
    margin: float | None
    expected_duration_s: float
    contributions: tuple[tuple[str, float], ...]

    def in_words(self, node_name: str) -> str:
        """Return one line for an event on the pod."""
        refused = ", ".join(f"{count} by {name}" for name, count in self.refused.items())
        parts = ", ".join(f"{name} {amount:+.3g}" for name, amount in self.contributions[:3])
        words = f"{self.policy} chose {node_name} of {self.candidates} candidates"
        if refused:
            words += f" (refused: {refused})"
        if parts:
            words += f": {parts}"
        if self.runner_up is not None and self.margin is not None:
            words += f"; {self.margin:.3g} ahead of {self.runner_up}"
        return words
