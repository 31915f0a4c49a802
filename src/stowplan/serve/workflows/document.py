"""From one version of a Workflow object to its head, its graph and what its status says.

Runs in a thread: a workflow of thousands of tasks takes a while. Neither the object nor its status is kept;
the graph is read again only when the specification has changed.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, cast

import msgspec
import numpy as np

from stowplan.core.domain import Workflow
from stowplan.errors import InvalidInput, InvalidObject
from stowplan.kube.argo import (
    Node,
    NodesHere,
    NodesOffloaded,
    NodeStatus,
    TaskGraph,
    TemplateSource,
    open_object,
    origin_of,
    read_graph,
    read_status,
    to_domain,
)
from stowplan.kube.argo.status import StatusNodes
from stowplan.serve.workflows.index import GraphIndex
from stowplan.serve.workflows.reading import Fact, StatusReader
from stowplan.serve.workflows.tracking import Tracking

__all__ = ["ExpectedOf", "Reading", "WorkflowHead", "WorkflowReader", "head_of", "seconds_of"]

ExpectedOf = Callable[[TaskGraph], Callable[[Node], float]]
"""Gives for a graph the expected seconds of its nodes."""

_SAME: Final = 0.02  # by how much expected durations may change before anybody is told
_NO_NODES: Final[Mapping[str, NodeStatus]] = {}


class _Metadata(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    generate_name: str = ""
    creation_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Phase(msgspec.Struct, rename="camel"):
    phase: str = ""
    started_at: str | None = None
    finished_at: str | None = None


class _Frame(msgspec.Struct):
    metadata: _Metadata
    spec: msgspec.Raw = msgspec.Raw(b"null")
    status: msgspec.Raw = msgspec.Raw(b"null")


_FRAMES: Final = msgspec.json.Decoder(_Frame)
_PHASES: Final = msgspec.json.Decoder(_Phase | None)


@dataclass(frozen=True, slots=True)
class WorkflowHead:
    """What is known of a workflow whatever becomes of the rest. Times are seconds since the epoch."""

    namespace: str
    name: str
    uid: str
    phase: str
    submitted_s: float | None
    started_s: float | None
    finished_s: float | None

    @property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"

    @property
    def has_ended(self) -> bool:
        """Whether the controller is done with it."""
        return self.phase in ("Succeeded", "Failed", "Error")


@dataclass(frozen=True, slots=True)
class Reading:
    """What one version of a workflow says.

    Attributes:
        head: of it.
        origin: what it was made from; empty where that cannot be told.
        tracking: one that knows all of it, where the one before will not do; None: it takes `facts`.
        facts: what is new since the reading before.
        problem: why there is no graph; empty: there is one.
        nodes_problem: why its status tells nothing of its tasks; empty: it does.
    """

    head: WorkflowHead
    origin: str = ""
    tracking: Tracking | None = None
    facts: Sequence[Fact] = ()
    problem: str = ""
    nodes_problem: str = ""


def seconds_of(time: str | None) -> float | None:
    """Return a time of the API as seconds since the epoch, None where there is none that can be read."""
    if not time:
        return None
    try:
        return dt.datetime.fromisoformat(time).timestamp()
    except ValueError:
        return None


def head_of(raw: bytes) -> WorkflowHead:
    """Return the head of a Workflow without reading the rest.

    Raises:
        InvalidObject: it has no usable head.
    """
    frame, phase = _frame_of(raw)
    return _head(frame.metadata, phase)


def _frame_of(raw: bytes) -> tuple[_Frame, _Phase]:
    try:
        frame = _FRAMES.decode(raw)
        return frame, _PHASES.decode(frame.status) or _Phase()
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidObject(f"a Workflow has no usable metadata or status: {error}") from error


def _head(metadata: _Metadata, phase: _Phase) -> WorkflowHead:
    return WorkflowHead(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        phase=phase.phase,
        submitted_s=seconds_of(metadata.creation_timestamp),
        started_s=seconds_of(phase.started_at),
        finished_s=seconds_of(phase.finished_at),
    )


class WorkflowReader:
    """Reads the versions of one workflow, one after the other."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._digest = b""
        self._origin = ""
        self._problem = ""
        self._index: GraphIndex | None = None
        self._status: StatusReader | None = None

    def forget(self) -> None:
        """Read the graph again next time, even if the specification is the same: templates have changed."""
        self._digest = b""

    def read(
        self, raw: bytes, templates: TemplateSource, expected_of: ExpectedOf, submitted_mono_s: float
    ) -> Reading:
        """Read a version.

        Args:
            raw: the object as JSON.
            templates: what it may refer to.
            expected_of: gives the durations of its tasks.
            submitted_mono_s: when it was submitted, by the monotonic clock.

        Raises:
            InvalidObject: it is no Workflow at all.
        """
        frame, phase = _frame_of(raw)
        head = _head(frame.metadata, phase)
        digest = hashlib.blake2b(bytes(frame.spec), digest_size=16).digest()
        is_new = digest != self._digest
        if is_new:
            self._digest = digest
            self._read_graph(frame, templates, expected_of)
        if self._index is None or self._status is None:
            return Reading(head, self._origin, problem=self._problem)
        nodes, nodes_problem = _nodes_of(read_status({"status": _json(frame.status)}).nodes)
        ended = partial(Tracking.end, has_ended=head.has_ended)
        if nodes_problem and not is_new:
            return Reading(head, self._origin, facts=[ended], nodes_problem=nodes_problem)
        facts = None if is_new else self._status.changes(nodes)
        if facts is not None:
            return Reading(head, self._origin, facts=[*facts, ended], nodes_problem=nodes_problem)
        tracking = Tracking(self._index, head.key, submitted_mono_s)
        for fact in (*self._status.anew(nodes), ended):
            fact(tracking)
        tracking.settle()
        return Reading(head, self._origin, tracking, nodes_problem=nodes_problem)

    @classmethod
    def glance(cls, raw: bytes) -> Reading:
        """Return head and origin of a version, without its graph.

        Raises:
            InvalidObject: it is no Workflow at all.
        """
        frame, phase = _frame_of(raw)
        try:
            origin = origin_of(open_object(_manifest(frame)))
        except InvalidInput:
            origin = ""
        return Reading(_head(frame.metadata, phase), origin)

    def renew(self, expected_of: ExpectedOf) -> Workflow | None:
        """Return the workflow with the durations that are expected now; None: they are as good as before."""
        if self._index is None:
            return None
        view = to_domain(self._index.graph, expected_of(self._index.graph))
        before_s, now_s = self._index.view.workflow.expected_s, view.workflow.expected_s
        if np.allclose(before_s, now_s, rtol=_SAME, atol=0.0):
            return None
        self._index = dataclasses.replace(self._index, view=view)
        if self._status is not None:
            self._status.index = self._index
        return view.workflow

    def _read_graph(self, frame: _Frame, templates: TemplateSource, expected_of: ExpectedOf) -> None:
        self._index = self._status = None
        self._problem = ""
        try:
            own = open_object(_manifest(frame))
            self._origin = origin_of(own)
            graph = read_graph(own, templates)
            self._index = GraphIndex(graph, to_domain(graph, expected_of(graph)))
            self._status = StatusReader(self._index, frame.metadata.name)
        except InvalidInput as error:
            self._problem = str(error)


def _manifest(frame: _Frame) -> Mapping[str, object]:
    metadata = frame.metadata
    return {
        "apiVersion": "argoproj.io/v1alpha1",  # neither stands in the items of a list
        "kind": "Workflow",
        "metadata": {
            "name": metadata.name,
            "generateName": metadata.generate_name,
            "namespace": metadata.namespace,
            "labels": metadata.labels or {},
            "annotations": metadata.annotations or {},
        },
        "spec": _json(frame.spec),
    }


def _json(raw: msgspec.Raw) -> object:
    try:
        return cast("object", msgspec.json.decode(raw))
    except RecursionError as error:
        raise InvalidObject("a Workflow is nested too deep") from error


def _nodes_of(nodes: StatusNodes) -> tuple[Mapping[str, NodeStatus], str]:
    if isinstance(nodes, NodesHere):
        return nodes.nodes, ""
    if isinstance(nodes, NodesOffloaded):
        return _NO_NODES, "its nodes are in the archive's database: only its pods tell how far it is"
    return _NO_NODES, f"its nodes cannot be read ({nodes.codec}): {nodes.reason}"
