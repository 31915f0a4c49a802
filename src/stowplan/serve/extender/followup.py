"""What became of the pods that were asked about, as the watch tells it.

A binding turns the answer into a decision. A pod that got a node without a question, though others could
have taken it, is a sign that kube-scheduler does not reach the extender: one may have passed by while the
extender was started, several in a row are a fault. kube-scheduler does not ask when only one node is left.

Where several kube-schedulers stand by for one another, each with an extender beside it, only the one that
leads asks. So silence is a fault only while the last question is not long ago.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from stowplan.kube.live.listener import ClusterChange
from stowplan.kube.live.pod import LivePod
from stowplan.serve.extender.answers import Answer, Answers
from stowplan.serve.extender.metrics import Binding, ExtenderMetrics
from stowplan.serve.extender.settings import ExtenderSettings

__all__ = ["FollowUp"]

_LONG_AGO_S: Final = 600.0


class FollowUp:
    """A `Listener` that compares bindings with answers.

    Attributes:
        answers: what was answered; an answer is taken from it when its pod is bound.
        unasked: pods so far that were bound without a question, though there was a choice.
    """

    def __init__(
        self,
        settings: ExtenderSettings,
        metrics: ExtenderMetrics,
        *,
        monotonic: Callable[[], float],
        choices: Callable[[LivePod], int],
        on_bound: Callable[[LivePod, Answer], None],
        on_gone: Callable[[LivePod], None],
    ) -> None:
        """Follow up on `answers`.

        Args:
            settings: whose pods are expected to be asked about.
            metrics: counts.
            monotonic: seconds that only grow.
            choices: tells how many nodes could take a pod.
            on_bound: told when a pod was bound that was scored.
            on_gone: told when a pod was deleted.
        """
        self.answers = Answers()
        self._settings = settings
        self._metrics = metrics
        self._monotonic = monotonic
        self._asked_s: float | None = None
        self._choices = choices
        self._on_bound = on_bound
        self._on_gone = on_gone
        self._unasked_in_a_row = 0
        self.unasked = 0

    @property
    def silent_s(self) -> float | None:
        """Seconds since the last question; None: there was none."""
        return None if self._asked_s is None else self._monotonic() - self._asked_s

    @property
    def is_silent(self) -> bool:
        """Whether kube-scheduler binds pods and does not ask any more."""
        silent_s = self.silent_s
        if silent_s is None or silent_s > _LONG_AGO_S:
            return False
        return 0 < self._settings.silent_after <= self._unasked_in_a_row

    @property
    def why(self) -> str:
        """What is wrong, in words; empty: nothing."""
        if not self.is_silent:
            return ""
        return (
            f"kube-scheduler gave the last {self._unasked_in_a_row} pods a node without asking; check that "
            "its configuration names this extender and that it reaches it"
        )

    def was_asked(self) -> None:
        """Note a question."""
        self._unasked_in_a_row = 0
        self._asked_s = self._monotonic()

    def pod_set(self, before: LivePod | None, now: LivePod) -> None:
        """Take notice of a pod that was bound just now."""
        if not now.node_name or (before is not None and before.node_name and before.uid == now.uid):
            return
        answer = self.answers.take(now.uid)
        if answer is None:
            if before is not None and before.is_waiting and before.uid == now.uid:
                self._bound_unasked(now)
            return
        if not answer.is_preference:
            self._metrics.bound(Binding.NEUTRAL)
            return
        self._metrics.bound(Binding.BEST if answer.is_best(now.node_name) else Binding.OTHER)
        self._on_bound(now, answer)

    def pod_gone(self, last: LivePod) -> None:
        """Take notice of a pod that was deleted."""
        self.answers.take(last.uid)
        self._on_gone(last)

    def cluster_changed(self, change: ClusterChange) -> None:
        """Nothing follows from it here."""

    def _bound_unasked(self, pod: LivePod) -> None:
        if pod.shape.scheduler_name not in self._settings.schedulers:
            return
        # Whether there was a choice is only looked up until the fault is certain: it takes a while.
        if not self.is_silent and self._choices(pod) < 2:
            return
        self.unasked += 1
        self._unasked_in_a_row += 1
        self._metrics.bound(Binding.UNASKED)
