"""Makes room for a pod that found no node: finds the pods that must go, and lets them go.

    1. Who may: not a pod that says so itself, and not one whose earlier victims are still being ended.
    2. Which node: the one where it does the least harm (`core.preemption`), on the state of this moment.
    3. The pod is nominated for it in its status, so that nobody else takes the room. Only then is one ended.
    4. Pods of lower priority that were nominated for the node lose that: they may not fit any more.
    5. The victims are marked, deleted and told why.

Until the first victim is deleted every step can be taken back, and is when it fails: a pod that could not be
nominated ends nobody, and one none of whose victims could be ended is not nominated. Once a victim is gone
the rest is tried, and what was done and what was not is logged; the pod stays nominated and asks again.

A victim may be anybody's pod, also one that we have only just placed and that is being bound; kube-scheduler
takes such a pod back into its queue, here it is deleted like the others. Whoever leads next after this
instance in the middle of it finds the nomination, and the victims that are being ended.
Source: kubernetes pkg/scheduler/framework/preemption (preemption.go, executor.go), 1.37.
"""

from __future__ import annotations

import asyncio
import math
import random
import time as clock
from collections.abc import Callable

import structlog

from stowplan.core.constraints import CompiledFilters
from stowplan.core.domain import PendingTask, PodShape
from stowplan.core.preemption import Candidate, search, why_not_eligible
from stowplan.kube.api.client import ApiClient
from stowplan.kube.api.errors import KubernetesError
from stowplan.kube.api.recorder import Event, EventRecorder, EventType, Regarding
from stowplan.kube.api.resources import PODS
from stowplan.kube.api.status import SchedulingStatus, StatusWriter, Written
from stowplan.kube.live.pod import LivePod
from stowplan.serve.metrics import SchedulerMetrics
from stowplan.serve.preemption.ending import Ended, PodEnder
from stowplan.serve.preemption.interface import Cluster, PreemptorSettings

__all__ = ["Preemptor"]

_LOG = structlog.get_logger(__name__)


