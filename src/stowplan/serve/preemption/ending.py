"""Ends a pod that must make room: says so in its status first, then deletes it.

The condition `DisruptionTarget` tells the pod's controller that it did not fail by itself (KEP-3329: a Job
does not count it against its limit). Both requests name the pod's uid, so another pod of that name is left
alone; both can be sent again when an answer was lost. A pod that was marked and cannot be deleted is
unmarked.
Source: `PreemptPod` in kubernetes pkg/scheduler/framework/preemption/executor.go, 1.37.
"""

from __future__ import annotations

import asyncio
import random
import time as clock
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Any, Final, TypeVar

import structlog

from stowplan.kube.api import times
from stowplan.kube.api.backoff import Backoff
from stowplan.kube.api.client import ApiClient, Patch, PatchKind
from stowplan.kube.api.errors import Conflict, Invalid, KubernetesError, NotFound, Refused
from stowplan.kube.api.resources import PODS
from stowplan.kube.api.status import DISRUPTION_TARGET, PREEMPTION
from stowplan.kube.live.pod import LivePod
from stowplan.serve.preemption.interface import PreemptorSettings

__all__ = ["Ended", "PodEnder"]

_LOG = structlog.get_logger(__name__)
_UNMARK: Final = {"conditions": [{"type": DISRUPTION_TARGET, "$patch": "delete"}]}

Json = dict[str, Any]
T = TypeVar("T")


class Ended(Enum):
    """What became of a pod that was to be ended."""

    DELETED = "deleted"
    GONE = "gone"  # it was deleted before, or another has its name


class PodEnder:
    """Ends pods, so many at once.

    Args:
        client: where.
        settings: limits.
        generator: where the lengths of pauses come from.
        monotonic: a clock in seconds.
        wall: a clock in seconds since the epoch.
    """

    def __init__(
        self,
        client: ApiClient,
        settings: PreemptorSettings,
        *,
        generator: random.Random,
        monotonic: Callable[[], float] = clock.monotonic,
        wall: Callable[[], float] = clock.time,
    ) -> None:
        self._client = client
        self._settings = settings
        self._generator = generator
        self._monotonic = monotonic
        self._wall = wall
        self._turns = asyncio.Semaphore(settings.requests)

    async def end(self, pod: LivePod, message: str) -> Ended:
        """End a pod; `message` says in its status what for.

        Raises:
            KubernetesError: it could not be ended, and is as it was, unless the log says otherwise.
        """
        async with self._turns:
            deadline_s = self._monotonic() + self._settings.within_s
            marked = await self._until(deadline_s, lambda: self._mark(pod, message))
            if marked is Ended.GONE:
                return marked
            try:
                return await self._until(deadline_s, lambda: self._delete(pod))
            except KubernetesError:
                await self._unmark(pod)
                raise

    async def _mark(self, pod: LivePod, message: str) -> Ended | None:
        condition = {
            "type": DISRUPTION_TARGET,
            "status": "True",
            "reason": PREEMPTION,
            "message": message,
            "lastTransitionTime": times.time(self._wall()),
        }
        return await self._patch(pod, {"conditions": [condition]})

    async def _unmark(self, pod: LivePod) -> None:
        try:
            await self._patch(pod, _UNMARK)
        except KubernetesError as error:
            # The disruption controller takes such a condition back after two minutes.
            _LOG.warning("pod stays marked as preempted", pod=pod.key, error=str(error))

    async def _patch(self, pod: LivePod, status: Json) -> Ended | None:
        patch = Patch(PatchKind.STRATEGIC, {"metadata": {"uid": pod.uid}, "status": status})
        try:
            await self._client.patch(PODS, pod.name, patch, pod.namespace, "status")
        except NotFound:
            return Ended.GONE
        except Invalid as error:
            if "metadata.uid" not in str(error):
                raise
            return Ended.GONE
        return None

    async def _delete(self, pod: LivePod) -> Ended:
        try:
            await self._client.delete(PODS, pod.name, pod.namespace, uid=pod.uid)
        except (NotFound, Conflict):  # a conflict is one with the uid
            return Ended.GONE
        return Ended.DELETED

    async def _until(self, deadline_s: float, send: Callable[[], Awaitable[T]]) -> T:
        """Send until it succeeds, fails for good, or the time is over; then the last error is raised."""
        settings = self._settings
        pauses = Backoff(settings.first_pause_s, settings.longest_pause_s, self._generator)
        while True:
            try:
                return await send()
            except KubernetesError as error:
                asked_s = (error.retry_after_s or 0.0) if isinstance(error, Refused) else 0.0
                pause_s = pauses.pause_s(asked_s)
                may_help = error.is_transient or isinstance(error, Conflict)  # with another change of the pod
                if not may_help or self._monotonic() + pause_s > deadline_s:
                    raise
            await asyncio.sleep(pause_s)
