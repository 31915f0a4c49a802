"""What the watch says, as changes of the queue, of placements under way and of closed nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from stowplan.kube.live.listener import ClusterChange
from stowplan.kube.live.pod import LivePod
from stowplan.serve.metrics import SchedulerMetrics
from stowplan.serve.scheduler.flights import Flights
from stowplan.serve.scheduler.hints import Happening, happenings_of
from stowplan.serve.scheduler.holds import NodeHolds, is_refusal
from stowplan.serve.scheduler.interface import Actuator, Feed
from stowplan.serve.scheduler.queue import SchedulingQueue
from stowplan.serve.scheduler.teller import Teller

__all__ = ["Intake"]

# By whether a pod has come to a node, and whether one has gone: flags are slow to combine.
_CHANGES: Final = {
    (False, False): Happening(0),
    (True, False): Happening.POD_BOUND,
    (False, True): Happening.POD_GONE,
    (True, True): Happening.POD_BOUND | Happening.POD_GONE,
}

_LOG = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Intake:
    """A `Listener` of the feed.

    Attributes:
        feed, queue, flights, holds, actuator, metrics: of the scheduler.
        teller: None: nothing is told to anyone.
        selects: which pods are ours to place.
        monotonic, wall: clocks in seconds.
        wake: called when there may be work.
    """

    feed: Feed
    queue: SchedulingQueue
    flights: Flights
    holds: NodeHolds
    actuator: Actuator
    metrics: SchedulerMetrics
    teller: Teller | None
    selects: Callable[[LivePod], bool]
    monotonic: Callable[[], float]
    wall: Callable[[], float]
    wake: Callable[[], None]

    def begin(self) -> None:
        """Queue what waits now, and nothing else, as if it had been seen when it was created.

        So a new leader keeps the order of arrival. What comes later arrives when it is seen: a clock that is
        set must not reorder the queue.
        """
        self.queue.clear()
        now_s, wall_s = self.monotonic(), self.wall()
        for pod in list(self.feed.pods.values()):
            if pod.is_waiting:
                self._take_in(pod, now_s - max(wall_s - pod.created_s, 0.0))
        self.wake()

    # ---- Listener ----

    def pod_set(self, before: LivePod | None, now: LivePod) -> None:
        """Take in a pod that appeared or changed."""
        self.flights.seen(now)
        if now.is_waiting:
            self._take_in(now)
        else:
            self._leave_out(now)
        if now.node_name and is_refusal(now) and (before is None or before.phase != now.phase):
            self._hold(now)
        self._happened(_change_of(before, now), "PodChange")

    def pod_gone(self, last: LivePod) -> None:
        """Take in that a pod was deleted."""
        self.flights.gone(last)
        self._leave_out(last)
        if (last.node_name and not last.has_ended) or last.status.nominated_node:
            self._happened(Happening.POD_GONE, "PodDelete")

    def cluster_changed(self, change: ClusterChange) -> None:
        """Take in that something else changed that placement depends on."""
        self._happened(happenings_of(change), change.name or "ClusterChange")

    # ---- parts ----

    def _happened(self, happened: Happening, event: str) -> None:
        if self.queue.wake(happened, event):
            self.wake()

    def _take_in(self, pod: LivePod, ready_s: float | None = None) -> None:
        if not self.selects(pod):
            self._leave_out(pod)
        elif not self.feed.is_assumed(pod):
            self.queue.set(self.actuator.seen(pod), self.monotonic(), ready_s)
            self.wake()

    def _leave_out(self, pod: LivePod) -> None:
        entry = self.queue.get(pod.key)
        if entry is not None and entry.pod.uid == pod.uid:
            self.queue.remove(pod.key)
        if self.teller is not None:
            self.teller.forget(pod.uid)

    def _hold(self, pod: LivePod) -> None:
        for_s = self.holds.refused(pod.node_name, self.monotonic())
        self.metrics.kubelet_rejected(pod.reason)
        _LOG.warning(
            "kubelet refused a pod",
            pod=pod.key,
            node=pod.node_name,
            reason=pod.reason,
            message=pod.message,
            is_ours=self.selects(pod),
            closed_s=for_s,
        )


def _change_of(before: LivePod | None, now: LivePod) -> Happening:
    """Return what the change of a pod can be to others that wait."""
    was_there = before is not None and bool(before.node_name) and not before.has_ended
    is_there = bool(now.node_name) and not now.has_ended
    is_other = before is not None and is_there and was_there and before.shape != now.shape
    # Room was kept for it where it was nominated.
    had_room_kept = before is not None and before.status.nominated_node not in ("", now.status.nominated_node)
    has_come = is_other or (is_there and not was_there)
    has_gone = is_other or had_room_kept or (was_there and not is_there)
    return _CHANGES[has_come, has_gone]