class Preemptor:
    """Makes room for one pod at a time; victims of several may be ended at once.

    Args:
        cluster: the live cluster.
        filters_of: the filters of a shape, caught up with the state (`Engine.filters_of`).
        client: where pods are deleted.
        statuses: writes nominations.
        events: records events; whoever made it runs it.
        metrics: counts.
        settings: limits.
        generator: where the offset of a search and the lengths of pauses come from.
        monotonic: a clock in seconds.
        wall: a clock in seconds since the epoch.
    """

    def __init__(  # noqa: PLR0913 - four of them have a default that fits
        self,
        *,
        cluster: Cluster,
        filters_of: Callable[[PodShape], CompiledFilters],
        client: ApiClient,
        statuses: StatusWriter,
        events: EventRecorder,
        metrics: SchedulerMetrics,
        settings: PreemptorSettings | None = None,
        generator: random.Random | None = None,
        monotonic: Callable[[], float] = clock.monotonic,
        wall: Callable[[], float] = clock.time,
    ) -> None:
        self._cluster = cluster
        self._filters_of = filters_of
        self._statuses = statuses
        self._events = events
        self._metrics = metrics
        self._settings = settings or PreemptorSettings()
        self._generator = generator or random.Random()  # noqa: S311 - spreads searches, guards nothing
        self._monotonic = monotonic
        self._ender = PodEnder(
            client, self._settings, generator=self._generator, monotonic=monotonic, wall=wall
        )
        self._deciding = asyncio.Lock()
        self._ended: dict[str, str] = {}  # pods that are ended, before the watch tells: key → uid

    async def consider(self, pod: LivePod, task: PendingTask) -> str:
        """Make room for a pod that found no node, if that is allowed and helps.

        Args:
            pod: the pod.
            task: the same as it was decided on.

        Returns:
            The node that the pod is nominated for, which may be so from before; empty for none.

        Raises:
            KubernetesError: the nomination could not be written; nothing was done.
        """
        async with self._deciding:  # whoever is next must see this one's nomination
            now = self._waiting(pod)
            if now is None:
                return ""
            self._forget_told()
            filters = self._filters_of(now.shape)
            nominated = now.status.nominated_node
            if filters.feasible.any():  # the next cycle places it
                return nominated
            self._metrics.preemption_attempted()
            why_not = why_not_eligible(
                self._cluster.state,
                filters,
                can_preempt=now.can_preempt,
                nominated=nominated,
                is_leaving=self._is_leaving,
            )
            if why_not:
                _LOG.debug("pod may not preempt", pod=task.key, reason=why_not)
                return nominated
            candidate = self._search(now, filters)
            if not await self._nominate(now, "" if candidate is None else candidate.node_name):
                return ""
        if candidate is None:
            return ""
        return await self._make_room(now, candidate)

    # ---- deciding ----

    def _waiting(self, pod: LivePod) -> LivePod | None:
        """Return the pod as it is now, or None when it does not wait any more."""
        now = self._cluster.pods.get(pod.key)
        if now is None or now.uid != pod.uid or not now.is_waiting or self._cluster.is_assumed(now):
            return None
        return now

    def _is_leaving(self, key: str) -> bool:
        pod = self._cluster.pods.get(key)
        return pod is not None and (pod.is_preempted or self._ended.get(key) == pod.uid)

    def _forget_told(self) -> None:
        """Forget pods that we ended and that the watch has told of since."""
        pods = self._cluster.pods
        for key, uid in list(self._ended.items()):
            pod = pods.get(key)
            if pod is None or pod.uid != uid or pod.is_terminating:
                del self._ended[key]

    def _started_s(self, key: str) -> float:
        pod = self._cluster.pods.get(key)
        return math.inf if pod is None or pod.started_s is None else pod.started_s

    def _search(self, pod: LivePod, filters: CompiledFilters) -> Candidate | None:
        began_s = self._monotonic()
        budgets = self._cluster.budgets
        found = search(
            self._cluster.state,
            filters,
            [budgets[key] for key in sorted(budgets)],
            self._started_s,
            settings=self._settings.search,
            generator=self._generator,
        )
        took_s = self._monotonic() - began_s
        self._metrics.preemption_evaluated(took_s)
        _LOG.info(
            "room sought",
            pod=pod.key,
            node=found.best.node_name if found.best else "",
            victims=[victim.key for victim in found.best.victims] if found.best else [],
            violations=found.best.violations if found.best else 0,
            candidates=len(found.candidates),
            examined=found.examined,
            potential=found.potential,
            took_s=round(took_s, 6),
        )
        return found.best

    # ---- acting ----

    async def _nominate(self, pod: LivePod, node_name: str) -> bool:
        """Say in a pod's status for which node it is nominated; tell whether the pod is still there."""
        if pod.status.nominated_node == node_name:
            return True
        wanted = SchedulingStatus(nominated_node=node_name)
        if await self._statuses.write(pod.reference, pod.status, wanted) is Written.GONE:
            return False
        self._cluster.nominate(pod, node_name)
        return True

    async def _make_room(self, pod: LivePod, candidate: Candidate) -> str:
        """End the victims; return the node, or "" when none of them could be ended."""
        node_name = candidate.node_name
        await self._withdraw_lower(pod, node_name)
        victims = [self._cluster.pods.get(victim.key) for victim in candidate.victims]
        to_end = [
            victim
            for victim in victims
            if victim is not None and not victim.is_terminating and not self._is_leaving(victim.key)
        ]
        self._metrics.preempted(len(candidate.victims), candidate.violations)
        said = await asyncio.gather(*(self._end(victim, pod, node_name) for victim in to_end))
        failed = {victim.key: why for victim, why in zip(to_end, said, strict=True) if why}
        if not failed:
            return node_name
        is_vain = len(failed) == len(candidate.victims)
        _LOG.warning(
            "room is not made" if is_vain else "room is made in part",
            pod=pod.key,
            node=node_name,
            ended=[victim.key for victim in to_end if victim.key not in failed],
            failed=failed,
        )
        if is_vain:
            await self._take_back(pod, node_name)
            return ""
        return node_name

    async def _withdraw_lower(self, pod: LivePod, node_name: str) -> None:
        """Take the nominations for the node from pods of lower priority; it is no harm if that fails."""
        there = self._cluster.state.nominations.on.get(node_name, {})
        lower = [key for key, one in there.items() if one.shape.priority < pod.shape.priority]
        for other in [self._cluster.pods[key] for key in lower if key in self._cluster.pods]:
            try:
                await self._nominate(other, "")
            except KubernetesError as error:
                _LOG.warning("nomination is not withdrawn", pod=other.key, node=node_name, error=str(error))

    async def _end(self, victim: LivePod, pod: LivePod, node_name: str) -> str:
        """End a victim and tell of it; return why it could not be ended, "" when it is."""
        name = pod.shape.scheduler_name
        try:
            ended = await self._ender.end(victim, f"{name}: preempting to accommodate a higher priority pod")
        except KubernetesError as error:
            return str(error)
        self._ended[victim.key] = victim.uid
        if ended is Ended.DELETED:
            # The uid alone: who may see the victim need not know of pods elsewhere.
            note = f"Preempted by pod {pod.uid} on node {node_name}"
            about = Regarding(PODS, victim.name, victim.uid, victim.namespace)
            self._events.record(Event(about, EventType.NORMAL, "Preempted", "Preempting", note))
        return ""

    async def _take_back(self, pod: LivePod, node_name: str) -> None:
        now = self._waiting(pod)
        if now is not None and now.status.nominated_node == node_name:
            try:
                await self._nominate(now, "")
            except KubernetesError as error:
                _LOG.warning("nomination is not withdrawn", pod=pod.key, node=node_name, error=str(error))
