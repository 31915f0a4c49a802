"""Tells in pods' statuses and events what was decided about them, off the path on which pods are placed.

A condition is written when a pod waits for the first time, again when other filters are the reason, at most
every `status_refresh_s`, and when only the counts have changed, at most every `status_counts_s`: with
thousands waiting, those change with every cycle. What cannot be written is tried again. What has no place in
the queue is counted and dropped; the next cycle that decides on the pod tells it again.
"""

from __future__ import annotations

import asyncio
import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

import structlog

from stowplan.core.decoder import Placed
from stowplan.kube.api.errors import KubernetesError
from stowplan.kube.api.recorder import Event, EventRecorder, EventType, Regarding
from stowplan.kube.api.resources import PODS
from stowplan.kube.api.status import SchedulingStatus, StatusWriter, UnscheduledReason, Written
from stowplan.kube.live.pod import LivePod
from stowplan.serve.metrics import SchedulerMetrics
from stowplan.serve.scheduler.settings import SchedulerSettings

__all__ = ["Teller"]

_EVENT_COUNTS_EVERY_S = 5.0

_LOG = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Told:
    """What was last told of a pod, and what is to be told next."""

    message: str = ""
    refused_by: frozenset[str] = frozenset()
    at_s: float = float("-inf")
    next: tuple[LivePod, str, frozenset[str]] | None = None


class Teller:
    """Conditions and events of waiting and placed pods.

    Args:
        statuses: writes conditions.
        events: records events; whoever made it runs it.
        metrics: counts what is dropped.
        settings: limits.
        waits: whether a pod still waits: what is out of date by the time of its turn is not written.
        monotonic: a clock in seconds.
    """

    def __init__(
        self,
        statuses: StatusWriter,
        events: EventRecorder,
        metrics: SchedulerMetrics,
        settings: SchedulerSettings,
        *,
        waits: Callable[[LivePod], bool],
        monotonic: Callable[[], float],
    ) -> None:
        self._statuses = statuses
        self._events = events
        self._metrics = metrics
        self._settings = settings
        self._waits = waits
        self._monotonic = monotonic
        self._told: dict[str, _Told] = {}  # by uid
        self._due: list[tuple[float, int, str]] = []
        self._numbers = count()
        self._wake = asyncio.Event()
        self._dropped_events = 0
        self.failing = ""
        """What the last write failed with; empty when it succeeded."""

    @property
    def waiting(self) -> int:
        """Conditions that wait to be written."""
        return len(self._due)

    def unschedulable(self, pod: LivePod, message: str, refused_by: frozenset[str]) -> None:
        """Tell that a pod found no node, and why; returns at once."""
        told = self._told.get(pod.uid)
        if told is None:
            says_so = pod.status.reason == UnscheduledReason.UNSCHEDULABLE
            told = self._told[pod.uid] = _Told(pod.status.message if says_so else "")
        if told.message == message:
            told.next, told.refused_by = None, refused_by
            return
        now_s, earliest_s = self._monotonic(), -math.inf
        if told.message and told.refused_by == refused_by:
            if now_s < told.at_s + self._settings.status_counts_s:
                return
        elif told.message:
            earliest_s = told.at_s + self._settings.status_refresh_s
        is_queued = told.next is not None
        if not is_queued and len(self._due) >= self._settings.statuses:
            self._metrics.write_dropped("condition")
            return
        told.next = pod, message, refused_by
        if not is_queued:
            heapq.heappush(self._due, (max(earliest_s, now_s), next(self._numbers), pod.uid))
            self._wake.set()

    def bound(self, pod: LivePod, placed: Placed) -> None:
        """Tell that a pod was bound; returns at once."""
        note = f"Successfully assigned {pod.key} to {placed.node_name}{_why(placed)}"
        self._events.record(Event(_regarding(pod), EventType.NORMAL, "Scheduled", "Binding", note))

    def let_go(self, pod: LivePod, placed: Placed, node_name: str) -> None:
        """Tell that a pod's turn had come, and where others have bound it since; returns at once."""
        where = "" if node_name == placed.node_name else f" (kube-scheduler chose {node_name})"
        note = f"Let go for {placed.node_name}{where}{_why(placed)}"
        self._events.record(Event(_regarding(pod), EventType.NORMAL, "Ungated", "Ordering", note))

    def not_bound(self, pod: LivePod, node_name: str, why: str) -> None:
        """Tell that a placement failed; returns at once."""
        note = f"binding to {node_name} failed: {why}"
        self._events.record(
            Event(_regarding(pod), EventType.WARNING, "FailedScheduling", "Binding", note),
        )

    def forget(self, uid: str) -> None:
        """Forget what was told of a pod that no longer waits."""
        self._told.pop(uid, None)

    async def run(self) -> None:
        """Write what is to be told, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self._settings.status_writers):
                tasks.create_task(self._write())
            tasks.create_task(self._count_events())

    async def _write(self) -> None:
        while True:
            uid = await self._take()
            told = self._told.get(uid)
            if told is None or told.next is None:
                continue
            pod, message, refused_by = told.next
            told.next = None
            if not self._waits(pod):
                continue
            now = SchedulingStatus(UnscheduledReason.UNSCHEDULABLE if told.message else "", told.message)
            told.at_s, told.message, told.refused_by = self._monotonic(), message, refused_by
            self._events.record(
                Event(_regarding(pod), EventType.WARNING, "FailedScheduling", "Scheduling", message)
            )
            await self._send(told, pod, now, SchedulingStatus(UnscheduledReason.UNSCHEDULABLE, message))

    async def _send(self, told: _Told, pod: LivePod, now: SchedulingStatus, wanted: SchedulingStatus) -> None:
        # Neither status names a nominated node, so none is written: that is the preemptor's to say.
        try:
            written = await self._statuses.write(pod.reference, now, wanted)
        except KubernetesError as error:
            if not self.failing:
                _LOG.warning("condition not written", pod=pod.key, error=str(error))
            self.failing = str(error)
            self._again(told, pod, wanted.message)
        else:
            self.failing = ""
            if written is Written.GONE:
                self.forget(pod.uid)

    def _again(self, told: _Told, pod: LivePod, message: str) -> None:
        """Try again after a while what could not be written, or what is to be told by then."""
        told.message = ""
        if told.next is None and self._told.get(pod.uid) is told:
            told.next = pod, message, told.refused_by
            due_s = self._monotonic() + self._settings.status_retry_s
            heapq.heappush(self._due, (due_s, next(self._numbers), pod.uid))

    async def _take(self) -> str:
        """Wait until a condition is due, and return whose."""
        while True:
            now_s = self._monotonic()
            if self._due and self._due[0][0] <= now_s:
                return heapq.heappop(self._due)[2]
            self._wake.clear()
            pause_s = self._due[0][0] - now_s if self._due else None
            try:
                async with asyncio.timeout(pause_s):
                    await self._wake.wait()
            except TimeoutError:
                continue

    async def _count_events(self) -> None:
        while True:
            await asyncio.sleep(_EVENT_COUNTS_EVERY_S)
            dropped = sum(self._events.health.dropped.values())
            if dropped > self._dropped_events:
                self._metrics.write_dropped("event", dropped - self._dropped_events)
            self._dropped_events = dropped


def _regarding(pod: LivePod) -> Regarding:
    return Regarding(PODS, pod.name, pod.uid, pod.namespace)


def _why(placed: Placed) -> str:
    explanation = placed.explanation
    return "" if explanation is None else f": {explanation.in_words(placed.node_name)}"
