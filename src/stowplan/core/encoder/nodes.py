"""Rows of nodes, kept between cycles and within one: only those of touched nodes are made anew.

A node's row follows from the node, the pods on it, what the view knows of them, and the readings; from no
clock. So it stays right until one of these changes, and each of them says when: the state's journal, the
view's tasks, and the version of the board of readings.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain import (
    CPU_COLUMN,
    MEMORY,
    MEMORY_COLUMN,
    PODS_COLUMN,
    ChangeKind,
    ClusterState,
    Node,
)
from stowplan.core.encoder.columns import SCHEMA
from stowplan.core.encoder.demands import Demands
from stowplan.core.encoder.factors import MOST_AMOUNT, usable_amounts
from stowplan.core.encoder.gpu_rooms import GpuRooms
from stowplan.core.encoder.node_columns import LOADS, READINGS, RESIDUALS
from stowplan.core.encoder.occupants import (
    ASKED,
    EXPOSED,
    EXPOSED_CORES,
    KNOWN,
    OCCUPANT_COLUMNS,
    OTHER_CORES,
    Occupants,
)
from stowplan.core.encoder.scoring import RowScorer
from stowplan.core.encoder.tasks import gpus_requested
from stowplan.core.physics.vocabulary import RESOURCE_COUNT, Resource
from stowplan.core.policy.demand import busy_share, capacity_of
from stowplan.core.policy.hidden_load import DISK_RESOURCES, HiddenLoads
from stowplan.core.policy.interface import CycleView
from stowplan.core.semantics.board import NodeReadings
from stowplan.errors import InternalError

__all__ = ["NodeRows"]

Doubles = NDArray[np.float64]
Ints = NDArray[np.intp]
Number = TypeVar("Number", bound=np.generic)

_WIDTH: Final = len(SCHEMA.node.columns)
_AT: Final = SCHEMA.node.places


def _span(names: Sequence[str]) -> slice:
    """Return where columns stand that stand together."""
    first = _AT[names[0]]
    if [column.name for column in SCHEMA.node.columns[first : first + len(names)]] != list(names):
        raise InternalError(f"the columns {', '.join(names)} of nodes do not stand together")
    return slice(first, first + len(names))


_FIXED: Final = (
    *(column.name for column in SCHEMA.node.columns[:RESOURCE_COUNT]),
    "allocatable_memory_bytes",
    "memory_per_core_bytes",
    "gpus",
)
_FIXED_AT: Final = _span(_FIXED)
_FREE_AT: Final = _span(("free_cpu_share", "free_memory_share", "free_pods_share"))
_LOADS_AT: Final = _span(LOADS)
_EXPOSED_AT: Final = _span(("exposed_tasks", "exposed_cpu_share"))
_READINGS_AT: Final = _span(tuple(READINGS))
_RESIDUALS_AT: Final = _span(tuple(RESIDUALS))
_MEASURED: Final = np.array([_AT[reading] for reading, _ in RESIDUALS.values()])
_DISK_RESIDUAL: Final = [reading for reading, _ in RESIDUALS.values()].index("storage_bytes_per_s")
_FREE_GPU, _FREE_CORES, _FREE_MEMORY = _AT["free_gpu_share"], _AT["free_cpu_cores"], _AT["free_memory_bytes"]
_FREE_TOGETHER: Final = _AT["free_gpus_together"]
_PODS, _KNOWN_PODS, _OTHER_CPU = _AT["pods"], _AT["known_pods_share"], _AT["other_cpu_share"]
_LOAD, _CAPACITY, _BUSY = slice(RESOURCE_COUNT), slice(RESOURCE_COUNT, 2 * RESOURCE_COUNT), 2 * RESOURCE_COUNT
_LEAST_CAPACITY: Final = 1e-3
_COUNTED: Final = slice(CPU_COLUMN, PODS_COLUMN + 1)  # cores, memory, pods: the first columns of every state


class NodeRows:
    """Rows of the nodes of one state, N nodes.

    Attributes:
        raw: float64 (N, columns).
        encoded: float32 (N, schema.node.width).
        load, capacity, busy: as in `Encoded`; views of one array that changes in place.
        rows: intp (N,); row of each in the state.
        types: names of the nodes' machine types, sorted.
        type_counts: int64 (types,); how many nodes are of each.
        type_of: intp (N,); index of each node's machine type.
        epoch: grows when nodes came or went.
    """

    def __init__(
        self, state: ClusterState, scorer: RowScorer, demands: Demands, hidden: HiddenLoads, epoch: int
    ) -> None:
        """Know no node of `state` yet; epochs begin above `epoch`. `hidden` follows the same state."""
        self.state = state
        self._hidden = hidden
        self._score = scorer
        self._occupants = Occupants(state, demands)
        self._sequence = -1
        self._readings: NodeReadings | None = None
        self._version = 0
        self._board_columns: Ints = np.empty(0, np.intp)
        self._nodes: list[Node | None] = []  # as they were when their fixed numbers were taken
        self._fixed: Doubles = np.empty((0, len(_FIXED)))
        self._sums: Doubles = np.empty((0, OCCUPANT_COLUMNS))  # over the pods of each row
        self._gpus = GpuRooms()
        self._type_of_row: Ints = np.empty(0, np.intp)
        self._place_of: Ints = np.empty(0, np.intp)
        self._changed: set[int] = set()  # places, since they were last asked for
        self.types: tuple[str, ...] = ()
        self.type_counts: NDArray[np.int64] = np.empty(0, np.int64)
        self.epoch = epoch
        self.rows: Ints = np.empty(0, np.intp)
        self.raw: Doubles = np.empty((0, _WIDTH))
        self.encoded: NDArray[np.float32] = np.empty((0, scorer.encoded_width), np.float32)
        self._held = _empty_held(0)

    @property
    def type_of(self) -> Ints:
        """Index of each node's machine type, intp (N,)."""
        return self._type_of_row[self.rows]

    @property
    def load(self) -> NDArray[np.float32]:
        """What is asked for on each node, float32 (N, RESOURCE_COUNT); see `Encoded`."""
        return self._held[:, _LOAD]

    @property
    def capacity(self) -> NDArray[np.float32]:
        """What each node has, float32 (N, RESOURCE_COUNT); see `Encoded`."""
        return self._held[:, _CAPACITY]

    @property
    def busy(self) -> NDArray[np.float32]:
        """How full each node is, float32 (N,); see `Encoded`."""
        return self._held[:, _BUSY]

    def begin(self, view: CycleView, measured: set[int]) -> None:
        """Bring the rows up to what `view` says.

        Args:
            view: of the cycle.
            measured: rows of which the hidden load is another one than before.
        """
        stale = self._occupants.begin(view)
        read = self._rows_read(view.readings) | measured
        occupied, are_others = self._touched()
        occupied = None if occupied is None or stale is None else occupied | stale
        self._bring_up(occupied, read, are_others=are_others)

    def refresh(self) -> Ints:
        """Bring the rows up to the state; return the places that changed since the last call, ascending."""
        occupied, are_others = self._touched()
        self._bring_up(occupied, set(), are_others=are_others)
        changed = np.array(sorted(self._changed), dtype=np.intp)
        self._changed.clear()
        return changed

    # ---- what changed ----

    def _touched(self) -> tuple[set[int] | None, bool]:
        """Return the rows where something happened, None: all, and whether nodes came or went."""
        sequence, before = self.state.sequence, self._sequence
        if sequence == before:
            return set(), False
        changes = self.state.changes_since(before) if before >= 0 else None
        self._sequence = sequence
        if changes is None:
            return None, self._look_at_nodes(range(self.state.capacity))
        rows: set[int] = set()
        nodes: set[int] = set()
        for change in changes:
            if change.kind is ChangeKind.POD:
                rows.add(change.row)
            elif change.kind is ChangeKind.NODE:
                nodes.add(change.row)
        if not nodes:
            return rows, False
        return rows | nodes, self._look_at_nodes(nodes)

    def _look_at_nodes(self, rows: Iterable[int]) -> bool:
        """Take the fixed numbers of nodes that are other ones than before; tell whether some came or went."""
        state = self.state
        more = state.capacity - len(self._nodes)
        if more > 0:
            self._nodes += [None] * more
            self._fixed = np.concatenate([self._fixed, np.full((more, len(_FIXED)), math.nan)])
        self._gpus.grow(state.capacity)
        has_other_types = more > 0
        for row in rows:
            node, before = state.nodes[row], self._nodes[row]
            if node is before:
                continue
            self._nodes[row] = node
            has_other_types |= _type_of(node) != _type_of(before)
            if node is not None:
                self._fixed[row] = _fixed_numbers(node)
                self._gpus.set(row, node)
                self._occupants.forget_row(row)
        if has_other_types:
            self._look_at_types()
        present = np.flatnonzero(state.is_node)
        if np.array_equal(present, self.rows) and self._place_of.size == state.capacity:
            return False
        self.rows = present
        self._place_of = np.full(state.capacity, -1, np.intp)
        self._place_of[present] = np.arange(present.size)
        self.epoch += 1
        return True

    def _look_at_types(self) -> None:
        """Number the machine types by name, whatever the order in which nodes came."""
        names = list(map(_type_of, self._nodes))
        types = tuple(sorted({name for name in names if name is not None}))
        if types != self.types:
            self.types = types
        number_of = {name: number for number, name in enumerate(types)}
        numbers = np.array([0 if name is None else number_of[name] for name in names], dtype=np.intp)
        self._type_of_row = numbers
        self.type_counts = np.bincount(numbers[self.state.is_node], minlength=len(types)).astype(np.int64)

    def _rows_read(self, readings: NodeReadings | None) -> set[int]:
        """Return the rows of which readings changed."""
        version = -1 if readings is None else readings.version
        if readings is not self._readings:
            if readings is not None:
                self._board_columns = _columns_of(readings)
            self._readings, self._version = readings, version
            return set(self.rows.tolist())
        if readings is None or version == self._version:
            return set()
        rows = readings.rows_changed_since(self._version).tolist()
        self._version = version
        return set(rows)

    # ---- rows ----

    def _bring_up(self, occupied: set[int] | None, read: set[int], *, are_others: bool) -> None:
        """Make rows anew.

        Args:
            occupied: rows of the state of which the pods are to be looked at; None: all.
            read: rows of which readings changed.
            are_others: whether nodes came or went, so that the places are others.
        """
        if occupied is None:
            self._sums = np.zeros((self.state.capacity, OCCUPANT_COLUMNS))
            rows = self.rows
        else:
            more = self.state.capacity - len(self._sums)
            if more > 0:
                self._sums = np.pad(self._sums, ((0, more), (0, 0)))
            rows = self._with_node(occupied)
        if rows.size:
            self._count(rows)
        if are_others:
            raw = self._raw_rows(self.rows)
            # Whoever holds the arrays of this cycle goes on with them, unless there are more or fewer nodes.
            self.raw = _kept(self.raw, raw)
            self.encoded = _kept(self.encoded, self._score(raw))
            self._held = _kept(self._held, self._held_rows(self.rows))
            self._changed = set(range(self.rows.size))
            return
        if occupied is not None and read:
            rows = self._with_node(occupied | read)
        if not rows.size:
            return
        places = self._place_of[rows]
        raw = self.raw[places] = self._raw_rows(rows)
        encoded = self._score(raw)
        held = self._held_rows(rows)
        differs = (encoded != self.encoded[places]).any(axis=1) | (held != self._held[places]).any(axis=1)
        self.encoded[places] = encoded
        self._held[places] = held
        self._changed.update(places[differs].tolist())

    def _with_node(self, rows: set[int]) -> Ints:
        """Return those of `rows` that hold a node, ascending."""
        found = np.array(sorted(rows), dtype=np.intp)
        return found[self._place_of[found] >= 0]

    def _count(self, rows: Ints) -> None:
        """Take the sums over the pods of `rows`."""
        types = self.types
        numbers: list[int] = self._type_of_row[rows].tolist()
        self._sums[rows] = self._occupants.sums_on(rows.tolist(), [types[number] for number in numbers])

    def _raw_rows(self, rows: Ints) -> Doubles:
        """Return float64 (rows, columns)."""
        raw = np.full((rows.size, _WIDTH), math.nan)
        fixed = self._fixed[rows]
        raw[:, _FIXED_AT] = fixed
        self._fill_room(raw, rows)
        capacity = fixed[:, :RESOURCE_COUNT]
        self._fill_load(raw, rows, capacity)
        readings = self._readings
        if readings is not None:
            raw[:, _READINGS_AT] = readings.values[rows][:, self._board_columns]
            _fill_residuals(raw, capacity)
        return raw

    def _held_rows(self, rows: Ints) -> NDArray[np.float32]:
        """Return float32 (rows, columns): load, capacity, and how full a node is."""
        held = _empty_held(rows.size)
        held[:, _LOAD] = usable_amounts(self._sums[rows, ASKED] + self._hidden.bytes_per_s(rows))
        capacity = self._fixed[rows, :RESOURCE_COUNT]
        capacity = np.where(np.isnan(capacity), MOST_AMOUNT, capacity)
        capacity[:, DISK_RESOURCES] *= self._hidden.disk_share(rows)[:, None]
        held[:, _CAPACITY] = np.clip(capacity, _LEAST_CAPACITY, MOST_AMOUNT)
        held[:, _BUSY] = busy_share(self.state, rows)
        return held

    def _fill_room(self, raw: Doubles, rows: Ints) -> None:
        state = self.state
        allocatable = state.allocatable[rows, _COUNTED].astype(np.float64)
        requested = state.requested[rows, _COUNTED].astype(np.float64)
        free = np.maximum(allocatable - requested, 0.0)
        np.divide(free, allocatable, out=raw[:, _FREE_AT], where=allocatable > 0.0)
        raw[:, _FREE_CORES] = free[:, CPU_COLUMN] / 1000.0
        raw[:, _FREE_MEMORY] = free[:, MEMORY_COLUMN]
        raw[:, _PODS] = requested[:, PODS_COLUMN]
        if state.gpu_free_milli.shape[1]:
            milli = state.gpu_free_milli[rows]
            count = (milli >= 0).sum(axis=1)
            free_milli = np.maximum(milli, 0).sum(axis=1)
            np.divide(free_milli, 1000.0 * count, out=raw[:, _FREE_GPU], where=count > 0)
            raw[:, _FREE_TOGETHER] = self._gpus.most_together(rows, milli)

    def _fill_load(self, raw: Doubles, rows: Ints, capacity: Doubles) -> None:
        sums = self._sums[rows]
        raw[:, _LOADS_AT] = sums[:, :RESOURCE_COUNT] / capacity
        raw[:, _EXPOSED_AT] = sums[:, EXPOSED : EXPOSED_CORES + 1]
        raw[:, _EXPOSED_AT.stop - 1] /= capacity[:, Resource.CPU]
        pods = raw[:, _PODS]
        np.divide(sums[:, KNOWN], pods, out=raw[:, _KNOWN_PODS], where=pods > 0.0)
        cores = self.state.allocatable[rows, CPU_COLUMN] / 1000.0
        np.divide(sums[:, OTHER_CORES], cores, out=raw[:, _OTHER_CPU], where=cores > 0.0)


