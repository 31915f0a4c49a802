"""The cluster as struct of arrays: one row per node, one column per resource, changed only by events.

Every change costs what it touches. A journal of the rows that each change touched lets readers (compiled
constraints, scores, snapshots) catch up with the same economy. Rows are stable while a node exists; the row
of a removed node is reused.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntFlag
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain.columns import ABSENT, LabelColumn
from stowplan.core.domain.events import (
    BoundPod,
    ClusterEvent,
    NamespaceRemoved,
    NamespaceSet,
    NodeRemoved,
    NodeSet,
    NominationRemoved,
    PodBound,
    PodNominated,
    PodRemoved,
    StorageRemoved,
    StorageSet,
)
from stowplan.core.domain.node import Node
from stowplan.core.domain.nominations import Nominations
from stowplan.core.domain.pod import PodShape, Taint
from stowplan.core.domain.pod_index import PodIndex
from stowplan.core.domain.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources
from stowplan.core.domain.selectors import Labels
from stowplan.core.domain.storage_index import StorageIndex
from stowplan.errors import InternalError, InvalidObject, StateConflict

__all__ = ["ARRAYS", "CPU_COLUMN", "MEMORY_COLUMN", "PODS_COLUMN", "Change", "ChangeKind", "ClusterState"]

CPU_COLUMN = 0
MEMORY_COLUMN = 1
PODS_COLUMN = 2
ARRAYS = (
    "allocatable",
    "requested",
    "scored",
    "gpu_free_milli",
    "is_node",
    "is_unschedulable",
    "taint_set_ids",
    "gpu_model_ids",
)
"""Names of the arrays of a `ClusterState`."""
_FIRST_COLUMNS = (CPU, MEMORY, PODS, EPHEMERAL_STORAGE)
_FIRST_CAPACITY = 16
_DOUBLES_BELOW = 1024
S = TypeVar("S", bound=np.generic)
_JOURNAL_LIMIT = 8192  # changes hold the shapes of pods long gone; who is so far behind starts over for less
_CACHED_REQUESTS = 65536


class ChangeKind(IntFlag):
    """What a change touched, so that a reader can ignore what it does not depend on."""

    NODE = 1
    POD = 2
    STORAGE = 4
    NAMESPACE = 8
    NOMINATION = 16


@dataclass(frozen=True, slots=True)
class Change:
    """One entry of the journal.

    `row` is −1 when it is not about one node; `shape` is that of the pod, `by` 1 when it was bound and −1
    when it was removed, `is_terminating` says whether it was already being deleted.
    """

    kind: ChangeKind
    row: int
    shape: PodShape | None = None
    by: int = 0
    is_terminating: bool = False


class ClusterState:
    """Nodes, bound pods, namespaces and storage, with indexes for the scheduler.

    Arrays (first axis: rows, `capacity` long; rows of no node have `is_node` False):
        allocatable, requested: int64 (capacity, resources); milli-cores, bytes, counts; columns as in
        `columns`. scored: int64 (capacity, 2); milli-cores and bytes requested as scoring counts them.
        gpu_free_milli: int32 (capacity, gpus); free thousandths of each GPU, −1 where the node has no such
        GPU. is_node, is_unschedulable: bool (capacity,).
        taint_set_ids: int32 (capacity,); index into `taint_sets`.
        gpu_model_ids: int32 (capacity,); index into `gpu_models`, −1 without GPUs.
    """

    def __init__(self) -> None:
        """Start with an empty cluster."""
        self.capacity = _FIRST_CAPACITY
        self.columns: dict[str, int] = {name: column for column, name in enumerate(_FIRST_COLUMNS)}
        self.allocatable: NDArray[np.int64] = np.zeros((self.capacity, len(self.columns)), dtype=np.int64)
        self.requested: NDArray[np.int64] = np.zeros((self.capacity, len(self.columns)), dtype=np.int64)
        self.scored: NDArray[np.int64] = np.zeros((self.capacity, 2), dtype=np.int64)
        self.gpu_free_milli: NDArray[np.int32] = np.full((self.capacity, 0), -1, dtype=np.int32)
        self.is_node: NDArray[np.bool_] = np.zeros(self.capacity, dtype=np.bool_)
        self.is_unschedulable: NDArray[np.bool_] = np.zeros(self.capacity, dtype=np.bool_)
        self.taint_set_ids: NDArray[np.int32] = np.zeros(self.capacity, dtype=np.int32)
        self.gpu_model_ids: NDArray[np.int32] = np.full(self.capacity, ABSENT, dtype=np.int32)
        self.taint_sets: list[tuple[Taint, ...]] = [()]
        self.gpu_models: list[str] = []
        self.labels: dict[str, LabelColumn] = {}
        self.images: dict[str, dict[int, int]] = {}  # image name → row → size in bytes
        self.nodes: list[Node | None] = [None] * self.capacity
        self.pods: dict[str, tuple[BoundPod, int]] = {}  # key → (pod, row)
        self.pods_on: list[dict[str, BoundPod]] = [{} for _ in range(self.capacity)]
        self.index = PodIndex()
        self.storage = StorageIndex()
        self.nominations = Nominations()
        self.namespaces: dict[str, Labels] = {}
        self.is_frozen = False
        self.tap: Callable[[ClusterEvent], None] | None = None  # told of every event that was applied
        self._row_of: dict[str, int] = {}
        self._free_rows: list[int] = list(range(self.capacity - 1, -1, -1))
        self._taint_set_id_of: dict[tuple[Taint, ...], int] = {(): 0}
        self._journal: list[Change] = []
        self._journal_start = 0
        self._request_rows: dict[Resources, tuple[NDArray[np.intp], NDArray[np.int64]]] = {}

    # ---- reading ----

    @property
    def node_count(self) -> int:
        """Number of nodes."""
        return len(self._row_of)

    @property
    def sequence(self) -> int:
        """Number of changes so far; pass it to `changes_since` later."""
        return self._journal_start + len(self._journal)

    @property
    def free_rows(self) -> Sequence[int]:
        """Rows without a node; new nodes take the last."""
        return self._free_rows

    def row(self, node_name: str) -> int:
        """Return the row of a node, or −1 when there is none of that name."""
        return self._row_of.get(node_name, -1)

    def rows_of(self, node_names: Sequence[str]) -> NDArray[np.intp]:
        """Return the rows of nodes, −1 where there is none of that name, shape (names,)."""
        found = map(self._row_of.get, node_names, itertools.repeat(-1))
        return np.fromiter(found, dtype=np.intp, count=len(node_names))

    def node(self, row: int) -> Node:
        """Return the node of `row`.

        Raises:
            InternalError: the row holds no node.
        """
        node = self.nodes[row]
        if node is None:
            raise InternalError(
                f"row {row} holds no node (capacity {self.capacity}, {self.node_count} nodes)"
            )
        return node

    def rows(self) -> Iterator[tuple[str, int]]:
        """Iterate over (node name, row) in order of insertion."""
        return iter(self._row_of.items())

    def changes_since(self, sequence: int) -> list[Change] | None:
        """Return the journal after `sequence`, or None when that is no longer kept: then start over."""
        if sequence < self._journal_start:
            return None
        return self._journal[sequence - self._journal_start :]

    def request_vector(self, requests: Resources) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """Return the columns and amounts of `requests` and the pod itself; new resources get a column."""
        cached = self._request_rows.get(requests)
        if cached is None:
            columns = [PODS_COLUMN, *(self._column(name) for name in requests)]
            amounts = [1, *requests.values()]
            cached = (np.array(columns, dtype=np.intp), np.array(amounts, dtype=np.int64))
            if len(self._request_rows) >= _CACHED_REQUESTS:
                self._request_rows.clear()
            self._request_rows[requests] = cached
        return cached

    def copy(self) -> ClusterState:
        """Return an independent, changeable copy; immutable values (nodes, pods, shapes) are shared."""
        other = ClusterState()
        other.capacity = self.capacity
        for name in ARRAYS:
            setattr(other, name, getattr(self, name).copy())
        other.columns = self.columns.copy()
        other.taint_sets = self.taint_sets.copy()
        other.gpu_models = self.gpu_models.copy()
        other.labels = {key: column.copy() for key, column in self.labels.items()}
        other.images = {image: sizes.copy() for image, sizes in self.images.items()}
        other.nodes = self.nodes.copy()
        other.pods = self.pods.copy()
        other.pods_on = [pods.copy() for pods in self.pods_on]
        other.index = self.index.copy()
        other.storage = self.storage.copy()
        other.nominations = self.nominations.copy()
        other.namespaces = self.namespaces.copy()
        other._row_of = self._row_of.copy()
        other._free_rows = self._free_rows.copy()
        other._taint_set_id_of = self._taint_set_id_of.copy()
        other._journal_start = self.sequence  # readers of the copy start afresh
        return other

    # ---- changing ----

    def apply(self, event: ClusterEvent) -> None:
        """Apply one event.

        Raises:
            StateConflict: the event contradicts the state (pod bound twice, unknown node or pod, node removed
            under pods). InvalidObject: a GPU index that the node does not have, or a pod that names `pods` as
            a resource. InternalError: this state is the frozen one of a snapshot.
        """
        if self.is_frozen:
            raise InternalError(
                "a snapshot was asked to change; apply events to the ClusterState it was taken from"
            )
        match event:
            case PodBound():
                self._bind(event.pod, event.node_name)
            case PodRemoved():
                self._unbind(event.key)
            case PodNominated() | NominationRemoved():
                self._change_nominations(event)
            case NodeSet():
                self._set_node(event.node)
            case NodeRemoved():
                self._remove_node(event.name)
            case NamespaceSet() | NamespaceRemoved():
                self._change_namespaces(event)
            case StorageSet() | StorageRemoved():
                self.storage.change(event)
                self._note(Change(ChangeKind.STORAGE, -1))
        if self.tap is not None:
            self.tap(event)

    def _note(self, change: Change) -> None:
        self._journal.append(change)
        if len(self._journal) > _JOURNAL_LIMIT:
            half = _JOURNAL_LIMIT // 2
            del self._journal[:half]
            self._journal_start += half

    def _bind(self, pod: BoundPod, node_name: str) -> None:
        row = self._row_of.get(node_name, -1)
        if row < 0:
            raise StateConflict(
                f"pod {pod.key!r} is bound to the unknown node {node_name!r}; add the node first"
            )
        if pod.key in self.pods:
            held = self.node(self.pods[pod.key][1]).name
            raise StateConflict(
                f"pod {pod.key!r} is already bound to {held!r}; remove it before binding it again"
            )
        self._occupy(pod, row, 1)
        if pod.key in self.nominations:
            self.nominations.remove(pod.key)
            self._note(Change(ChangeKind.NOMINATION, -1))
        self.pods[pod.key] = (pod, row)
        self.pods_on[row][pod.key] = pod
        self._note(Change(ChangeKind.POD, row, pod.shape, 1, pod.is_terminating))

    def _change_nominations(self, event: PodNominated | NominationRemoved) -> None:
        if isinstance(event, NominationRemoved):
            self.nominations.remove(event.key)
        elif event.pod.key in self.pods:
            raise StateConflict(
                f"pod {event.pod.key!r} is bound already; it cannot be nominated for {event.node_name!r}"
            )
        else:
            self.nominations.set(event.pod, event.node_name)
        self._note(Change(ChangeKind.NOMINATION, -1))

    def _unbind(self, key: str) -> None:
        held = self.pods.pop(key, None)
        if held is None:
            raise StateConflict(f"pod {key!r} is not bound; it cannot be removed")
        pod, row = held
        del self.pods_on[row][key]
        self._occupy(pod, row, -1)
        self._note(Change(ChangeKind.POD, row, pod.shape, -1, pod.is_terminating))

    def _occupy(self, pod: BoundPod, row: int, by: int) -> None:
        shape = pod.shape
        if PODS in shape.requests:
            raise InvalidObject(f"pod {pod.key!r} requests the resource 'pods'; it is counted, not requested")
        gpus = self.gpu_free_milli[row]
        if shape.gpu is not None:
            if by > 0:
                self._require_free_gpus(pod, row)
            for gpu in pod.gpus:
                gpus[gpu] -= by * shape.gpu.milli
        columns, amounts = self.request_vector(shape.requests)
        requested, scored = self.requested[row], self.scored[row]
        for column, amount in zip(columns.tolist(), amounts.tolist(), strict=True):  # few: faster one by one
            requested[column] += by * amount
        scored[0] += by * shape.score_cpu_milli
        scored[1] += by * shape.score_memory_bytes
        self.index.count(pod, row, by)

    def _require_free_gpus(self, pod: BoundPod, row: int) -> None:
        gpus, milli = self.gpu_free_milli[row], pod.shape.gpu.milli if pod.shape.gpu is not None else 0
        for gpu in pod.gpus:
            node_name = self.node(row).name
            if not (gpu < gpus.size and gpus[gpu] >= 0):
                raise InvalidObject(f"pod {pod.key!r} uses GPU {gpu} of {node_name!r}, which has none such")
            if gpus[gpu] < milli:
                raise StateConflict(
                    f"pod {pod.key!r} uses {milli} thousandths of GPU {gpu} of {node_name!r}, "
                    f"which has {gpus[gpu]} free; remove the pods that hold it first"
                )

    def _set_node(self, node: Node) -> None:
        row = self._row_of.get(node.name, -1)
        if row < 0:
            if not self._free_rows:
                self._grow()
            row = self._free_rows.pop()
            self._row_of[node.name] = row
        else:
            self._require_gpus_in_use(row, node)
            self._clear_description(row)
        self.nodes[row] = node
        self.is_node[row] = True
        self.is_unschedulable[row] = node.unschedulable
        self.taint_set_ids[row] = self._taint_set_id(node.taints)
        columns = [self._column(name) for name in node.allocatable]  # may add columns, so before indexing
        self.allocatable[row] = 0
        self.allocatable[row, columns] = list(node.allocatable.values())
        for key, label in node.labels:
            if key not in self.labels:
                self.labels[key] = LabelColumn(self.capacity)
            self.labels[key].set(row, label)
        for image, size_bytes in node.images:
            self.images.setdefault(image, {})[row] = size_bytes
        self._set_gpus(row, node)
        self._note(Change(ChangeKind.NODE, row))

    def _remove_node(self, name: str) -> None:
        row = self._row_of.get(name, -1)
        if row < 0:
            raise StateConflict(f"node {name!r} is not known; it cannot be removed")
        if self.pods_on[row]:
            some = next(iter(self.pods_on[row]))
            raise StateConflict(
                f"node {name!r} still has {len(self.pods_on[row])} pods (one is {some!r}); remove them first"
            )
        self._clear_description(row)
        del self._row_of[name]
        self.nodes[row] = None
        self.is_node[row] = False
        self.allocatable[row] = 0
        self.gpu_free_milli[row] = -1
        self.gpu_model_ids[row] = ABSENT
        self._free_rows.append(row)
        self._note(Change(ChangeKind.NODE, row))

    def _change_namespaces(self, event: NamespaceSet | NamespaceRemoved) -> None:
        if isinstance(event, NamespaceSet):
            self.namespaces[event.name] = event.labels
        elif self.namespaces.pop(event.name, None) is None:
            raise StateConflict(f"namespace {event.name!r} is not known; it cannot be removed")
        self._note(Change(ChangeKind.NAMESPACE, -1))

    def _clear_description(self, row: int) -> None:
        old = self.node(row)
        for key, _ in old.labels:
            self.labels[key].set(row, None)
        for image, _ in old.images:
            self.images[image].pop(row, None)
            if not self.images[image]:
                del self.images[image]

    def _require_gpus_in_use(self, row: int, node: Node) -> None:
        for pod in self.pods_on[row].values():
            for gpu in pod.gpus:
                if gpu >= len(node.hardware.gpus):
                    raise StateConflict(f"node {node.name!r} lost GPU {gpu}, which pod {pod.key!r} uses")

    def _set_gpus(self, row: int, node: Node) -> None:
        gpus = node.hardware.gpus
        if len(gpus) > self.gpu_free_milli.shape[1]:
            wider = np.full((self.capacity, len(gpus)), -1, dtype=np.int32)
            wider[:, : self.gpu_free_milli.shape[1]] = self.gpu_free_milli
            self.gpu_free_milli = wider
        self.gpu_free_milli[row] = -1
        self.gpu_free_milli[row, : len(gpus)] = 1000
        for pod in self.pods_on[row].values():
            if pod.shape.gpu is not None:
                self.gpu_free_milli[row, list(pod.gpus)] -= pod.shape.gpu.milli
        if not gpus:
            self.gpu_model_ids[row] = ABSENT
            return
        model = gpus[0].model
        if model not in self.gpu_models:
            self.gpu_models.append(model)
        self.gpu_model_ids[row] = self.gpu_models.index(model)

    def _taint_set_id(self, taints: tuple[Taint, ...]) -> int:
        set_id = self._taint_set_id_of.get(taints)
        if set_id is None:
            set_id = self._taint_set_id_of[taints] = len(self.taint_sets)
            self.taint_sets.append(taints)
        return set_id

    def _column(self, name: str) -> int:
        column = self.columns.get(name)
        if column is None:
            column = self.columns[name] = len(self.columns)
            empty = np.zeros((self.capacity, 1), dtype=np.int64)
            self.allocatable = np.concatenate([self.allocatable, empty], axis=1)
            self.requested = np.concatenate([self.requested, empty], axis=1)
            self.allocatable.flags.writeable = self.requested.flags.writeable = not self.is_frozen
        return column

    def _grow(self) -> None:
        # Every array is read whole: large ones grow by an eighth, as doubling leaves half of them empty.
        old = self.capacity
        self.capacity += old if old < _DOUBLES_BELOW else old // 8
        self.allocatable = _grown(self.allocatable, self.capacity, 0)
        self.requested = _grown(self.requested, self.capacity, 0)
        self.scored = _grown(self.scored, self.capacity, 0)
        self.gpu_free_milli = _grown(self.gpu_free_milli, self.capacity, -1)
        self.is_node = _grown(self.is_node, self.capacity, 0)
        self.is_unschedulable = _grown(self.is_unschedulable, self.capacity, 0)
        self.taint_set_ids = _grown(self.taint_set_ids, self.capacity, 0)
        self.gpu_model_ids = _grown(self.gpu_model_ids, self.capacity, ABSENT)
        for column in self.labels.values():
            column.grow(self.capacity)
        self.nodes.extend([None] * (self.capacity - old))
        self.pods_on.extend({} for _ in range(self.capacity - old))
        self._free_rows.extend(range(self.capacity - 1, old - 1, -1))


def _grown(array: NDArray[S], capacity: int, fill: int) -> NDArray[S]:
    grown = np.full((capacity, *array.shape[1:]), fill, dtype=array.dtype)
    grown[: len(array)] = array
    return grown
