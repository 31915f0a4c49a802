"""Reads pods for the live cluster: bytes in, what is new about a pod out.

Reading what a pod asks of a node takes some 200 µs, and a pod is seen several times: created, bound, running,
ended. Most events change nothing but the status. So a digest of all that is not status is kept for each pod,
and while it stays the same nothing of that is read again. Where it is new, only the part that bears on
placement is decoded; pods of one template have that part in common, byte for byte, and share one `PodShape`.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from sys import intern
from typing import Final, NamedTuple

import msgspec

from stowplan.core.domain import CPU, MEMORY, PODS, PodShape
from stowplan.errors import InvalidObject
from stowplan.kube.api.status import CONDITION, DISRUPTION_TARGET, PREEMPTION, SchedulingStatus
from stowplan.kube.argo import AgentPod, TaskPod, identify_pod
from stowplan.kube.live.pod import LivePod, MainContainer, Owner
from stowplan.kube.live.projection import RESIZE_PENDING, projection_of
from stowplan.kube.live.wire import (
    FRAMES,
    NOTHING,
    SPECS,
    Container,
    ContainerStatus,
    Frame,
    Metadata,
    Spec,
    Status,
)
from stowplan.kube.manifest.context import ShapeNeeds, read_needs
from stowplan.kube.manifest.cursor import Cursor
from stowplan.kube.manifest.pods import read_pod_shape
from stowplan.kube.manifest.standing import ENDED_PHASES

__all__ = ["Fixed", "HeldPod", "PodReader", "PodSeen"]

_REMEMBERED: Final = 2048
"""Shapes by what they were read from; templates come and go."""
_MAIN: Final = "main"
_NO_STATUS: Final = Status()
_NO_SCHEDULING: Final = SchedulingStatus()
_encode = msgspec.json.Encoder().encode


class Fixed(msgspec.Struct, frozen=True, gc=False):
    """What of a pod seldom changes, besides what its `LivePod` has.

    Attributes:
        digest: of what all this was read from.
        shape: what the pod says itself; other objects add to it as `needs` says.
        problem: why its Argo identity cannot be used; empty as a rule.
        main: its main container before it has run; `main_name` is its name.
    """

    digest: bytes
    shape: PodShape
    needs: ShapeNeeds
    problem: str
    main: MainContainer
    main_name: str


@dataclass(frozen=True, slots=True)
class HeldPod(LivePod):
    """A pod with what spares reading it again."""

    fixed: Fixed = field(kw_only=True, compare=False, repr=False)


class _Told(NamedTuple):
    """What a pod says besides its status."""

    fixed: Fixed
    node_name: str
    can_preempt: bool
    owner: Owner | None
    identity: TaskPod | AgentPod | None


class PodSeen(msgspec.Struct, frozen=True, gc=False):
    """A pod as one event shows it. `is_same`: nothing but its status changed since the event before."""

    told: _Told
    is_same: bool
    phase: str
    is_terminating: bool
    created_s: float
    started_s: float | None
    status: SchedulingStatus
    reason: str
    message: str
    main: MainContainer
    is_preempted: bool


class PodReader:
    """Reads pods; of those that are known, what is new.

    Args:
        known: pods by key, as they were read before.
    """

    def __init__(self, known: Mapping[str, HeldPod]) -> None:
        self._known = known
        self._shapes: dict[bytes, PodShape] = {}
        self._same: dict[PodShape, PodShape] = {}
        self._mains: dict[MainContainer, MainContainer] = {}
        self._needs: dict[tuple[bytes, str | None], tuple[ShapeNeeds, Owner | None]] = {}

    def read(self, raw: bytes | msgspec.Raw) -> PodSeen:
        """Read a pod.

        Raises:
            InvalidObject: it has a field that cannot be used.
            msgspec.DecodeError: a field is of another type than the API says.
        """
        frame = FRAMES.decode(raw)
        metadata, status = frame.metadata, frame.status or _NO_STATUS
        digest = _digest(frame, status)
        before = self._known.get(f"{metadata.namespace}/{metadata.name}")
        if before is not None and before.uid != metadata.uid:
            before = None
        is_same = before is not None and before.fixed.digest == digest
        if is_same and before is not None:
            told = _Told(before.fixed, before.node_name, before.can_preempt, before.owner, before.identity)
        else:
            told = self._read(frame, status, digest, before)
        is_terminating = metadata.deletion_timestamp is not None
        return PodSeen(
            told=told,
            is_same=is_same,
            phase=intern(status.phase or "Pending"),
            is_terminating=is_terminating,
            created_s=_seconds(metadata.creation_timestamp) or 0.0,
            started_s=_seconds(status.start_time),
            status=_scheduling(status),
            reason=status.reason or "",
            message=status.message or "",
            main=_main_now(told.fixed, status),
            is_preempted=is_terminating and _is_preempted(status),
        )

    # ---- what is not status ----

    def _read(self, frame: Frame, status: Status, digest: bytes, before: HeldPod | None) -> _Told:
        metadata = frame.metadata
        spec = SPECS.decode(frame.spec)
        node_name = intern(spec.node_name or "")
        if before is not None and status.phase in ENDED_PHASES:
            # It asks for nothing any more; what changed is the mark that it is done. As this is no reading,
            # it has no digest.
            fixed = msgspec.structs.replace(before.fixed, digest=b"")
            return _Told(fixed, node_name, before.can_preempt, before.owner, before.identity)
        where = f"Pod {metadata.namespace}/{metadata.name}"
        containers = spec.containers or []
        main = next((one for one in containers if one.name == _MAIN), containers[0] if containers else None)
        if main is None:
            raise InvalidObject(f"{where}: spec.containers is empty; a pod has at least one container")
        # Before the spec is cut down to what is common.
        static, main_name = self._main(main, where), intern(main.name or "")
        can_preempt = spec.preemption_policy != "Never"
        needs, owner = self._needs_of(metadata, spec, where)
        shape = self._shape(metadata, spec, status, where)
        identity, problem = _identity(metadata, shape)
        fixed = Fixed(digest, shape, needs, problem, static, main_name)
        return _Told(fixed, node_name, can_preempt, owner, identity)

    def _shape(self, metadata: Metadata, spec: Spec, status: Status, where: str) -> PodShape:
        projection, is_shared = projection_of(metadata, spec, status)
        read_from = _encode(projection)
        key = metadata.namespace.encode() + b" " + read_from
        shape = self._shapes.pop(key, None)
        if shape is None:
            cursor = Cursor(msgspec.json.decode(read_from), where)
            shape = read_pod_shape(intern(metadata.namespace), metadata.name, cursor)
            if PODS in shape.requests:
                raise InvalidObject(
                    f"{where}: it asks for the resource 'pods'; pods are counted, leave it out"
                )
            if len(self._same) >= _REMEMBERED:
                self._same.clear()
            shape = self._same.setdefault(shape, shape)
            if len(self._shapes) >= _REMEMBERED:
                del self._shapes[next(iter(self._shapes))]
        if is_shared:
            self._shapes[key] = shape  # again, so that what was not asked for longest is dropped first
        return shape

    def _needs_of(self, metadata: Metadata, spec: Spec, where: str) -> tuple[ShapeNeeds, Owner | None]:
        """What the pod leaves to other objects, and its controller: one object for all pods of a workflow."""
        priority_class = None if spec.priority is not None else spec.priority_class_name or ""
        key = (bytes(metadata.owner_references), priority_class)
        known = self._needs.get(key)
        if known is None:
            told = {
                "metadata": {"ownerReferences": _plain(metadata.owner_references)},
                "spec": {"priority": spec.priority, "priorityClassName": spec.priority_class_name},
            }
            needs = read_needs(Cursor(told, where))
            controller = needs.controller
            owner = controller and Owner(controller.kind, controller.name, controller.uid)
            if len(self._needs) >= _REMEMBERED:
                self._needs.clear()
            known = self._needs[key] = (needs, owner)
        return known

    def _main(self, container: Container, where: str) -> MainContainer:
        resources = Cursor(_plain(container.resources), where)
        cpu, memory = (
            given if given.is_set else resources["limits"][name]
            for name, given in ((name, resources["requests"][name]) for name in (CPU, MEMORY))
        )
        cpu_milli = cpu.quantity() * 1000 if cpu.is_set else Fraction(0)
        main = MainContainer(
            intern(container.image or ""),
            tuple(intern(word) for word in container.command or ()),
            -(-cpu_milli.numerator // cpu_milli.denominator),
            memory.whole_quantity() if memory.is_set else 0,
        )
        if len(self._mains) >= _REMEMBERED:
            self._mains.clear()
        return self._mains.setdefault(main, main)


def _plain(raw: msgspec.Raw) -> object:
    return None if raw is NOTHING else msgspec.json.decode(raw)


def _digest(frame: Frame, status: Status) -> bytes:
    """A digest of all that `Fixed` is read from."""
    metadata = frame.metadata
    marks = metadata.annotations
    digest = hashlib.blake2b(frame.spec, digest_size=16)
    for raw in (metadata.labels, metadata.owner_references, status.allocated_resources, status.resources):
        digest.update(raw)
        digest.update(b"\n")
    if marks is not None:
        digest.update(f"{marks.node_name}\n{marks.node_id}\n".encode())
    for statuses in (status.init_container_statuses, status.container_statuses):
        for one in statuses or ():
            if one.allocated_resources is not NOTHING or one.resources is not NOTHING:
                digest.update(one.name.encode())
                digest.update(one.allocated_resources)
                digest.update(one.resources)
    for condition in status.conditions or ():
        if condition.type == RESIZE_PENDING:
            digest.update((condition.reason or "").encode())
    return digest.digest()


def _identity(metadata: Metadata, shape: PodShape) -> tuple[TaskPod | AgentPod | None, str]:
    """What the pod is in a workflow; or nothing, and why that cannot be told."""
    marks = metadata.annotations
    labels: Mapping[str, str] = dict(shape.labels)
    annotations: dict[str, str] = {}
    if marks is not None:
        if marks.node_name:
            annotations["workflows.argoproj.io/node-name"] = marks.node_name
        if marks.node_id:
            annotations["workflows.argoproj.io/node-id"] = marks.node_id
    told = {
        "name": metadata.name,
        "namespace": shape.namespace,
        "labels": labels,
        "annotations": annotations,
    }
    try:
        return identify_pod({"metadata": told}), ""
    except InvalidObject as error:
        return None, str(error)


# ---- status ----


def _seconds(time: dt.datetime | None) -> float | None:
    return None if time is None else time.timestamp()


def _scheduling(status: Status) -> SchedulingStatus:
    nominated = status.nominated_node_name or ""
    for condition in status.conditions or ():
        if condition.type == CONDITION and condition.status == "False":
            return SchedulingStatus(intern(condition.reason or ""), condition.message or "", nominated)
    return SchedulingStatus("", "", nominated) if nominated else _NO_SCHEDULING


def _is_preempted(status: Status) -> bool:
    """Tell whether a scheduler is making room of it; kube-scheduler looks at the first such condition."""
    for condition in status.conditions or ():
        if condition.type == DISRUPTION_TARGET:
            return condition.status == "True" and condition.reason == PREEMPTION
    return False


def _main_now(fixed: Fixed, status: Status) -> MainContainer:
    """The main container with how far it is."""
    one: ContainerStatus | None = next(
        (each for each in status.container_statuses or () if each.name == fixed.main_name), None
    )
    if one is None or one.state is None:
        return fixed.main
    main, running, ended = fixed.main, one.state.running, one.state.terminated
    if ended is not None:
        return MainContainer(
            main.image,
            main.command,
            main.cpu_request_milli,
            main.memory_request_bytes,
            _seconds(ended.started_at),
            _seconds(ended.finished_at),
            ended.exit_code,
            intern(ended.reason or ""),
        )
    if running is not None:
        return MainContainer(
            main.image,
            main.command,
            main.cpu_request_milli,
            main.memory_request_bytes,
            _seconds(running.started_at),
        )
    return main
