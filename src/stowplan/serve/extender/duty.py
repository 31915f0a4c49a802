"""Whether an extender is fit to answer, and what it answers when it is not.

An extender that fails must not make pods wait: it answers as if it knew nothing (neutrally), counts that by
cause, and says so until it is well again. One that is slow, or fails again and again, rests: for a while it
answers at once and spares kube-scheduler, which asks one pod after the other, the same wait for each.
"""

from __future__ import annotations

from enum import StrEnum

from stowplan.serve.extender.settings import ExtenderSettings

__all__ = ["Cause", "Duty"]


class Cause(StrEnum):
    """Why an answer is neutral."""

    NOT_SETTLED = "not_settled"
    """The cluster is not wholly known (yet)."""
    SCORING_FAILED = "scoring_failed"
    """The policy, or what it is asked about, raised an error."""
    OVER_BUDGET = "over_budget"
    RESTING = "resting"
    """After failures or slow answers in a row."""
    POD_UNREADABLE = "pod_unreadable"
    """The pod has a field that the reader cannot use."""
    NO_PREFERENCE = "no_preference"
    """All is well: the policy prefers none of the nodes."""


class Duty:
    """Keeps account of one extender's fitness."""

    def __init__(self, settings: ExtenderSettings) -> None:
        """Start fit."""
        self._settings = settings
        self._bad_in_a_row = 0
        self._rests_until_s = float("-inf")
        self._why = ""

    @property
    def why(self) -> str:
        """What is wrong, in words; empty: nothing. Holds until an answer is good again."""
        return self._why

    def rests(self, now_s: float) -> bool:
        """Whether to answer without asking the policy."""
        return now_s < self._rests_until_s

    def failed(self, why: str, now_s: float) -> None:
        """Note an answer that failed, or took too long."""
        self._why = why
        self._bad_in_a_row += 1
        if self._bad_in_a_row >= self._settings.slow_in_a_row:
            self._rests_until_s = now_s + self._settings.rest_s
            # The first answer after the rest decides whether to rest again.
            self._bad_in_a_row = self._settings.slow_in_a_row - 1

    def succeeded(self) -> None:
        """Note an answer that was given in time."""
        self._why = ""
        self._bad_in_a_row = 0
