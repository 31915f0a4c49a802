"""A pod of the live cluster, as far as scheduling, actuation and history need it."""

from __future__ import annotations

from dataclasses import dataclass

from stowplan.core.domain import PodShape
from stowplan.kube.api.status import PodReference, SchedulingStatus
from stowplan.kube.argo import AgentPod, TaskPod

__all__ = ["LivePod", "MainContainer", "Owner"]


@dataclass(frozen=True, slots=True)
class Owner:
    """The controller of a pod."""

    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class MainContainer:
    """The container that does the pod's work: `main` if there is one, else the first.

    Times are seconds since the epoch, None where it has not come to that. `exit_code` and `reason` are those
    of its end (`Completed`, `Error`, `OOMKilled` …).
    """

    image: str
    command: tuple[str, ...]
    cpu_request_milli: int
    memory_request_bytes: int
    started_s: float | None = None
    finished_s: float | None = None
    exit_code: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class LivePod:
    """One pod at one moment.

    Attributes:
        key: `namespace/name`; names the pod in a `ClusterState` and in `PendingTask`s.
        namespace, name, uid: as the API has them.
        shape: what it asks of a node; its `node_name` is None even when it is bound.
        phase: `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
        node_name: where it is bound, empty while it waits.
        is_terminating: whether it is being deleted.
        created_s: when it was created, seconds since the epoch.
        started_s: when its kubelet took it up, seconds since the epoch.
        status: what its status says of its scheduling now.
        reason: of its phase (`OutOfcpu`, `Evicted`, `NodeLost` …), empty as a rule.
        message: of its phase.
        can_preempt: False with `preemptionPolicy: Never`.
        owner: its controller.
        identity: what it is in an Argo workflow; None for all others.
        main: its main container.
        is_preempted: whether it is being deleted because a scheduler made room for another.
    """

    key: str
    namespace: str
    name: str
    uid: str
    shape: PodShape
    phase: str
    node_name: str
    is_terminating: bool
    created_s: float
    started_s: float | None
    status: SchedulingStatus
    reason: str
    message: str
    can_preempt: bool
    owner: Owner | None
    identity: TaskPod | AgentPod | None
    main: MainContainer
    is_preempted: bool = False

    @property
    def reference(self) -> PodReference:
        """This pod, and no other of its name."""
        return PodReference(self.namespace, self.name, self.uid)

    @property
    def has_ended(self) -> bool:
        """Whether nothing of it runs any more, or will."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def is_waiting(self) -> bool:
        """Whether it may be given a node: it has none, has not ended and is not being deleted."""
        return not (self.node_name or self.has_ended or self.is_terminating)

    @property
    def is_gated(self) -> bool:
        """Whether a scheduling gate holds it back."""
        return bool(self.shape.scheduling_gates)
