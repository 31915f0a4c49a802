"""Binds a pod to a node, once, and does not rest until it is known what became of it.

A binding whose answer is lost may have taken effect, or may yet: the server may still be at work on it. To
take such a pod for unbound and place it elsewhere would leave two nodes with its load. So the pod is looked
up, and while it is unbound the same binding is sent again: to the same node, never to another. The API server
binds a pod at most once, and to one uid: of two bindings one is refused.

    Bound            it stands on the node that was asked for
    Elsewhere        another scheduler was faster: the race is lost, the reservation is free
    Gone             it was deleted, or another pod has its name: the reservation is free
    NotBound         the server refused, and it is certain that nothing took effect: the reservation is free
    Unknown          no answer in time: keep the reservation until the pod is seen again

Source: kubernetes pkg/registry/core/pod/storage (BindingREST), 1.37.
"""

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import msgspec

from stowplan.kube.api.backoff import Backoff
from stowplan.kube.api.client import ApiClient
from stowplan.kube.api.errors import (
    Conflict,
    KubernetesError,
    NotFound,
    Refused,
    ServerFailed,
    Unreachable,
    Unreadable,
)
from stowplan.kube.api.resources import PODS

__all__ = ["Binder", "Binding", "Bound", "Elsewhere", "Gone", "NotBound", "Outcome", "Unknown"]

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 2.0
WITHIN_S = 30.0

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Binding:
    """What is to be bound.

    Attributes:
        namespace: The pod's namespace.
        name: The pod's name.
        uid: The pod's uid: another pod of that name is not bound.
        node: The node.
        annotations: Annotations that the pod gets with the binding, as pairs.
    """

    namespace: str
    name: str
    uid: str
    node: str
    annotations: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Bound:
    """The pod stands on the node that was asked for. Next: nothing."""

    node: str


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The pod stands on another node. Next: free the reservation; the watch brings the pod as it is."""

    node: str


@dataclass(frozen=True, slots=True)
class Gone:
    """The pod was deleted, is being deleted or was replaced. Next: free the reservation, forget the pod."""

    why: str


@dataclass(frozen=True, slots=True)
class NotBound:
    """The server refused. Next: free the reservation; queue the pod again after a pause.

    Attributes:
        error: With which words it refused.
        is_transient: Whether the same may succeed a moment later.
    """

    error: KubernetesError
    is_transient: bool


@dataclass(frozen=True, slots=True)
class Unknown:
    """No certainty in time. Next: keep the reservation until the watch shows the pod bound or gone."""

    why: str


Outcome = Bound | Elsewhere | Gone | NotBound | Unknown


class _Metadata(msgspec.Struct):
    uid: str
    deletion_timestamp: str | None = msgspec.field(default=None, name="deletionTimestamp")


class _Spec(msgspec.Struct):
    node: str = msgspec.field(default="", name="nodeName")
    gates: list[msgspec.Raw] | None = msgspec.field(default=None, name="schedulingGates")


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec


_PODS = msgspec.json.Decoder(_Pod)


class Binder:
    """Binds pods; several bindings may be under way at once.

    Args:
        client: Where.
        within_s: How long to try at most, in seconds.
        generator: Where the lengths of pauses come from.
        monotonic: A clock in seconds.
    """

    def __init__(
        self,
        client: ApiClient,
        *,
        within_s: float = WITHIN_S,
        generator: random.Random | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._within_s = within_s
        self._generator = generator or random.Random()  # noqa: S311 - spreads pauses, guards nothing
        self._monotonic = monotonic

    async def bind(self, binding: Binding) -> Outcome:
        """Bind a pod and tell what became of it; errors of the API are outcomes, none is raised."""
        deadline_s = self._monotonic() + self._within_s
        pauses = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S, self._generator)
        is_open = False  # whether an earlier try may yet take effect
        while True:
            error = await self._send(binding)
            if error is None:
                return Bound(binding.node)
            is_open = is_open or _may_have_happened(error)
            if is_open or isinstance(error, Conflict | NotFound):
                try:
                    outcome = await self._look(binding, error)
                except KubernetesError as blind:
                    error = blind
                else:
                    if not isinstance(outcome, NotBound) or not (is_open or outcome.is_transient):
                        return outcome
            elif not error.is_transient:
                return NotBound(error, is_transient=False)
            asked_s = (error.retry_after_s or 0.0) if isinstance(error, Refused) else 0.0
            pause_s = pauses.pause_s(asked_s)
            if self._monotonic() + pause_s > deadline_s:
                return Unknown(str(error)) if is_open else NotBound(error, is_transient=True)
            await asyncio.sleep(pause_s)

    async def _send(self, binding: Binding) -> KubernetesError | None:
        metadata: Json = {"namespace": binding.namespace, "name": binding.name, "uid": binding.uid}
        if binding.annotations:
            metadata["annotations"] = dict(binding.annotations)
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": binding.node},
        }
        try:
            await self._client.post(PODS, binding.name, "binding", body, binding.namespace)
        except KubernetesError as error:
            return error
        return None

    async def _look(self, binding: Binding, error: KubernetesError) -> Outcome:
        """What became of the pod after a binding that failed with this error.

        Raises:
            KubernetesError: It could not be looked up.
        """
        try:
            pod = _PODS.decode(await self._client.get(PODS, binding.name, binding.namespace))
        except NotFound as absent:
            return Gone(str(absent))
        except msgspec.DecodeError as unreadable:
            raise Unreadable(f"get pods {binding.name}: the answer is no pod: {unreadable}") from unreadable
        if pod.metadata.uid != binding.uid:
            return Gone(f"another pod has the name {binding.namespace}/{binding.name} now")
        if pod.spec.node == binding.node:
            return Bound(binding.node)
        if pod.spec.node:
            return Elsewhere(pod.spec.node)
        if pod.metadata.deletion_timestamp is not None:
            return Gone(f"{binding.namespace}/{binding.name} is being deleted")
        # Unbound. A conflict is one with another change of the pod, which may be over, unless it is gated.
        is_conflict = isinstance(error, Conflict) and not pod.spec.gates
        return NotBound(error, is_transient=error.is_transient or is_conflict)


def _may_have_happened(error: KubernetesError) -> bool:
    """Whether what failed so may have been carried out, or may yet be; not at 503, which nobody took up."""
    if isinstance(error, ServerFailed):
        return error.code != HTTPStatus.SERVICE_UNAVAILABLE
    return isinstance(error, Unreachable | Unreadable)
