"""Shadow mode: decides on pods of all schedulers as they wait, binds nothing, reserves nothing, compares.

When others have bound a pod, the policy is asked how long it would have run where it went and where it would
have gone, both at that moment and beside what runs there then. The difference is what Stowplan would have
changed for this pod, in its own belief; what the pod then really takes is in the history.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import structlog

from stowplan.core.decoder import Placed
from stowplan.core.engine import Engine
from stowplan.errors import StowplanError
from stowplan.kube.live.pod import LivePod
from stowplan.observe.history import Decision, DecisionMode
from stowplan.serve.scheduler.arrivals import Arrivals
from stowplan.serve.scheduler.interface import (
    ActOutcome,
    ComparisonSink,
    Feed,
    Released,
    ShadowComparison,
    TaskBook,
)

__all__ = ["ShadowActuator", "as_decision"]

_UNKNOWN_VERSION: Final = ""

_LOG = structlog.get_logger(__name__)


class ShadowActuator:
    """Notes where pods would have gone, and compares.

    Args:
        feed: the live cluster.
        engine: foretells durations; the one that decides.
        tasks: what pods are in their workflows.
        compared: told of each comparison.
        monotonic: a clock in seconds.
        wall: a clock in seconds since the epoch.
    """

    reserves = False
    binds = False
    backlog = 0

    def __init__(
        self,
        feed: Feed,
        engine: Engine,
        tasks: TaskBook,
        compared: ComparisonSink,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._feed = feed
        self._engine = engine
        self._tasks = tasks
        self._compared = compared
        self._monotonic = monotonic
        self._wall = wall
        self._arrivals = Arrivals(feed)

    def seen(self, pod: LivePod) -> LivePod:
        """Return the pod as it is."""
        return pod

    async def act(self, pod: LivePod, placed: Placed) -> ActOutcome:
        """Wait until others have bound the pod, and compare."""
        decided_s = self._wall()
        shown = await self._arrivals.of(pod)
        if shown is None:
            return Released(f"{pod.key} was deleted or ended before it was bound")
        self._compare(shown, placed, decided_s)
        return Released(f"others bound it to {shown.node_name}")

    # ---- comparing ----

    def _compare(self, pod: LivePod, placed: Placed, decided_s: float) -> None:
        state = self._feed.state
        rows = [state.row(placed.node_name), state.row(pod.node_name)]
        if min(rows) < 0:
            _LOG.info("nothing to compare", pod=pod.key, why="a node is gone", node=placed.node_name)
            return
        now_s = self._monotonic()
        try:
            task = self._tasks.task_of(pod, now_s)
            expected_s, actual_s = self._engine.predict_s(now_s, task, rows, self._tasks.running)
        except StowplanError as error:
            _LOG.warning("nothing to compare", pod=pod.key, why=str(error), node=placed.node_name)
            return
        self._compared(
            ShadowComparison(
                pod=pod,
                node=placed.node_name,
                actual_node=pod.node_name,
                expected_s=expected_s,
                actual_expected_s=actual_s,
                decided_s=decided_s,
                bound_s=self._wall(),
                policy=self._engine.policy.name,
            )
        )


def as_decision(comparison: ShadowComparison, policy_version: str = _UNKNOWN_VERSION) -> Decision:
    """Return a comparison as the history keeps it: one decision in shadow mode per pod."""
    pod = comparison.pod
    return Decision(
        decision_id=f"shadow-{pod.uid}",
        decided_s=comparison.decided_s,
        policy=comparison.policy,
        policy_version=policy_version,
        mode=DecisionMode.SHADOW,
        pod_uid=pod.uid,
        namespace=pod.namespace,
        pod=pod.name,
        node=comparison.node,
        expected_s=comparison.expected_s,
        explanation={
            "actual_node": comparison.actual_node,
            "actual_expected_s": comparison.actual_expected_s,
            "saved_s": comparison.saved_s,
            "bound_s": comparison.bound_s,
        },
    )
