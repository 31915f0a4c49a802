"""A cluster state as plain data, and a state with the same content from it.

The state is rebuilt by events, as any state is made. Rows, columns and the numbers of labels, taints and GPU
models depend on the order in which things came, and some of them left again; so before the real nodes come,
one that is not real brings what is to be numbered, in order, and others leave the rows in the order in which
the real nodes must find them. What the rebuilt state does not have is the journal of the old one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from stowplan.core.domain import (
    BoundPod,
    ClusterState,
    CsiCapacity,
    CsiDriver,
    CsiNode,
    Gpu,
    Hardware,
    Labels,
    NamespaceSet,
    Node,
    NodeRemoved,
    NodeSet,
    PersistentVolume,
    PersistentVolumeClaim,
    PodBound,
    PodNominated,
    PodShape,
    Resources,
    StorageClass,
    StorageSet,
    Taint,
    VolumeAttachment,
)
from stowplan.core.domain.events import StorageObject
from stowplan.core.record.capture import StateCapture
from stowplan.core.record.values import Plain, to_plain, to_value
from stowplan.errors import InvalidFile

__all__ = ["STORAGE_KINDS", "pod_from_plain", "pod_to_plain", "state_from_plain", "state_to_plain"]

STORAGE_KINDS: Final[Mapping[str, type[StorageObject]]] = {
    kind.__name__: kind
    for kind in (
        PersistentVolume,
        PersistentVolumeClaim,
        StorageClass,
        CsiNode,
        CsiDriver,
        CsiCapacity,
        VolumeAttachment,
    )
}
_FILLER: Final = "filler-{}"


def pod_to_plain(pod: BoundPod, number_of: Callable[[PodShape], int]) -> Plain:
    """Return a pod, its shape by number."""
    return [pod.key, number_of(pod.shape), list(pod.gpus), pod.is_terminating, pod.uid]


def pod_from_plain(plain: Plain, shapes: Sequence[PodShape]) -> BoundPod:
    """Return the pod again."""
    key, shape, gpus, is_terminating, uid = plain
    return BoundPod(key, shapes[int(shape)], tuple(gpus), is_terminating, uid)


def state_to_plain(state: StateCapture, number_of: Callable[[PodShape], int]) -> Plain:
    """Return the content of a state; shapes are named by number."""
    return {
        "capacity": state.capacity,
        "columns": state.columns,
        "gpu_width": state.gpu_width,
        "taint_sets": to_plain(state.taint_sets),
        "gpu_models": state.gpu_models,
        "labels": to_plain(state.label_values),
        "nodes": to_plain(state.nodes),
        "free_rows": state.free_rows,
        "pods": [[pod_to_plain(pod, number_of), row] for pod, row in state.pods],
        "namespaces": to_plain(state.namespaces),
        "nominations": [
            [name, [pod_to_plain(pod, number_of) for pod in pods]] for name, pods in state.nominations
        ],
        "storage": [[type(item).__name__, to_plain(item)] for item in state.storage],
    }


def state_from_plain(plain: Plain, shapes: Sequence[PodShape]) -> ClusterState:
    """Return a state with that content.

    Raises:
        InvalidFile: the content contradicts itself.
    """
    state = ClusterState()
    _number(state, plain)
    nodes: list[tuple[int, Node]] = [(row, to_value(node, Node)) for row, node in plain["nodes"]]
    _lay_out_rows(state, plain["capacity"], [row for row, _ in nodes], plain["free_rows"])
    for row, node in nodes:
        state.apply(NodeSet(node))
        if state.row(node.name) != row:
            raise InvalidFile(
                f"node {node.name!r} of the record was in row {row}; rebuilt it is in {state.row(node.name)}"
            )
    for name, labels in plain["namespaces"]:
        state.apply(NamespaceSet(name, to_value(labels, Labels)))
    for kind, item in plain["storage"]:
        state.apply(StorageSet(to_value(item, STORAGE_KINDS[kind])))
    for pod, row in plain["pods"]:
        state.apply(PodBound(pod_from_plain(pod, shapes), state.node(row).name))
    for name, pods in plain["nominations"]:
        for pod in pods:
            state.apply(PodNominated(pod_from_plain(pod, shapes), name))
    return state


def _number(state: ClusterState, plain: Plain) -> None:
    """Have everything numbered that the record has numbers for, in its order."""
    name = _FILLER.format(0)

    def bring(**facts: object) -> None:
        state.apply(NodeSet(Node(name, facts.pop("allocatable", Resources()), **facts)))  # pyright: ignore[reportArgumentType]

    for column in plain["columns"]:
        bring(allocatable=Resources({column: 0}))
    for taints in plain["taint_sets"]:
        bring(taints=tuple(to_value(taint, Taint) for taint in taints))
    for model in plain["gpu_models"]:
        bring(hardware=Hardware(gpus=(Gpu(model),)))
    if plain["gpu_width"]:
        some = plain["gpu_models"][0]
        bring(hardware=Hardware(gpus=(Gpu(some),) * plain["gpu_width"]))
    for key, values in plain["labels"]:
        for value in values:
            bring(labels=((key, value),))
    if state.node_count:
        state.apply(NodeRemoved(name))


def _lay_out_rows(state: ClusterState, capacity: int, rows: Sequence[int], free_rows: Sequence[int]) -> None:
    """Leave the rows free so that nodes take `rows` one after the other, and `free_rows` stay."""
    names: list[str] = []
    while len(names) < capacity:
        names.append(_FILLER.format(len(names)))
        state.apply(NodeSet(Node(names[-1], Resources())))
    if state.capacity != capacity or sorted([*rows, *free_rows]) != list(range(capacity)):
        raise InvalidFile(f"the record's rows are not those of a state of capacity {capacity}")
    name_in = {state.row(name): name for name in names}
    for row in [*free_rows, *reversed(rows)]:
        state.apply(NodeRemoved(name_in[row]))
