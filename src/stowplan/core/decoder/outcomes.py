"""The closed vocabulary of what can come of a pending task in one cycle, and what happens next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from stowplan.core.decoder.explanation import Explanation
from stowplan.core.domain import PersistentVolume, PersistentVolumeClaim

__all__ = ["Degraded", "Infeasible", "Lost", "Outcome", "Placed", "Wait"]


@dataclass(frozen=True, slots=True)
class Placed:
    """The task has a node and holds its resources there (assumed).

    `storage` are the volumes and claims that it takes with the node, as they are to be: reserved for its
    claims, or waiting for that node. Whoever binds the pod makes them so first.

    Next: the driver binds it; if that fails it reports the loss and the resources are given back.
    """

    key: str
    node_name: str
    row: int
    expected_duration_s: float
    gpus: tuple[int, ...] = ()
    explanation: Explanation | None = None
    storage: tuple[PersistentVolume | PersistentVolumeClaim, ...] = ()


@dataclass(frozen=True, slots=True)
class Wait:
    """Some node could take the task later, none can now (or the policy would rather wait).

    Next: it stays in the queue and is looked at again when pods end or nodes change; its pod carries
    `PodScheduled=False, Unschedulable` with the counts, so that cluster autoscalers see it. `refused` counts
    nodes per filter.
    """

    reason: str
    refused: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class Infeasible:
    """No node could take the task even if it were empty.

    Next: reported at once; looked at again only when nodes, storage or the task itself change. `refused`
    counts nodes per filter.
    """

    reason: str
    refused: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Lost:
    """The binding of a placed task failed: another scheduler was faster, or the node or the pod is gone.

    Next: its resources are free again and it is pending, with back-off.
    """

    key: str
    reason: str


@dataclass(frozen=True, slots=True)
class Degraded:
    """A component failed and a simpler one decided instead.

    Next: scheduling goes on; the state is a metric, a log line and a badge until the component recovers.
    """

    component: str
    reason: str
    used_instead: str


Outcome = Placed | Wait | Infeasible | Lost | Degraded
