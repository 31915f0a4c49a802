"""All pods of the cluster, and what they hold in its state.

What a pod holds follows from what is known of it: where the API server says it is, where it is assumed to be,
which node is promised to it. Whatever changes, the state is made to say just that (`_settle`). So no race has
a rule of its own: a binding confirmed, one that went elsewhere, a pod deleted or replaced while it was
assumed, a node that comes after its pods or goes before them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

import structlog

from stowplan.core.domain import (
    ClusterState,
    NominationRemoved,
    PodBound,
    PodNominated,
    PodRemoved,
)
from stowplan.errors import InternalError
from stowplan.kube.api.reflection import Identity
from stowplan.kube.live.listener import Listener
from stowplan.kube.live.namespaces import NamespaceBook
from stowplan.kube.live.pod import LivePod
from stowplan.kube.live.reader import Fixed, HeldPod, PodReader, PodSeen
from stowplan.kube.manifest.context import ShapeContext
from stowplan.kube.manifest.owners import OWNER_KINDS
from stowplan.kube.manifest.standing import standing

__all__ = ["PodBook"]

_log = structlog.get_logger(__name__)

OwnerKey = tuple[str, str, str]
"""Kind, namespace and name of a controller."""


class PodBook:
    """Receives pods; keeps them, their places in the state, and what is assumed of them.

    Args:
        state: changed as pods come, change and go.
        context: completes their shapes.
        namespaces: told which are in use.
        listeners: told after the state has changed.

    Attributes:
        pods: all pods, by key.
        problems: pods whose Argo identity cannot be used, by key, and why.
        reader: reads them.
    """

    def __init__(
        self,
        state: ClusterState,
        context: ShapeContext,
        namespaces: NamespaceBook,
        listeners: Iterable[Listener],
    ) -> None:
        self._state = state
        self._context = context
        self._namespaces = namespaces
        self._listeners = listeners
        self._pods: dict[str, HeldPod] = {}
        self.pods: Mapping[str, LivePod] = MappingProxyType(self._pods)
        self.reader = PodReader(self._pods)
        self._peeking = PodReader({})
        self._assumed: dict[str, str] = {}  # key → node
        self._strays: dict[str, set[str]] = {}  # node that is not there → pods that are bound to it
        self._owned: dict[OwnerKey, set[str]] = {}
        self._classed: set[str] = set()  # pods whose priority follows from a class
        self._problems: dict[str, str] = {}
        self.problems: Mapping[str, str] = MappingProxyType(self._problems)

    # ---- what the API server says ----

    def set(self, identity: Identity, item: PodSeen) -> None:
        """A pod is new, or changed."""
        key = identity.key
        before = self._pods.get(key)
        if before is None:
            self._namespaces.use(identity.namespace)
        if before is None or not item.is_same:
            self._forget_needs(before)
            self._note_problem(key, item.told.fixed.problem)
            self._note_needs(key, identity.namespace, item.told.fixed)
        self._take(before, self._live(key, identity, item, before))

    def delete(self, identity: Identity) -> None:
        """A pod is gone."""
        last = self._pods.pop(identity.key)
        key = last.key
        self._forget_needs(last)
        self._problems.pop(key, None)
        self._assumed.pop(key, None)
        self._leave_strays(key, last.node_name)
        self._settle(key)
        self._namespaces.leave(last.namespace)
        for listener in self._listeners:
            listener.pod_gone(last)

    def synced(self) -> None:
        """All were told: nothing is left to do."""

    def peek(self, identity: Identity, raw: bytes) -> LivePod:
        """Read a pod that was not told of, or not in this form, and keep nothing of it.

        Raises:
            InvalidObject: it has a field that cannot be used.
            msgspec.DecodeError: a field is of another type than the API says.
        """
        return self._live(identity.key, identity, self._peeking.read(raw), None)

    def _live(self, key: str, identity: Identity, seen: PodSeen, before: HeldPod | None) -> HeldPod:
        told = seen.told
        fixed = told.fixed
        wants = seen.status.nominated_node if not (told.node_name or seen.is_terminating) else ""
        if (
            before is not None
            and seen.is_same
            and not before.has_ended  # what changes around those is nothing to them
            and bool(before.shape.own_nomination) == bool(wants)
        ):
            shape = before.shape  # current: whoever changes the context completes it anew
        else:
            shape = self._context.complete(fixed.shape, fixed.needs, own_nomination=key if wants else "")
        return HeldPod(
            key=key,
            namespace=identity.namespace,
            name=identity.name,
            uid=identity.uid,
            shape=shape,
            phase=seen.phase,
            node_name=told.node_name,
            is_terminating=seen.is_terminating,
            created_s=before.created_s if before is not None else seen.created_s,
            started_s=seen.started_s,
            status=before.status if before is not None and before.status == seen.status else seen.status,
            reason=seen.reason,
            message=seen.message,
            can_preempt=told.can_preempt,
            owner=told.owner,
            identity=told.identity,
            main=before.main if before is not None and before.main == seen.main else seen.main,
            is_preempted=seen.is_preempted,
            fixed=fixed,
        )

    def _take(self, before: HeldPod | None, now: HeldPod) -> None:
        self._pods[now.key] = now  # even one that is equal: what spares reading it may be new
        if now == before:
            return
        if not now.is_waiting:  # bound: a fact now; ended or being deleted: it never will be
            self._assumed.pop(now.key, None)
        self._settle(now.key)
        for listener in self._listeners:
            listener.pod_set(before, now)

    # ---- what the scheduler assumes ----

    def assume(self, pod: LivePod, node_name: str) -> None:
        """Believe that a pod is on a node. The engine has applied that to the state.

        Raises:
            InternalError: there is no such pod any more, or it may not be bound.
        """
        known = self._pods.get(pod.key)
        if known is None or known.uid != pod.uid or not known.is_waiting:
            raise InternalError(
                f"pod {pod.key!r} was assumed on {node_name!r}, but it does not wait for a node"
            )
        self._assumed[known.key] = node_name
        self._settle(known.key)

    def is_assumed(self, pod: LivePod) -> bool:
        """Whether only our belief puts the pod on a node; then the state holds it there."""
        known = self._pods.get(pod.key)
        return known is not None and known.uid == pod.uid and pod.key in self._assumed

    def drop(self, pod: LivePod) -> None:
        """Give up a belief."""
        if self.is_assumed(pod):
            del self._assumed[pod.key]
            self._settle(pod.key)

    def nominate(self, pod: LivePod, node_name: str) -> None:
        """Note which node the API server now says that a waiting pod is promised, before the watch tells."""
        known = self._pods.get(pod.key)
        if known is not None and known.uid == pod.uid and known.is_waiting:
            fixed = known.fixed
            own = known.key if node_name else ""
            shape = self._context.complete(fixed.shape, fixed.needs, own_nomination=own)
            status = dataclasses.replace(known.status, nominated_node=node_name)
            self._take(known, dataclasses.replace(known, shape=shape, status=status))

    # ---- what changes around pods ----

    def node_came(self, name: str) -> None:
        """Put the pods on a node that are bound to it; the state has it now."""
        for key in sorted(self._strays.pop(name, ())):
            self._settle(key)

    def node_goes(self, name: str) -> None:
        """Take all pods off a node, which can then be removed from the state."""
        for key in list(self._state.pods_on[self._state.row(name)]):
            self._state.apply(PodRemoved(key))
            self._assumed.pop(key, None)
            pod = self._pods.get(key)
            if pod is not None and pod.node_name == name:
                self._strays.setdefault(name, set()).add(key)
            elif pod is not None:  # it was assumed there: what it was promised counts again
                self._settle(key)

    def priorities_changed(self) -> None:
        """Complete the pods anew whose priority follows from a class."""
        self._complete(sorted(self._classed))

    def services_changed(self, namespaces: Collection[str]) -> None:
        """Complete the pods of these namespaces anew."""
        self._complete([key for key, pod in self._pods.items() if pod.namespace in namespaces])

    def controller_changed(self, kind: str, namespace: str, name: str) -> None:
        """Complete the pods of a controller anew."""
        self._complete(sorted(self._owned.get((kind, namespace, name), ())))

    def _complete(self, keys: list[str]) -> None:
        for key in keys:
            pod = self._pods[key]
            if not pod.has_ended:
                fixed = pod.fixed
                shape = self._context.complete(
                    fixed.shape, fixed.needs, own_nomination=pod.shape.own_nomination
                )
                self._take(pod, dataclasses.replace(pod, shape=shape))

    # ---- what follows ----

    def _settle(self, key: str) -> None:
        """Make the state say of a pod what is known of it."""
        state, pod = self._state, self._pods.get(key)
        wanted = None
        if pod is not None:
            wanted = standing(
                key,
                pod.shape,
                uid=pod.uid,
                phase=pod.phase,
                node_name=pod.node_name or self._assumed.get(key, ""),
                nominated_node=pod.status.nominated_node,
                is_deleting=pod.is_terminating,
            )
        if isinstance(wanted, PodBound) and state.row(wanted.node_name) < 0:
            self._strays.setdefault(wanted.node_name, set()).add(key)
            wanted = None
        held = state.pods.get(key)
        if held is not None:
            bound, row = held
            if (
                isinstance(wanted, PodBound)
                and state.node(row).name == wanted.node_name
                and (bound.shape, bound.is_terminating) == (wanted.pod.shape, wanted.pod.is_terminating)
                and bound.uid in {"", wanted.pod.uid}  # the engine knows no uids
            ):
                return
            state.apply(PodRemoved(key))
        if isinstance(wanted, PodBound):
            state.apply(wanted)
        else:
            self._settle_nomination(key, wanted)

    def _settle_nomination(self, key: str, wanted: PodNominated | None) -> None:
        nominations = self._state.nominations
        node_name = nominations.node_of(key)
        if wanted is None:
            if node_name is not None:
                self._state.apply(NominationRemoved(key))
        elif (
            node_name is None or node_name != wanted.node_name or nominations.on[node_name][key] != wanted.pod
        ):
            self._state.apply(wanted)

    def _leave_strays(self, key: str, node_name: str) -> None:
        strays = self._strays.get(node_name)
        if strays is not None:
            strays.discard(key)
            if not strays:
                del self._strays[node_name]

    def _note_problem(self, key: str, problem: str) -> None:
        if not problem:
            self._problems.pop(key, None)
        elif self._problems.get(key) != problem:
            self._problems[key] = problem
            _log.warning("pod is taken for one of no workflow", pod=key, reason=problem)

    def _note_needs(self, key: str, namespace: str, fixed: Fixed) -> None:
        needs = fixed.needs
        if needs.priority_class is not None:
            self._classed.add(key)
        controller = needs.controller
        if controller is not None and OWNER_KINDS.get(controller.kind) == controller.group:
            self._owned.setdefault((controller.kind, namespace, controller.name), set()).add(key)

    def _forget_needs(self, pod: LivePod | None) -> None:
        if pod is None:
            return
        self._classed.discard(pod.key)
        if pod.owner is not None:
            owner = (pod.owner.kind, pod.namespace, pod.owner.name)
            owned = self._owned.get(owner)
            if owned is not None:
                owned.discard(pod.key)
                if not owned:
                    del self._owned[owner]
