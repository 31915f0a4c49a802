"""What kube-scheduler and its extenders say to each other: bytes in, structs out, and back.

The keys of the protocol are the names of Go's fields (`NodeNames`), those of the objects inside are
Kubernetes' own. With `nodeCacheCapable` kube-scheduler sends the names of nodes, else whole nodes, and wants
its answer in kind. What is not needed is skipped and not built.

Source: `k8s.io/kube-scheduler/extender/v1/types.go` and `pkg/scheduler/extender.go` (1.37).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from stowplan.errors import InvalidInput

__all__ = [
    "BadRequest",
    "PodHead",
    "Preemption",
    "Question",
    "filter_answer",
    "preempt_answer",
    "prioritize_answer",
    "read_preemption",
    "read_question",
]

T = TypeVar("T")


class BadRequest(InvalidInput):
    """A request is not what its verb is sent with; the message names the field."""


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str
    uid: str
    labels: dict[str, str] | None = None
    resource_version: str = ""


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    scheduling_gates: list[msgspec.Raw] | None = None


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    nominated_node_name: str = ""


class PodHead(msgspec.Struct, frozen=True):
    """What of a pod tells whether it is the one that is known already."""

    metadata: _Metadata
    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.metadata.namespace}/{self.metadata.name}"


class _NodeMetadata(msgspec.Struct, frozen=True):
    name: str


class _Node(msgspec.Struct, frozen=True):
    metadata: _NodeMetadata


class _NodeList(msgspec.Struct, frozen=True):
    items: list[msgspec.Raw] | None = None


class _Question(msgspec.Struct, frozen=True, rename="pascal"):
    pod: msgspec.Raw
    node_names: list[str] | None = None
    nodes: _NodeList | None = None


class _MetaPod(msgspec.Struct, frozen=True):
    uid: str = msgspec.field(name="UID")


class _MetaVictims(msgspec.Struct, frozen=True):
    pods: list[_MetaPod] | None = msgspec.field(name="Pods", default=None)
    violations: int = msgspec.field(name="NumPDBViolations", default=0)


class _VictimMetadata(msgspec.Struct, frozen=True):
    uid: str


class _Victim(msgspec.Struct, frozen=True):
    metadata: _VictimMetadata


class _Victims(msgspec.Struct, frozen=True):
    pods: list[_Victim] | None = msgspec.field(name="Pods", default=None)
    violations: int = msgspec.field(name="NumPDBViolations", default=0)


class _Preemption(msgspec.Struct, frozen=True, rename="pascal"):
    pod: msgspec.Raw
    node_name_to_victims: dict[str, _Victims] | None = None
    node_name_to_meta_victims: dict[str, _MetaVictims] | None = None


class _PreemptAnswer(msgspec.Struct, frozen=True, rename="pascal"):
    node_name_to_meta_victims: dict[str, _MetaVictims]


class _NodeListAnswer(msgspec.Struct, frozen=True):
    items: list[msgspec.Raw]


class _FilterAnswer(msgspec.Struct, frozen=True, rename="pascal"):
    nodes: _NodeListAnswer | None
    node_names: list[str] | None
    failed_nodes: dict[str, str]
    failed_and_unresolvable_nodes: Mapping[str, str]
    error: str = ""


class _HostPriority(msgspec.Struct, frozen=True, rename="pascal"):
    host: str
    score: int


@dataclass(frozen=True, slots=True)
class Question:
    """A pod and the nodes that kube-scheduler would give it.

    Attributes:
        head: the pod's identity.
        pod: the whole of it, as JSON.
        node_names: of the nodes, in the order in which they came.
        nodes: the nodes as JSON in that order; None when only names were sent.
    """

    head: PodHead
    pod: bytes
    node_names: list[str]
    nodes: list[msgspec.Raw] | None


@dataclass(frozen=True, slots=True)
class Preemption:
    """A pod, and by node the pods that would have to go for it."""

    head: PodHead
    pod: bytes
    victims: Mapping[str, _MetaVictims]


_questions = msgspec.json.Decoder(_Question)
_preemptions = msgspec.json.Decoder(_Preemption)
_heads = msgspec.json.Decoder(PodHead)
_nodes = msgspec.json.Decoder(_Node)
_encoder = msgspec.json.Encoder()


def read_question(body: bytes) -> Question:
    """Read what Filter and Prioritize are sent with.

    Raises:
        BadRequest: it is something else.
    """
    asked = _decoded(_questions.decode, body, "")
    head, pod = _pod(asked.pod)
    if asked.node_names is not None:
        return Question(head, pod, asked.node_names, None)
    if asked.nodes is None:
        raise BadRequest("NodeNames: neither it nor Nodes is there; send the nodes to judge")
    nodes = asked.nodes.items or []
    names = [
        _decoded(_nodes.decode, node, f"Nodes.items[{number}]").metadata.name
        for number, node in enumerate(nodes)
    ]
    return Question(head, pod, names, nodes)


def read_preemption(body: bytes) -> Preemption:
    """Read what the preempt verb is sent with.

    Raises:
        BadRequest: it is something else.
    """
    asked = _decoded(_preemptions.decode, body, "")
    head, pod = _pod(asked.pod)
    if asked.node_name_to_meta_victims is not None:
        return Preemption(head, pod, asked.node_name_to_meta_victims)
    victims = {
        node: _MetaVictims([_MetaPod(one.metadata.uid) for one in whole.pods or []], whole.violations)
        for node, whole in (asked.node_name_to_victims or {}).items()
    }
    return Preemption(head, pod, victims)


def filter_answer(question: Question, refused: Mapping[str, str]) -> bytes:
    """Answer Filter: all nodes but those that are refused, with the reason by name.

    What refuses here never depends on pods, so no preemption can help: kube-scheduler is told so.
    """
    if question.nodes is None:
        names = question.node_names
        kept = [name for name in names if name not in refused] if refused else names
        return _encoder.encode(_FilterAnswer(None, kept, {}, refused))
    items = [
        node for name, node in zip(question.node_names, question.nodes, strict=True) if name not in refused
    ]
    return _encoder.encode(_FilterAnswer(_NodeListAnswer(items), None, {}, refused))


def prioritize_answer(levels: Mapping[str, int]) -> bytes:
    """Answer Prioritize: levels, 1 to 10, by node.

    A node that is left out has 0 to kube-scheduler. Written out, hundreds of zeros cost both sides more than
    the question. Source: `prioritizeNodes` in `pkg/scheduler/schedule_one.go` (1.37).
    """
    return _encoder.encode([_HostPriority(name, level) for name, level in levels.items()])


def preempt_answer(preemption: Preemption, refused: Mapping[str, str]) -> bytes:
    """Answer the preempt verb: the victims as they came, without the nodes that are refused."""
    kept = {node: victims for node, victims in preemption.victims.items() if node not in refused}
    return _encoder.encode(_PreemptAnswer(kept))


def _pod(raw: msgspec.Raw) -> tuple[PodHead, bytes]:
    pod = bytes(raw)
    return _decoded(_heads.decode, pod, "Pod"), pod


def _decoded(decode: Callable[[bytes | msgspec.Raw], T], data: bytes | msgspec.Raw, field: str) -> T:
    """Decode; say of what is wrong in which field below `field` it is."""
    try:
        return decode(data)
    except msgspec.ValidationError as error:
        what, _, below = str(error).partition(" - at ")
        path = field + below.strip("`").removeprefix("$")
        raise BadRequest(f"{path.removeprefix('.') or 'the request'}: {what}") from None
    except msgspec.DecodeError as error:
        raise BadRequest(f"{field or 'the request'}: {error}; send JSON") from None
    except RecursionError:
        raise BadRequest(f"{field or 'the request'}: nested too deep; send a plain object") from None
