"""Tells in a pod's status why it does not run, and for which node it waits.

The condition `PodScheduled=False` with reason `Unschedulable` is what cluster autoscalers look for; without
it no node is ever added for a pod. It is written only when it says something new: a patch per pod and cycle
would be most of the load on the API server.
Source: kubernetes pkg/scheduler/schedule_one.go (updatePod), pkg/scheduler/util (PatchPodStatus), 1.37.
"""

import enum
import time as clock
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stowplan.kube.api import times
from stowplan.kube.api.client import ApiClient, Patch, PatchKind
from stowplan.kube.api.errors import Invalid, NotFound
from stowplan.kube.api.resources import PODS

__all__ = [
    "CONDITION",
    "DISRUPTION_TARGET",
    "PREEMPTION",
    "PodReference",
    "SchedulingStatus",
    "StatusWriter",
    "UnscheduledReason",
    "Written",
    "status_patch",
]

CONDITION = "PodScheduled"
DISRUPTION_TARGET = "DisruptionTarget"
"""The condition of a pod that is about to be ended for another's sake."""
PREEMPTION = "PreemptionByScheduler"
"""Its reason when a scheduler makes room."""

Json = dict[str, Any]


class UnscheduledReason(enum.StrEnum):
    """Why a pod is not scheduled, in the API's words."""

    UNSCHEDULABLE = "Unschedulable"
    SCHEDULER_ERROR = "SchedulerError"
    SCHEDULING_GATED = "SchedulingGated"


class Written(enum.Enum):
    """What became of a status."""

    WRITTEN = "written"
    UNCHANGED = "unchanged"  # it said so already: nothing was sent
    GONE = "gone"  # the pod was deleted, or another has its name


@dataclass(frozen=True, slots=True)
class PodReference:
    """A pod, and no other of its name."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class SchedulingStatus:
    """What a pod's status says about its scheduling.

    Attributes:
        reason: Of the condition PodScheduled=False; empty when there is no such condition.
        message: Of the same.
        nominated_node: The node that is being emptied for it; empty for none.
    """

    reason: str = ""
    message: str = ""
    nominated_node: str = ""


def status_patch(
    pod: PodReference, now: SchedulingStatus, wanted: SchedulingStatus, wall_s: float
) -> Json | None:
    """The strategic merge patch of the status subresource, or None when there is nothing to change.

    Args:
        pod: Whose status; the patch is refused for another pod of that name.
        now: What the status says.
        wanted: What it is to say; an empty reason leaves the condition as it is.
        wall_s: The time in seconds since the epoch.
    """
    status: Json = {}
    if wanted.reason and (wanted.reason, wanted.message) != (now.reason, now.message):
        condition: Json = {
            "type": CONDITION,
            "status": "False",
            "reason": wanted.reason,
            "message": wanted.message,
        }
        if not now.reason:  # the time of the last change of `status`, not of the words
            condition["lastTransitionTime"] = times.time(wall_s)
        status["conditions"] = [condition]
    if wanted.nominated_node != now.nominated_node:
        status["nominatedNodeName"] = wanted.nominated_node or None
    return {"metadata": {"uid": pod.uid}, "status": status} if status else None


class StatusWriter:
    """Writes what the scheduler has to say into pods' statuses.

    Args:
        client: Where.
        wall: A clock in seconds since the epoch.
    """

    def __init__(self, client: ApiClient, *, wall: Callable[[], float] = clock.time) -> None:
        self._client = client
        self._wall = wall

    async def write(self, pod: PodReference, now: SchedulingStatus, wanted: SchedulingStatus) -> Written:
        """Make the status say what is wanted.

        Args:
            pod: Whose status.
            now: What it says as far as is known.
            wanted: What it is to say.

        Raises:
            KubernetesError: It could not be written.
        """
        body = status_patch(pod, now, wanted, self._wall())
        if body is None:
            return Written.UNCHANGED
        patch = Patch(PatchKind.STRATEGIC, body)
        try:
            await self._client.patch(PODS, pod.name, patch, pod.namespace, "status")
        except NotFound:
            return Written.GONE
        except Invalid as error:
            if "metadata.uid" not in str(error):
                raise
            return Written.GONE
        return Written.WRITTEN
