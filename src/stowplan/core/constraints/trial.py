"""One node as it would be with other pods on it, judged by every filter without touching the state.

This is what preemption asks: would the pod fit if those pods were gone, and still if this one stayed?
kube-scheduler asks in the same way, twice where pods are nominated for the node that go before this one: with
them as if they ran there, and without them (`RunFilterPluginsWithNominatedPods`).
"""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.core.constraints.filter import RowTrial, Verdict
from stowplan.core.domain import BoundPod

__all__ = ["NodeTrial"]


class NodeTrial:
    """The filters of one pod shape on trial for one node; it is valid until the state changes."""

    __slots__ = ("_nominated", "_trials")

    def __init__(self, trials: Sequence[RowTrial], nominated: Sequence[BoundPod]) -> None:
        """Begin with the pods that are there now.

        Args:
            trials: one for each filter, in order.
            nominated: the pods that are nominated for the node and go before the one to place.
        """
        self._trials = trials
        self._nominated = nominated

    def remove(self, pod: BoundPod) -> None:
        """Let a pod go that is on the node."""
        for one in self._trials:
            one.count(pod, -1)

    def restore(self, pod: BoundPod) -> None:
        """Let a pod come back."""
        for one in self._trials:
            one.count(pod, 1)

    def verdict(self) -> Verdict:
        """Return what the first filter that refuses says; that all accept the pod if none does."""
        if self._nominated:
            for pod in self._nominated:
                self.restore(pod)
            beside = self._alone()
            for pod in self._nominated:
                self.remove(pod)
            if beside is not Verdict.ACCEPTS:
                return beside
        return self._alone()

    def _alone(self) -> Verdict:
        for one in self._trials:
            verdict = one.verdict()
            if verdict is not Verdict.ACCEPTS:
                return verdict
        return Verdict.ACCEPTS
