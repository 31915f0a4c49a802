"""Gate mode: Stowplan takes its scheduling gate off a pod when its turn has come; kube-scheduler binds it.

In one patch, refused if the pod has changed, the gate goes and the chosen node is written into the pod's node
affinity: preferred (kube-scheduler may know better), required, or not at all. The reservation stays until the
pod is bound, so that the next pods are decided on with it, or until it takes too long: then it is released,
which is logged and counted (`not bound in time`), and kube-scheduler places the pod when and where it can.

Node affinity may be changed while a pod is gated: required terms may be narrowed, preferred ones are free.
A pod with resource claims is let go in its turn without a node, as only kube-scheduler allocates devices.

Source: kubernetes pkg/apis/core/validation (ValidatePodUpdate, gated pods; KEP-3838), 1.37.
"""

from __future__ import annotations

import asyncio
import dataclasses
from enum import StrEnum
from typing import Any, Final

import msgspec

from stowplan.core.decoder import Placed
from stowplan.core.domain import PodShape
from stowplan.kube.api.binder import Bound, Elsewhere, Gone, NotBound, Unknown
from stowplan.kube.api.client import ApiClient, Patch, PatchKind
from stowplan.kube.api.errors import (
    Conflict,
    Invalid,
    KubernetesError,
    NotFound,
    Unreachable,
    Unreadable,
)
from stowplan.kube.api.resources import PODS
from stowplan.kube.live.pod import LivePod
from stowplan.kube.plan import GATE
from stowplan.serve.scheduler.arrivals import Arrivals
from stowplan.serve.scheduler.interface import ActOutcome, Feed, Released
from stowplan.serve.scheduler.turns import AT_ONCE, Turns

__all__ = ["GateActuator", "Placement", "release_patch"]

WITHIN_S: Final = 30.0
_WEIGHT: Final = 100
_CACHED_SHAPES: Final = 2048

Json = dict[str, Any]


class Placement(StrEnum):
    """How the chosen node is written on the pod."""

    PREFER = "prefer"
    REQUIRE = "require"
    NONE = "none"


class _Gate(msgspec.Struct):
    name: str


class _Metadata(msgspec.Struct):
    uid: str
    version: str = msgspec.field(name="resourceVersion")
    deletion: str | None = msgspec.field(default=None, name="deletionTimestamp")


class _Spec(msgspec.Struct):
    gates: list[_Gate] = msgspec.field(default_factory=list[_Gate], name="schedulingGates")
    node: str = msgspec.field(default="", name="nodeName")
    affinity: dict[str, Any] | None = None


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec


_PODS: Final = msgspec.json.Decoder(_Pod)


def release_patch(pod: _Pod, gate: str, node_name: str, placement: Placement) -> list[Json]:
    """Return the JSON patch that takes the gate off and names the node; refused if the pod has changed.

    Args:
        pod: the pod as the API server has it; it has the gate.
        gate: the gate.
        node_name: the chosen node.
        placement: how the node is written.
    """
    at = next(index for index, one in enumerate(pod.spec.gates) if one.name == gate)
    patch: list[Json] = [
        {"op": "test", "path": "/metadata/uid", "value": pod.metadata.uid},
        {"op": "test", "path": "/metadata/resourceVersion", "value": pod.metadata.version},
        {"op": "remove", "path": f"/spec/schedulingGates/{at}"},
    ]
    if placement is not Placement.NONE:
        affinity = dict(pod.spec.affinity or {})
        node_affinity = dict(affinity.get("nodeAffinity") or {})
        add = _preferred if placement is Placement.PREFER else _required
        affinity["nodeAffinity"] = add(node_affinity, node_name)
        patch.append({"op": "add", "path": "/spec/affinity", "value": affinity})
    return patch


def _is_node(node_name: str) -> Json:
    """Return what selects one node: its name, as the label with the host name may differ or be absent."""
    return {"key": "metadata.name", "operator": "In", "values": [node_name]}


def _preferred(node_affinity: Json, node_name: str) -> Json:
    field = "preferredDuringSchedulingIgnoredDuringExecution"
    term = {"weight": _WEIGHT, "preference": {"matchFields": [_is_node(node_name)]}}
    return {**node_affinity, field: [*(node_affinity.get(field) or ()), term]}


