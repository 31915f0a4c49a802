"""Waits until others have bound a pod, as the watch shows it."""

from __future__ import annotations

import asyncio

from stowplan.kube.live.listener import ClusterChange
from stowplan.kube.live.pod import LivePod
from stowplan.serve.scheduler.interface import Feed

__all__ = ["Arrivals"]


class Arrivals:
    """A `Listener` of the feed that lets whoever waits for a pod go on."""

    def __init__(self, feed: Feed) -> None:
        """Begin to listen."""
        self._feed = feed
        self._waiting: dict[str, asyncio.Future[LivePod | None]] = {}  # by uid
        feed.listen(self)

    async def of(self, pod: LivePod) -> LivePod | None:
        """Wait until the pod has a node; return it as it is then, or None: it never will have one."""
        now = self._feed.pods.get(pod.key)
        if now is None or now.uid != pod.uid or not now.is_waiting:
            return now if now is not None and now.uid == pod.uid and now.node_name else None
        arrived: asyncio.Future[LivePod | None] = asyncio.get_running_loop().create_future()
        self._waiting[pod.uid] = arrived
        try:
            return await arrived
        finally:
            self._waiting.pop(pod.uid, None)

    # ---- Listener ----

    def pod_set(self, before: LivePod | None, now: LivePod) -> None:
        """Notice where a pod is bound, or that it will not be."""
        del before
        if not now.is_waiting:
            self._tell(now.uid, now if now.node_name else None)

    def pod_gone(self, last: LivePod) -> None:
        """Notice that a pod was deleted."""
        self._tell(last.uid, None)

    def cluster_changed(self, change: ClusterChange) -> None:
        """Nothing here depends on it."""
        del change

    def _tell(self, uid: str, pod: LivePod | None) -> None:
        arrived = self._waiting.get(uid)
        if arrived is not None and not arrived.done():
            arrived.set_result(pod)
