"""From a pod back to the node of the graph that it runs, and to the class whose history it belongs to.

Source: Argo Workflows 4.0, `workflow/controller/workflowpod.go` (labels and annotations),
`workflow/common/common.go`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Final

from stowplan.core.domain import ClassKey
from stowplan.errors import InvalidObject
from stowplan.kube.argo.graph import ANY_ITEM, Node, NodeKind, TaskGraph
from stowplan.kube.argo.names import NodePath, node_id, parse_node_name, pod_name
from stowplan.kube.argo.objects import Json, as_mapping, text_of

__all__ = [
    "AgentPod",
    "PodMatch",
    "TaskPod",
    "history_key",
    "identify_pod",
    "match_path",
    "match_pod",
]

_PREFIX: Final = "workflows.argoproj.io/"
_MOST_LOOPS: Final = 10  # nested fan-outs on the way to one pod


@dataclass(frozen=True, slots=True)
class TaskPod:
    """A pod that runs a node of a workflow."""

    namespace: str
    workflow: str
    node_name: str
    node_id: str
    path: NodePath
    template_hint: str
    """The template's name as the pod's name has it (cut where long); empty in names of the old format."""


@dataclass(frozen=True, slots=True)
class AgentPod:
    """A pod that runs all http and plugin templates of a workflow."""

    namespace: str
    workflow: str


@dataclass(frozen=True, slots=True)
class PodMatch:
    """What a pod is in its workflow.

    `items` are the item numbers of all fan-outs on the way, outermost first, `attempt` counts from 0.
    `is_within` tells that the pod is within `node`, a recursion or a template chosen at run time, whose
    inside is not known.
    """

    node: Node
    items: tuple[int, ...]
    attempt: int
    is_within: bool = False


def identify_pod(raw: Json) -> TaskPod | AgentPod | None:
    """Return what a pod says about itself, None where it is not of Argo.

    Raises:
        InvalidObject: its labels and annotations contradict each other.
    """
    metadata = as_mapping(raw.get("metadata"))
    labels, annotations = as_mapping(metadata.get("labels")), as_mapping(metadata.get("annotations"))
    workflow, namespace = text_of(labels.get(f"{_PREFIX}workflow")), text_of(metadata.get("namespace"))
    if not workflow:
        return None
    if labels.get(f"{_PREFIX}component") == "agent":
        return AgentPod(namespace, workflow)
    node_name = text_of(annotations.get(f"{_PREFIX}node-name"))
    if not node_name:
        return None  # a pod that collects artifacts, or one that only borrows the label
    computed, given = node_id(workflow, node_name), text_of(annotations.get(f"{_PREFIX}node-id"))
    name = text_of(metadata.get("name"))
    if given and given != computed:
        raise InvalidObject(
            f"Pod {namespace}/{name}: its annotation {_PREFIX}node-id is {given!r}, but the node "
            f"{node_name!r} of workflow {workflow!r} has the id {computed!r}; something has changed the pod"
        )
    bare = pod_name(workflow, node_name, "")
    number = bare.rpartition("-")[2]
    hint = (
        name.removeprefix(f"{workflow}-").removesuffix(f"-{number}") if name not in (bare, workflow) else ""
    )
    return TaskPod(namespace, workflow, node_name, computed, parse_node_name(workflow, node_name), hint)


def _places(path: NodePath) -> list[str]:
    """Return the places under which the graph may hold the node, those with its items expanded first."""
    looped = [index for index, segment in enumerate(path.segments) if segment.item is not None]
    if len(looped) > _MOST_LOOPS:
        return []
    found: list[str] = []
    for choice in product((True, False), repeat=len(looped)):
        expanded = dict(zip(looped, choice, strict=True))
        found.append(
            "".join(
                segment.text + _item(segment.item, is_expanded=expanded.get(index, False))
                for index, segment in enumerate(path.segments)
            )
        )
    return found


def _item(item: int | None, *, is_expanded: bool) -> str:
    if item is None:
        return ""
    return f"#{item}" if is_expanded else ANY_ITEM


def match_pod(graph: TaskGraph, pod: TaskPod) -> PodMatch | None:
    """Return what a pod is in a graph, None where it has no such node (it is of another version)."""
    return match_path(graph, pod.path)


def match_path(graph: TaskGraph, path: NodePath) -> PodMatch | None:
    """Return what a node of the status is in a graph, None where it has none: groups and calls have not."""
    segments = path.segments
    for length in range(len(segments), 0, -1):
        for place in _places(NodePath(segments[:length])):
            node = graph.at(place)
            if node is None:
                continue
            if length == len(segments):
                return PodMatch(node, path.items, path.attempt)
            if node.kind in (NodeKind.RECURSION, NodeKind.AT_RUN_TIME):
                return PodMatch(node, path.items, path.attempt, is_within=True)
    return None


def history_key(graph: TaskGraph, node: Node) -> ClassKey:
    """Return the class of a node's runs: the origin, the template's key, the place without items."""
    return ClassKey(graph.origin, node.template, _without_items(node.place))


def _without_items(place: str) -> str:
    kept: list[str] = []
    for number, part in enumerate(place.split("#")):
        kept.append(part if number == 0 else part.lstrip("0123456789*"))
    return "".join(kept)