def _required(node_affinity: Json, node_name: str) -> Json:
    """Narrow every required term, of which one must hold, to the node."""
    field = "requiredDuringSchedulingIgnoredDuringExecution"
    required: Json = node_affinity.get(field) or {"nodeSelectorTerms": [{}]}
    terms: list[Json] = [
        {**term, "matchFields": [*(term.get("matchFields") or ()), _is_node(node_name)]}
        for term in required["nodeSelectorTerms"]
    ]
    return {**node_affinity, field: {"nodeSelectorTerms": terms}}


class GateActuator:
    """Lets gated pods go, and waits until they are bound.

    Args:
        client: the API server.
        feed: the live cluster.
        gate: the gate that is Stowplan's.
        placement: how the chosen node is written on the pod.
        within_s: how long a reservation waits for the pod to be bound, in seconds.
        at_once: patches that may be under way at once.
    """

    reserves = True
    binds = False

    def __init__(
        self,
        client: ApiClient,
        feed: Feed,
        *,
        gate: str = GATE,
        placement: Placement = Placement.PREFER,
        within_s: float = WITHIN_S,
        at_once: int = AT_ONCE,
    ) -> None:
        self._client = client
        self._feed = feed
        self._gate = gate
        self._placement = Placement(placement)  # the configuration has it as text
        self._within_s = within_s
        self._turns = Turns(at_once)
        self._arrivals = Arrivals(feed)
        self._shapes: dict[PodShape, PodShape] = {}

    @property
    def backlog(self) -> int:
        """Placements that wait for their turn."""
        return self._turns.waiting

    def seen(self, pod: LivePod) -> LivePod:
        """Return the pod without our gate, and without resource claims, which are not ours to judge."""
        shape = self._shapes.get(pod.shape)
        if shape is None:
            if len(self._shapes) >= _CACHED_SHAPES:
                self._shapes.clear()
            gates = tuple(gate for gate in pod.shape.scheduling_gates if gate != self._gate)
            shape = dataclasses.replace(pod.shape, scheduling_gates=gates, resource_claims=())
            self._shapes[pod.shape] = shape
        return dataclasses.replace(pod, shape=shape)

    async def act(self, pod: LivePod, placed: Placed) -> ActOutcome:
        """Let the pod go, and tell where it was bound."""
        async with self._turns:
            refused = await self._release(pod, placed)
        return refused if refused is not None else await self._outcome(pod, placed)

    async def _release(self, pod: LivePod, placed: Placed) -> ActOutcome | None:
        """Take the gate off; None: it is off, by us or by an earlier try of ours."""
        now = self._feed.pods.get(pod.key)
        has_claims = now is not None and bool(now.shape.resource_claims)
        placement = Placement.NONE if has_claims else self._placement
        try:
            found = _PODS.decode(await self._client.get(PODS, pod.name, pod.namespace))
            if found.metadata.uid != pod.uid:
                return Gone(f"another pod has the name {pod.key} now")
            if found.spec.node or found.metadata.deletion or self._gate not in _names(found):
                return None
            patch = release_patch(found, self._gate, placed.node_name, placement)
            await self._client.patch(PODS, pod.name, Patch(PatchKind.JSON, patch), pod.namespace)
        except NotFound as error:
            return Gone(str(error))
        except (Unreachable, Unreadable) as error:
            return Unknown(str(error))  # the patch may have been carried out; the next try sees
        except msgspec.DecodeError as error:
            return NotBound(Unreadable(f"get pods {pod.key}: {error}"), is_transient=False)
        except KubernetesError as error:
            # A test of the patch that fails is Invalid: the pod changed under it. Try again with the new one.
            has_changed = isinstance(error, Conflict) or (isinstance(error, Invalid) and "test" in str(error))
            return NotBound(error, is_transient=error.is_transient or has_changed)
        return None

    async def _outcome(self, pod: LivePod, placed: Placed) -> ActOutcome:
        """Wait until the pod is bound, and tell where."""
        try:
            async with asyncio.timeout(self._within_s):
                shown = await self._arrivals.of(pod)
        except TimeoutError:
            why = f"kube-scheduler has not bound it within {self._within_s:g} s"
            return Released(why, "not bound in time")
        if shown is None:
            return Gone(f"{pod.key} was deleted or ended before it was bound")
        if self._placement is Placement.NONE or shown.node_name == placed.node_name:
            return Bound(shown.node_name)
        return Elsewhere(shown.node_name)


def _names(pod: _Pod) -> set[str]:
    return {gate.name for gate in pod.spec.gates}
