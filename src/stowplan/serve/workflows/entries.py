"""What the book keeps of each pod and of each workflow."""

from __future__ import annotations

from dataclasses import dataclass, field

from stowplan.core.domain import ClassKey, PendingTask, WorkShape
from stowplan.kube.argo import PodMatch
from stowplan.kube.live.pod import LivePod
from stowplan.observe.history.expected import ExpectedDuration
from stowplan.observe.history.records import Neighbour
from stowplan.serve.workflows.document import WorkflowHead, WorkflowReader
from stowplan.serve.workflows.tracking import Tracking

__all__ = ["PodEntry", "WorkflowEntry"]


@dataclass(slots=True)
class WorkflowEntry:
    """A live workflow.

    Attributes:
        key: namespace and name.
        reader: reads its versions; used by one reading at a time.
        head: what was last seen; None before the first reading.
        origin: what it was made from; empty where that cannot be told.
        tracking: how far it is; None where its graph cannot be read.
        problem: why it cannot.
        nodes_problem: why its status tells nothing of its tasks.
        pods: its pods by key.
        ended_mono_s: since when it was seen to have ended, monotonic.
        noted: what was last written into the history.
    """

    key: str
    reader: WorkflowReader = field(default_factory=WorkflowReader)
    head: WorkflowHead | None = None
    origin: str = ""
    tracking: Tracking | None = None
    problem: str = ""
    nodes_problem: str = ""
    pods: dict[str, PodEntry] = field(default_factory=dict[str, "PodEntry"])
    ended_mono_s: float | None = None
    noted: tuple[WorkflowHead, str] | None = None


@dataclass(slots=True)
class PodEntry:
    """A pod, as far as its task, its expectation and its history go.

    Attributes:
        pod: as last seen.
        seen_mono_s: when it was first seen, monotonic.
        shape: of its work.
        key, is_classed: its class, and whether that is the last word on it.
        item, attempt: of its task.
        workflow: that it belongs to; None: to none, or to one that was not seen yet.
        match: what it is in the graph of its workflow.
        task: the index of its task in there; None: it is a task of its own.
        was_gated: whether it was seen with a gate on.
        was_cut_off: whether it was seen being deleted before it had ended.
        ready_s, placed_s: when it could be placed, and was; seconds since the epoch.
        placed_mono_s, started_mono_s: when it was placed and when its main container started, monotonic.
        foretold: what was expected of it when it was placed.
        neighbours: what ran beside it when it started; None: nobody saw.
        pending: the task as it was last handed out, and the epoch of its expectation.
        is_noted, is_closed: whether its start, and its end, are in the history.
    """

    pod: LivePod
    seen_mono_s: float
    shape: WorkShape
    key: ClassKey
    is_classed: bool = False
    item: str = ""
    attempt: int = 0
    workflow: WorkflowEntry | None = None
    match: PodMatch | None = None
    task: int | None = None
    was_gated: bool = False
    was_cut_off: bool = False
    ready_s: float | None = None
    placed_s: float | None = None
    placed_mono_s: float | None = None
    started_mono_s: float | None = None
    foretold: ExpectedDuration | None = None
    neighbours: tuple[Neighbour, ...] | None = None
    pending: PendingTask | None = None
    epoch: int = -1
    is_noted: bool = False
    is_closed: bool = False
