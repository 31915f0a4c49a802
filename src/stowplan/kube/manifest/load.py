"""A cluster and its pending pods out of plain Kubernetes objects, as kube-scheduler would see them.

Pods with a node are bound, those that ended are not there, those on a node that is not among the objects
and those being deleted before they ever ran are nobody's concern. Namespaces that objects are in exist,
whether or not they are among the objects. Kinds that mean nothing to placement are counted and ignored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, cast

from stowplan.core.domain import ClusterState, NodeSet, PodBound, PodNominated, PodShape, StorageSet
from stowplan.errors import InvalidObject
from stowplan.kube.manifest.context import ShapeContext, read_needs, read_priority_class
from stowplan.kube.manifest.cursor import Cursor
from stowplan.kube.manifest.nodes import implied_namespace, read_namespace, read_node
from stowplan.kube.manifest.owners import OWNER_KINDS, owner_selector
from stowplan.kube.manifest.pods import read_pod_shape
from stowplan.kube.manifest.standing import ENDED_PHASES, standing
from stowplan.kube.manifest.storage import (
    STORAGE_READERS,
    default_class,
    read_claim,
    with_default_class,
)

__all__ = ["LoadedObjects", "PendingPod", "load_objects"]

_NAMESPACED: Final = ("Pod", "PersistentVolumeClaim", "CSIStorageCapacity", *OWNER_KINDS)
_USED: Final = (
    "Node",
    "Pod",
    "Namespace",
    "PriorityClass",
    "PersistentVolumeClaim",
    *STORAGE_READERS,
    *OWNER_KINDS,
)
_GROUPS: Final = {
    "StorageClass": "storage.k8s.io",
    "CSINode": "storage.k8s.io",
    "CSIDriver": "storage.k8s.io",
    "CSIStorageCapacity": "storage.k8s.io",
    "VolumeAttachment": "storage.k8s.io",
    "PriorityClass": "scheduling.k8s.io",
    **OWNER_KINDS,
}


@dataclass(frozen=True, slots=True)
class PendingPod:
    """A pod that waits for a node. `key` is `namespace/name`."""

    key: str
    shape: PodShape
    uid: str = ""


@dataclass(frozen=True, slots=True)
class LoadedObjects:
    """The cluster, the pods that wait (in file order), and how many objects of each kind were ignored."""

    state: ClusterState
    pending: tuple[PendingPod, ...]
    ignored: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Object:
    namespace: str
    name: str
    cursor: Cursor
    owner: str

    @property
    def full_name(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def _flattened(documents: Iterable[object]) -> Iterator[Mapping[str, object]]:
    for document in documents:
        if document is None:
            continue
        if not isinstance(document, Mapping):
            raise InvalidObject(
                f"a document is {document!r}; write Kubernetes objects, each with `kind` and `metadata`"
            )
        entry = cast("Mapping[str, object]", document)
        kind = entry.get("kind")
        if not isinstance(kind, str) or not kind:
            raise InvalidObject(
                f"an object's kind is {kind!r}; write the kind of each object, for example Pod"
            )
        if kind.endswith("List"):
            member = kind.removesuffix("List")
            for item in Cursor(entry, kind)["items"].items():
                value = dict(item.entries())
                if member and "kind" not in value:
                    yield {**cast("Mapping[str, object]", item.raw()), "kind": member}
                else:
                    yield from _flattened([item.raw()])
        else:
            yield entry


def _sorted(documents: Iterable[object]) -> tuple[dict[str, list[_Object]], Counter[str]]:
    found: dict[str, list[_Object]] = {kind: [] for kind in _USED}
    ignored: Counter[str] = Counter()
    seen: set[tuple[str, str]] = set()
    for document in _flattened(documents):
        kind = str(document["kind"])
        version = document.get("apiVersion")
        group = version.rpartition("/")[0] if isinstance(version, str) else _GROUPS.get(kind, "")
        if kind not in found or group != _GROUPS.get(kind, ""):
            ignored[kind] += 1
            continue
        metadata = Cursor(document, kind)["metadata"]
        name = metadata["name"].required_text("name every object")
        namespace = (metadata["namespace"].text() or "default") if kind in _NAMESPACED else ""
        full_name = f"{namespace}/{name}" if namespace else name
        if (kind, full_name) in seen:
            raise InvalidObject(f"{kind} {full_name} occurs twice; names are unique, remove one")
        seen.add((kind, full_name))
        owner = f"{kind} {full_name}"
        found[kind].append(_Object(namespace, name, Cursor(document, owner), owner))
    return found, ignored


def load_objects(documents: Iterable[object]) -> LoadedObjects:
    """Read Kubernetes objects (mappings as a YAML or JSON parser returns them, `List`s included).

    Raises: InvalidObject: an object has a field that cannot be used; the message names the object, the
        field's path, the value and the mend.
    """
    found, ignored = _sorted(documents)
    state = ClusterState()
    for item in found["Node"]:
        state.apply(NodeSet(read_node(item.name, item.cursor)))
    _load_namespaces(state, found)
    _load_storage(state, found)
    return LoadedObjects(state, tuple(_load_pods(state, found)), dict(sorted(ignored.items())))


def _load_namespaces(state: ClusterState, found: dict[str, list[_Object]]) -> None:
    for item in found["Namespace"]:
        state.apply(read_namespace(item.name, item.cursor))
    implied = {"default", *(item.namespace for kind in _NAMESPACED for item in found[kind])}
    for name in sorted(implied - state.namespaces.keys()):
        state.apply(implied_namespace(name))


def _load_storage(state: ClusterState, found: dict[str, list[_Object]]) -> None:
    for kind, read in STORAGE_READERS.items():
        for item in found[kind]:
            state.apply(StorageSet(read(item.full_name, item.cursor)))
    classes = [
        (state.storage.classes[item.name], item.cursor["metadata"]["creationTimestamp"].text())
        for item in found["StorageClass"]
    ]
    default = default_class(classes)
    for item in found["PersistentVolumeClaim"]:
        claim = read_claim(item.namespace, item.name, item.cursor)
        state.apply(StorageSet(with_default_class(claim, default)))


def _context(found: dict[str, list[_Object]]) -> ShapeContext:
    context = ShapeContext()
    for item in found["PriorityClass"]:
        value, is_default = read_priority_class(item.cursor)
        context.priorities.set(item.name, value, is_default=is_default)
    for kind in OWNER_KINDS:
        for item in found[kind]:
            context.owners.set(kind, item.namespace, item.name, owner_selector(kind, item.cursor))
    return context


def _load_pods(state: ClusterState, found: dict[str, list[_Object]]) -> Iterator[PendingPod]:
    context = _context(found)
    for item in found["Pod"]:
        metadata, spec, status = (item.cursor[part] for part in ("metadata", "spec", "status"))
        node_name, nominated = spec["nodeName"].text(), status["nominatedNodeName"].text()
        phase, uid = status["phase"].text(), metadata["uid"].text()
        is_deleting = metadata["deletionTimestamp"].is_set
        shape = context.complete(
            read_pod_shape(item.namespace, item.name, item.cursor),
            read_needs(item.cursor),
            own_nomination=item.full_name if nominated and not node_name else "",
        )
        event = standing(
            item.full_name,
            shape,
            uid=uid,
            phase=phase,
            node_name=node_name,
            nominated_node=nominated,
            is_deleting=is_deleting,
        )
        if isinstance(event, PodNominated) or (isinstance(event, PodBound) and state.row(node_name) >= 0):
            state.apply(event)
        if not (node_name or is_deleting or phase in ENDED_PHASES):
            yield PendingPod(item.full_name, shape, uid)
