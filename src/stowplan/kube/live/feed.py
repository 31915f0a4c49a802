"""The live cluster: one reflector per kind, and a `ClusterState` that says what they tell.

Whatever order events come in, the state is in the end what `kube.manifest.load_objects` makes of the same
objects, with what is assumed on top of it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypeVar

import msgspec
import structlog

from stowplan.core.domain import ClusterState, DisruptionBudget
from stowplan.errors import InvalidObject
from stowplan.kube.api import resources
from stowplan.kube.api.client import ApiClient
from stowplan.kube.api.reflection import Health, Identity, Receiver, ReflectorState, Settings
from stowplan.kube.api.reflector import Reflector
from stowplan.kube.api.resources import Resource
from stowplan.kube.live.cluster import BudgetKind, OwnerKind, PriorityKind, read_told_namespace
from stowplan.kube.live.listener import ClusterChange, Listener
from stowplan.kube.live.namespaces import NamespaceBook
from stowplan.kube.live.nodes import NodeBook
from stowplan.kube.live.pod import LivePod
from stowplan.kube.live.pods import PodBook
from stowplan.kube.live.storage import StorageBook, StorageKind
from stowplan.kube.manifest.context import ShapeContext

__all__ = ["ClusterFeed"]

_OWNERS: Final = (
    resources.SERVICES,
    resources.REPLICATION_CONTROLLERS,
    resources.REPLICA_SETS,
    resources.STATEFUL_SETS,
)
_STORAGE: Final = (
    resources.VOLUMES,
    resources.CLAIMS,
    resources.STORAGE_CLASSES,
    resources.CSI_NODES,
    resources.CSI_DRIVERS,
    resources.CSI_CAPACITIES,
    resources.VOLUME_ATTACHMENTS,
)
REPORT_S: Final = 1.0  # between two looks at how the reflectors fare
_log = structlog.get_logger(__name__)

T = TypeVar("T")


class ClusterFeed:
    """Keeps a state in step with a cluster, and tells listeners what changes.

    Everything happens in the event loop's thread: between two awaits of a reader nothing changes.

    Args:
        client: where the cluster is.
        state: changed here and by the engine only.
        settings: how patient the reflectors are.
        monotonic: a clock in seconds.
    """

    def __init__(
        self,
        client: ApiClient,
        state: ClusterState,
        *,
        settings: Settings | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.state = state
        self._client = client
        self._settings = settings
        self._monotonic = monotonic
        self._listeners: list[Listener] = []
        self._budgets: dict[str, DisruptionBudget] = {}
        self.budgets: Mapping[str, DisruptionBudget] = MappingProxyType(self._budgets)
        self._reflectors: dict[str, Reflector[Any]] = {}
        self._logged: dict[tuple[str, str], str] = {}
        context = ShapeContext()

        def tell(change: ClusterChange) -> Callable[[], None]:
            return partial(self._tell, change)

        namespaces = NamespaceBook(state, tell(ClusterChange.NAMESPACE))
        self._pods = PodBook(state, context, namespaces, self._listeners)
        self.pods = self._pods.pods
        nodes = NodeBook(state, self._pods, self._tell)
        budgets = BudgetKind(self._budgets, tell(ClusterChange.BUDGET))
        priorities = PriorityKind(context, self._pods, tell(ClusterChange.PRIORITY_CLASS))
        storage = StorageBook(state, namespaces, tell(ClusterChange.STORAGE))
        self._follow(resources.NODES, nodes.read, nodes)
        self._follow(resources.NAMESPACES, read_told_namespace, namespaces)
        self._follow(resources.PRIORITY_CLASSES, priorities.read, priorities)
        for resource in _STORAGE:
            stored = StorageKind(storage, resource.kind)
            self._follow(resource, stored.read, stored)
        for resource in _OWNERS:
            owner = OwnerKind(resource.kind, context, self._pods, namespaces, tell(ClusterChange.OWNERS))
            self._follow(resource, owner.read, owner)
        self._follow(resources.POD_DISRUPTION_BUDGETS, budgets.read, budgets)
        self._follow(resources.PODS, self._pods.reader.read, self._pods)

    # ---- following ----

    def listen(self, listener: Listener) -> None:
        """Tell a listener from now on; what is there already can be read."""
        self._listeners.append(listener)

    async def run(self) -> None:
        """Follow all kinds until cancelled. It may be run again: it goes on where it was."""
        async with asyncio.TaskGroup() as group:
            for kind, reflector in self._reflectors.items():
                group.create_task(reflector.run(), name=f"reflector of {kind}")
            group.create_task(self._report(), name="report of reflectors")

    @property
    def is_settled(self) -> bool:
        """Whether every kind was listed once, or does not exist: only then may anyone decide."""
        return all(reflector.health.is_settled for reflector in self._reflectors.values())

    @property
    def health(self) -> Mapping[str, Health]:
        """How the reflector of each kind fares, by kind (`Pod`, `Node` …)."""
        found = {kind: reflector.health for kind, reflector in self._reflectors.items()}
        problems = self._pods.problems
        if problems:
            pods = found[resources.PODS.kind]
            found[resources.PODS.kind] = dataclasses.replace(pods, unusable={**problems, **pods.unusable})
        return found

    async def _report(self) -> None:
        """Log when a kind cannot be followed, and when it is followed again."""
        troubled: dict[str, ReflectorState] = {}
        while True:
            for kind, reflector in self._reflectors.items():
                health = reflector.health
                if health.state in (ReflectorState.WAITING, ReflectorState.ABSENT):
                    if troubled.get(kind) is not health.state:
                        _log.warning(
                            "kind cannot be followed", kind=kind, state=health.state.value, error=health.error
                        )
                    troubled[kind] = health.state
                elif health.state is ReflectorState.WATCHING and troubled.pop(kind, None) is not None:
                    _log.info("kind is followed again", kind=kind, lists=health.lists)
            await asyncio.sleep(REPORT_S)

    def _follow(
        self, resource: Resource, read: Callable[[bytes | msgspec.Raw], T], receiver: Receiver[T]
    ) -> None:
        kind = resource.kind
        self._reflectors[kind] = Reflector(
            self._client,
            resource,
            partial(self._read, kind, read),
            receiver,
            settings=self._settings,
            monotonic=self._monotonic,
        )

    def _read(self, kind: str, read: Callable[[bytes | msgspec.Raw], T], raw: bytes | msgspec.Raw) -> T:
        """Read an object; what cannot be used is logged once, and told by the reflector's health."""
        try:
            return read(raw)
        except Exception as error:
            self._complain(kind, raw, str(error))
            raise

    def _complain(self, kind: str, raw: bytes | msgspec.Raw, why: str) -> None:
        key = _IDENTITIES.decode(raw).metadata.key
        if self._logged.get((kind, key)) == why:
            return
        unusable = self._reflectors[kind].health.unusable
        self._logged = {
            entry: text for entry, text in self._logged.items() if entry[0] != kind or entry[1] in unusable
        }
        self._logged[kind, key] = why
        _log.warning("object cannot be used", kind=kind, object=key, reason=why)

    def _tell(self, change: ClusterChange) -> None:
        for listener in self._listeners:
            listener.cluster_changed(change)

    def peek(self, raw: bytes) -> LivePod:
        """Read a pod that somebody else shows, as it would be if the API server had told it; it is not kept.

        Raises:
            InvalidObject: it has a field that cannot be used.
        """
        try:
            return self._pods.peek(_IDENTITIES.decode(raw).metadata, raw)
        except msgspec.DecodeError as error:
            raise InvalidObject(f"a pod: {error}") from None

    # ---- what the scheduler assumes ----

    def assume(self, pod: LivePod, node_name: str) -> None:
        """Believe that a pod is on a node: call it right after the cycle, for each placement.

        The engine has applied the binding to the state. From then on, the watch confirms it, or moves the
        pod, or takes it away.

        Raises:
            InternalError: there is no such pod any more, or it may not be bound.
        """
        self._pods.assume(pod, node_name)

    def is_assumed(self, pod: LivePod) -> bool:
        """Whether a pod is on a node only by our belief: the watch has said nothing of it.

        As long as this is so, the state holds the pod there, and only then may `Engine.forget` be called.
        """
        return self._pods.is_assumed(pod)

    def drop(self, pod: LivePod) -> None:
        """Give up a belief. `Engine.forget` was called before."""
        self._pods.drop(pod)

    def nominate(self, pod: LivePod, node_name: str) -> None:
        """Note that the API server has taken in for which node a pod is nominated; "" for none.

        So nobody takes the room that is being made for it before the watch tells. Nothing happens when the
        pod does not wait any more.
        """
        self._pods.nominate(pod, node_name)


class _Identified(msgspec.Struct):
    metadata: Identity


_IDENTITIES: Final = msgspec.json.Decoder(_Identified)
