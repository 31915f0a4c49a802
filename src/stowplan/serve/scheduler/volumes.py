"""Gives a pod's claims their volumes before the pod is bound, as kube-scheduler's VolumeBinding does.

A claim that waited for its first consumer gets either a volume that exists, which is reserved for it
(`spec.claimRef`; the volume controller completes the binding), or an order to its provisioner to make one for
the chosen node (annotation `selected-node`). Then the claims are waited for, up to ten minutes. Whatever was
written is taken back when a later write fails. What was waited for in vain stays: a provisioner may be at
work, and takes its annotation back itself when it fails; a reservation of a volume is withdrawn.

Source: kubernetes pkg/scheduler/framework/plugins/volumebinding/binder.go (BindPodVolumes), 1.37.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec
import structlog

from stowplan.core.decoder import Placed
from stowplan.core.domain import PersistentVolume, PersistentVolumeClaim
from stowplan.kube.api.binder import Gone, NotBound
from stowplan.kube.api.client import ApiClient, Patch, PatchKind
from stowplan.kube.api.errors import Conflict, KubernetesError, NotFound
from stowplan.kube.api.resources import CLAIMS, VOLUMES, Resource
from stowplan.kube.live.listener import ClusterChange
from stowplan.kube.live.pod import LivePod
from stowplan.serve.scheduler.interface import ActOutcome, Feed

__all__ = ["VolumeClaimer"]

WITHIN_S: Final = 600.0
_LOOK_EVERY_S: Final = 5.0
_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
_BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"

Json = dict[str, Any]

_LOG = structlog.get_logger(__name__)


class _Reference(msgspec.Struct):
    namespace: str = ""
    name: str = ""
    uid: str = ""


class _Metadata(msgspec.Struct):
    name: str
    uid: str
    version: str = msgspec.field(name="resourceVersion")
    namespace: str = ""
    annotations: dict[str, str] = msgspec.field(default_factory=dict[str, str])


class _Spec(msgspec.Struct):
    claim: _Reference | None = msgspec.field(default=None, name="claimRef")
    volume: str = msgspec.field(default="", name="volumeName")


class _Object(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)


_OBJECTS: Final = msgspec.json.Decoder(_Object)


class _TakenElsewhere(Exception):
    """A volume or claim is no longer as the decision took it to be."""


class VolumeClaimer:
    """Claims volumes for pods; a `Listener` of the feed, which tells when storage changed.

    Args:
        client: the API server.
        feed: the live cluster.
        within_s: how long the volumes of one pod are waited for.
        monotonic: a clock in seconds.
    """

    def __init__(
        self,
        client: ApiClient,
        feed: Feed,
        *,
        within_s: float = WITHIN_S,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._feed = feed
        self._within_s = within_s
        self._monotonic = monotonic
        self._wakers: set[asyncio.Event] = set()
        feed.listen(self)

    async def claim(self, pod: LivePod, placed: Placed) -> ActOutcome | None:
        """Claim what the placement takes, and wait for it; None: all is bound, the pod may be."""
        written: list[PersistentVolume | PersistentVolumeClaim] = []
        try:
            for item in placed.storage:
                await self._write(item)
                written.append(item)
        except (KubernetesError, _TakenElsewhere) as error:
            await self._take_back(written)
            return _not_bound(error)
        why = await self._wait(pod, placed)
        if why is None:
            return None
        await self._take_back([item for item in written if isinstance(item, PersistentVolume)])
        _LOG.warning("volumes not bound", pod=pod.key, node=placed.node_name, why=why)
        if not self._is_there(pod):
            return Gone(why)
        return NotBound(KubernetesError(why), is_transient=True)

    # ---- Listener ----

    def pod_set(self, before: LivePod | None, now: LivePod) -> None:
        """Pods that end while they wait for volumes are noticed at the next look."""
        del before, now

    def pod_gone(self, last: LivePod) -> None:
        """The same."""
        del last

    def cluster_changed(self, change: ClusterChange) -> None:
        """Have all who wait look again."""
        if ClusterChange.STORAGE in change or ClusterChange.NODE_REMOVED in change:
            for waker in self._wakers:
                waker.set()

    # ---- writing ----

    async def _write(self, item: PersistentVolume | PersistentVolumeClaim) -> None:
        if isinstance(item, PersistentVolumeClaim):
            await self._select_node(item)
            return
        volume = await self._get(VOLUMES, item.name)
        held = volume.spec.claim
        namespace, name = item.claim or ("", "")
        if held is not None and held.uid == item.claim_uid:
            return  # an earlier try has reserved it
        if held is not None and (held.uid or (held.namespace, held.name) != (namespace, name)):
            raise _TakenElsewhere(f"volume {item.name} was taken by claim {held.namespace}/{held.name}")
        reference = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": namespace,
            "name": name,
            "uid": item.claim_uid,
        }
        annotations = {_BOUND_BY_CONTROLLER: "yes"} if held is None else {}
        await self._patch(VOLUMES, volume, annotations, {"claimRef": reference})

    async def _select_node(self, item: PersistentVolumeClaim) -> None:
        claim = await self._get(CLAIMS, item.name, item.namespace)
        if claim.metadata.uid != item.uid:
            raise _TakenElsewhere(f"claim {item.namespace}/{item.name} was replaced")
        selected = claim.metadata.annotations.get(_SELECTED_NODE)
        if selected == item.selected_node or claim.spec.volume:
            return
        if selected:
            raise _TakenElsewhere(f"the volume of claim {item.namespace}/{item.name} is made for {selected}")
        await self._patch(CLAIMS, claim, {_SELECTED_NODE: item.selected_node or ""}, None)

    async def _take_back(self, written: list[PersistentVolume | PersistentVolumeClaim]) -> None:
        for item in reversed(written):
            try:
                await self._take_back_one(item)
            except KubernetesError as error:
                _LOG.warning("volume still reserved", item=item.name, error=str(error))

    async def _take_back_one(self, item: PersistentVolume | PersistentVolumeClaim) -> None:
        if isinstance(item, PersistentVolumeClaim):
            claim = await self._get(CLAIMS, item.name, item.namespace)
            is_ours = claim.metadata.annotations.get(_SELECTED_NODE) == item.selected_node
            if is_ours and claim.metadata.uid == item.uid and not claim.spec.volume:
                await self._patch(CLAIMS, claim, {_SELECTED_NODE: None}, None)
            return
        volume = await self._get(VOLUMES, item.name)
        held, (namespace, name) = volume.spec.claim, item.claim or ("", "")
        if held is None or held.uid != item.claim_uid:
            return
        claim = await self._get(CLAIMS, name, namespace)
        if claim.spec.volume != item.name:  # else the controller has bound it: then it is the claim's
            await self._patch(VOLUMES, volume, {_BOUND_BY_CONTROLLER: None}, {"claimRef": None})

    async def _get(self, resource: Resource, name: str, namespace: str | None = None) -> _Object:
        return _OBJECTS.decode(await self._client.get(resource, name, namespace))

    async def _patch(self, resource: Resource, seen: _Object, annotations: Json, spec: Json | None) -> None:
        """Change an object, if it is still as it was seen."""
        metadata: Json = {"uid": seen.metadata.uid, "resourceVersion": seen.metadata.version}
        if annotations:
            metadata["annotations"] = annotations
        body: Json = {"metadata": metadata}
        if spec is not None:
            body["spec"] = spec
        patch = Patch(PatchKind.MERGE, body)
        await self._client.patch(resource, seen.metadata.name, patch, seen.metadata.namespace or None)

    # ---- waiting ----

    async def _wait(self, pod: LivePod, placed: Placed) -> str | None:
        """Wait until the pod's claims are bound; return why they will not be, or None."""
        deadline_s = self._monotonic() + self._within_s
        waker = asyncio.Event()
        self._wakers.add(waker)
        ordered: set[tuple[str, str]] = set()
        try:
            while True:
                waker.clear()
                is_bound, why = self._look(pod, placed, ordered)
                if is_bound or why:
                    return why or None
                left_s = deadline_s - self._monotonic()
                if left_s <= 0.0:
                    return f"its volumes were not bound within {self._within_s:g} s"
                try:
                    async with asyncio.timeout(min(left_s, _LOOK_EVERY_S)):
                        await waker.wait()
                except TimeoutError:
                    continue
        finally:
            self._wakers.discard(waker)

    def _look(self, pod: LivePod, placed: Placed, ordered: set[tuple[str, str]]) -> tuple[bool, str]:
        """Tell whether all claims of the placement are bound, and why one will not be.

        `ordered` keeps the claims that the watch has shown with our order to their provisioner: one that
        loses it after that has failed, one without it before that is only old news.
        """
        storage = self._feed.state.storage
        if not self._is_there(pod):
            return False, f"{pod.key} is gone"
        if self._feed.state.row(placed.node_name) < 0:
            return False, f"node {placed.node_name} is gone"
        is_bound = True
        for item in placed.storage:
            key = (item.namespace, item.name) if isinstance(item, PersistentVolumeClaim) else item.claim
            claim = storage.claims.get(key or ("", ""))
            if claim is None:
                return False, f"claim {'/'.join(key or ())} is gone"
            if claim.is_fully_bound:
                continue
            is_bound = False
            if isinstance(item, PersistentVolumeClaim):
                has_order = claim.selected_node == item.selected_node
                if not has_order and (claim.selected_node or (claim.namespace, claim.name) in ordered):
                    return False, f"no volume could be made for claim {claim.namespace}/{claim.name} there"
                if has_order and claim is not item:  # not the one that we assume
                    ordered.add((claim.namespace, claim.name))
            elif item.name not in storage.volumes:
                return False, f"volume {item.name} is gone"
        return is_bound, ""

    def _is_there(self, pod: LivePod) -> bool:
        now = self._feed.pods.get(pod.key)
        return now is not None and now.uid == pod.uid and not now.is_terminating


def _not_bound(error: KubernetesError | _TakenElsewhere) -> NotBound:
    if isinstance(error, _TakenElsewhere):
        return NotBound(KubernetesError(str(error)), is_transient=True)
    return NotBound(error, is_transient=error.is_transient or isinstance(error, Conflict | NotFound))
