"""Seeks room for pods of higher priority that found no node: asks the preemptor, one pod after the other.

A search may take several requests; the pod is in flight meanwhile, so that no cycle looks at it twice and no
event is lost to it. Pods of equal shape are not asked for again in the same round once one got nothing. Pods
for which there is no place in a round are looked at again after it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from stowplan.core.domain import ClusterState, PendingTask, PodShape
from stowplan.errors import StowplanError
from stowplan.serve.scheduler.interface import Preemptor
from stowplan.serve.scheduler.queue import QueuedPod, SchedulingQueue
from stowplan.serve.scheduler.settings import SchedulerSettings

__all__ = ["RoomSeeker"]

_LOG = structlog.get_logger(__name__)

Asked = Callable[[QueuedPod, frozenset[str], str], None]
"""Told of the pod, what refused it, and the message about it, when the preemptor has done what it can."""


@dataclass(frozen=True, slots=True)
class _Search:
    entry: QueuedPod
    task: PendingTask
    refused_by: frozenset[str]
    message: str


class RoomSeeker:
    """Asks the preemptor in the background."""

    def __init__(
        self,
        preemptor: Preemptor,
        queue: SchedulingQueue,
        asked: Asked,
        settings: SchedulerSettings,
        work: Callable[[], None],
    ) -> None:
        """Ask `preemptor` for pods of `queue`.

        Args:
            preemptor: makes room.
            queue: the waiting pods.
            asked: told after each answer.
            settings: limits.
            work: called when there is work for the loop.
        """
        self._work = work
        self._preemptor = preemptor
        self._queue = queue
        self._asked = asked
        self._settings = settings
        self._searches: deque[_Search] = deque()
        self._wake = asyncio.Event()
        self._in_vain: set[PodShape] = set()
        self._missed: list[QueuedPod] = []

    def lowest_priority(self, state: ClusterState) -> int | None:
        """Return the lowest priority among pods that have a node; None: there are none.

        Pods of no higher priority need not ask: nobody has to make way for them.
        """
        return min((pod.shape.priority for pod, _ in state.pods.values()), default=None)

    def seek(self, entry: QueuedPod, task: PendingTask, refused_by: frozenset[str], message: str) -> bool:
        """Seek room for an active pod, which is in flight until `asked` is told; False: not in this round."""
        if len(self._searches) >= self._settings.searches:
            self._missed.append(entry)
            return False
        self._queue.begin(entry)
        self._searches.append(_Search(entry, task, refused_by, message))
        self._wake.set()
        return True

    async def run(self) -> None:
        """Ask, until cancelled; searches that are left belong to pods that the next run queues anew."""
        self._searches.clear()
        while True:
            self._in_vain.clear()
            while self._searches:
                await self._ask(self._searches[0])
                self._searches.popleft()
            self._look_again_at_missed()
            self._wake.clear()
            await self._wake.wait()

    def _look_again_at_missed(self) -> None:
        missed, self._missed = self._missed, []
        is_any = False
        for entry in missed:
            if entry.pod.shape not in self._in_vain:
                is_any |= self._queue.retry(entry)
        if is_any:
            self._work()

    async def _ask(self, search: _Search) -> None:
        pod, node = search.entry.pod, ""
        if pod.shape not in self._in_vain and self._queue.get(pod.key) is search.entry:
            try:
                node = await self._preemptor.consider(pod, search.task)
            except StowplanError as error:
                _LOG.warning("no room was sought", pod=pod.key, error=str(error))
            if not node:
                self._in_vain.add(pod.shape)
        self._asked(search.entry, search.refused_by, search.message)