def _fill_residuals(raw: Doubles, capacity: Doubles) -> None:
    loads = np.minimum(raw[:, _LOADS_AT], 1.0)
    measured = raw[:, _MEASURED]
    measured[:, _DISK_RESIDUAL] /= capacity[:, Resource.DISK]
    explained = np.empty_like(measured)
    explained[:, :3] = loads[:, : Resource.DISK + 1]
    explained[:, 3] = np.fmax(loads[:, Resource.NIC_UP], loads[:, Resource.NIC_DOWN])
    raw[:, _RESIDUALS_AT] = measured - explained


def _empty_held(rows: int) -> NDArray[np.float32]:
    return np.empty((rows, 2 * RESOURCE_COUNT + 1), np.float32, order="F")  # read column by column


def _kept(before: NDArray[Number], now: NDArray[Number]) -> NDArray[Number]:
    """Return `now`, in the array from before if it has room for it."""
    if before.shape != now.shape:
        return now
    before[...] = now
    return before


def _type_of(node: Node | None) -> str | None:
    return None if node is None else node.hardware.machine_type


def _fixed_numbers(node: Node) -> list[float]:
    """Return what a node has, in the order of `_FIXED`; NaN where it is not known."""
    capacity = [amount if math.isfinite(amount) else math.nan for amount in capacity_of(node)]
    memory = float(node.allocatable.get(MEMORY, 0))
    gpus = len(node.hardware.gpus) or gpus_requested(node.allocatable)
    return [*capacity, memory, memory / capacity[Resource.CPU], gpus]


def _columns_of(readings: NodeReadings) -> Ints:
    """Return where the board holds each of `READINGS`, intp (readings,).

    Raises:
        InvalidInput: it holds one of them not at all.
    """
    for name in READINGS:
        readings.column(name)
    return np.array([readings.quantities.index(name) for name in READINGS], dtype=np.intp)
