"""Events of a cluster state as plain data and back, each a list that begins with its kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stowplan.core.domain import (
    ClusterEvent,
    Labels,
    NamespaceRemoved,
    NamespaceSet,
    Node,
    NodeRemoved,
    NodeSet,
    NominationRemoved,
    PodBound,
    PodNominated,
    PodRemoved,
    PodShape,
    StorageRemoved,
    StorageSet,
)
from stowplan.core.record.state import STORAGE_KINDS, pod_from_plain, pod_to_plain
from stowplan.core.record.values import Plain, to_plain, to_value
from stowplan.errors import InvalidFile

__all__ = ["event_from_plain", "event_to_plain"]


def event_to_plain(  # noqa: C901, PLR0911  (one case per kind)
    event: ClusterEvent, number_of: Callable[[PodShape], int]
) -> Plain:
    """Return an event; shapes are named by number."""
    match event:
        case PodBound(pod, node_name):
            return ["bound", pod_to_plain(pod, number_of), node_name]
        case PodRemoved(key):
            return ["removed", key]
        case NodeSet(node):
            return ["node", to_plain(node)]
        case NodeRemoved(name):
            return ["node removed", name]
        case PodNominated(pod, node_name):
            return ["nominated", pod_to_plain(pod, number_of), node_name]
        case NominationRemoved(key):
            return ["nomination removed", key]
        case NamespaceSet(name, labels):
            return ["namespace", name, to_plain(labels)]
        case NamespaceRemoved(name):
            return ["namespace removed", name]
        case StorageSet(item):
            return ["storage", type(item).__name__, to_plain(item)]
        case StorageRemoved():
            return ["storage removed", event.kind.__name__, event.name]


def event_from_plain(plain: Plain, shapes: Sequence[PodShape]) -> ClusterEvent:  # noqa: C901, PLR0911  (one case per kind)
    """Return the event again.

    Raises:
        InvalidFile: it is of no known kind.
    """
    match plain:
        case ["bound", pod, node_name]:
            return PodBound(pod_from_plain(pod, shapes), node_name)
        case ["removed", key]:
            return PodRemoved(key)
        case ["node", node]:
            return NodeSet(to_value(node, Node))
        case ["node removed", name]:
            return NodeRemoved(name)
        case ["nominated", pod, node_name]:
            return PodNominated(pod_from_plain(pod, shapes), node_name)
        case ["nomination removed", key]:
            return NominationRemoved(key)
        case ["namespace", name, labels]:
            return NamespaceSet(name, to_value(labels, Labels))
        case ["namespace removed", name]:
            return NamespaceRemoved(name)
        case ["storage", kind, item] if kind in STORAGE_KINDS:
            return StorageSet(to_value(item, STORAGE_KINDS[kind]))
        case ["storage removed", kind, name] if kind in STORAGE_KINDS:
            return StorageRemoved(STORAGE_KINDS[kind], name)
        case _:
            raise InvalidFile(f"the record holds an event of no known kind: {str(plain)[:80]}")
