"""Filters that ask whether there is room left on the node: resources, pod count, host ports, shared GPUs.

NodeResourcesFit (`noderesources/fit.go`): one more pod must fit the node's pod count, and each resource
requested in an amount above zero must fit what is allocatable minus what is requested; a request of zero
fits even a node that is overcommitted. NodePorts (framework `HostPortInfo`): two ports conflict when
protocol and number are equal and the addresses are equal or one of them is 0.0.0.0. SharedGpu is ours:
enough devices of an accepted model with enough thousandths free each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stowplan.core.constraints.filter import ALL_ROWS, NO_ROWS, NodeFilter, Rows
from stowplan.core.constraints.journal import ChangeBatch, Relevance, journal_of
from stowplan.core.constraints.trial import MovingPods, RowByRow, RowTrial, Trial, Verdict
from stowplan.core.domain import (
    PODS_COLUMN,
    BoundPod,
    Change,
    ClusterState,
    GpuRequest,
    HostPort,
    PodShape,
    Resources,
    describe_amount,
)

__all__ = ["NodePorts", "NodeResourcesFit", "SharedGpu"]

_EVERY_ADDRESS: Final = "0.0.0.0"  # noqa: S104  (a value of the API, nothing is bound)


class NodeResourcesFit(NodeFilter):
    """The node has no room for the pod, or for one more pod."""

    name: ClassVar[str] = "NodeResourcesFit"
    follows_pods: ClassVar[bool] = True

    def __init__(self, state: ClusterState, shape: PodShape) -> None:
        """Find the columns of what is requested; zero requests are not compared."""
        super().__init__(state, shape)
        columns, amounts = state.request_vector(shape.requests)
        self._wanted = [
            (int(column), int(amount)) for column, amount in zip(columns, amounts, strict=True) if amount > 0
        ]
        self._amounts_of: dict[Resources, tuple[int, ...]] = {}

    def refused(self, rows: Rows) -> NDArray[np.bool_] | None:
        """Refuse nodes with too little of anything."""
        allocatable, requested = self._state.allocatable, self._state.requested
        if not isinstance(rows, slice):
            free = allocatable.take(rows, axis=0)
            free -= requested.take(rows, axis=0)
        else:
            free = None
        short: NDArray[np.bool_] | None = None
        for column, amount in self._wanted:
            left = allocatable[:, column] - requested[:, column] if free is None else free[:, column]
            lacks = left < amount
            short = lacks if short is None else np.logical_or(short, lacks, out=short)
        return short

    def refuses(self, row: int) -> bool:
        """Tell whether one row has too little of anything."""
        allocatable, requested = self._state.allocatable, self._state.requested
        for column, amount in self._wanted:
            if allocatable[row, column] - requested[row, column] < amount:
                return True
        return False

    def trial(self, rows: NDArray[np.intp], pods: MovingPods) -> Trial | None:
        """Return the room on some rows, of what is wanted."""
        allocatable, requested = self._state.allocatable, self._state.requested
        taken = np.array([self._amounts(shape.requests) for shape in pods.shapes], dtype=np.int64)
        taken = taken.reshape(len(pods.shapes), len(self._wanted))
        rooms: list[_Room] = []
        is_too_small = np.zeros(len(rows), dtype=np.bool_)
        for place, (column, amount) in enumerate(self._wanted):
            most = allocatable[rows, column]
            rooms.append(_Room(amount, most - requested[rows, column], taken[pods.shape_numbers, place]))
            if column != PODS_COLUMN:
                is_too_small |= most < amount
        short = np.where(is_too_small, np.int8(Verdict.HOPELESS), np.int8(Verdict.REFUSES))
        return _RoomTrial(rooms, short, pods.places)

    def _amounts(self, requests: Resources) -> tuple[int, ...]:
        """Return what `requests` take of each wanted resource."""
        amounts = self._amounts_of.get(requests)
        if amounts is None:
            columns, taken = self._state.request_vector(requests)
            by_column = dict(zip(columns.tolist(), taken.tolist(), strict=True))
            amounts = tuple(by_column.get(column, 0) for column, _ in self._wanted)
            self._amounts_of[requests] = amounts
        return amounts

    def yielding(self) -> NDArray[np.bool_] | None:
        """Rows that are large enough; the number of pods alone never makes one too small."""
        enough = np.ones(self._state.capacity, dtype=np.bool_)
        for column, amount in self._wanted:
            if column != PODS_COLUMN:
                enough &= self._state.allocatable[:, column] >= amount
        return enough

    def refused_when_empty(self) -> NDArray[np.bool_] | None:
        """Refuse nodes that are too small."""
        short = np.zeros(self._state.capacity, dtype=np.bool_)
        for column, amount in self._wanted:
            short |= self._state.allocatable[:, column] < amount
        return short

    def reason(self, row: int) -> str:
        """Name everything that is short, with the amounts."""
        names = {column: name for name, column in self._state.columns.items()}
        said: list[str] = []
        for column, amount in self._wanted:
            have = int(self._state.allocatable[row, column])
            free = have - int(self._state.requested[row, column])
            if free >= amount:
                continue
            if column == PODS_COLUMN:
                said.append(f"Too many pods: the node takes {have} and has {have - free}")
                continue
            name = names[column]
            wanted, left = describe_amount(name, amount), describe_amount(name, max(free, 0))
            said.append(
                f"Insufficient {name}: requests {wanted}, free {left} of {describe_amount(name, have)}"
            )
        return "; ".join(said)


class _Room(NamedTuple):
    """One resource: how much is wanted, is free at each place, and is taken by each pod."""

    wanted: int
    free: NDArray[np.int64]
    taken: NDArray[np.int64]


class _RoomTrial(Trial):
    """What is free of each wanted resource."""

    __slots__ = ("_places", "_rooms", "_short")

    def __init__(self, rooms: list[_Room], short: NDArray[np.int8], places: NDArray[np.intp]) -> None:
        self._rooms = rooms
        self._short = short
        self._places = places

    def count(self, numbers: NDArray[np.intp], by: int) -> None:
        places = self._places[numbers]
        for room in self._rooms:
            np.subtract.at(room.free, places, by * room.taken[numbers])

    def verdicts(self, places: NDArray[np.intp]) -> NDArray[np.int8]:
        is_short = np.zeros(len(places), dtype=np.bool_)
        for room in self._rooms:
            is_short |= room.free[places] < room.wanted
        return np.where(is_short, self._short[places], np.int8(Verdict.ACCEPTS))


class NodePorts(NodeFilter):
    """A host port that the pod wants is taken."""

    name: ClassVar[str] = "NodePorts"
    follows_pods: ClassVar[bool] = True

    def __init__(self, state: ClusterState, shape: PodShape) -> None:
        """Bind to a state and a shape."""
        super().__init__(state, shape)
        self._conflicts: NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        self._weight_of: dict[PodShape, int] = {}
        self._touched: list[int] = []
        self._relevance = Relevance()

    def _is_in_conflict(self, shape: PodShape) -> bool:
        return any(self._weight(port) for port in shape.host_ports)

    def _weight(self, port: HostPort) -> int:
        """Return how many of the wanted ports conflict with `port`."""
        return sum(
            wanted.protocol == port.protocol
            and wanted.port == port.port
            and (wanted.host_ip == port.host_ip or _EVERY_ADDRESS in (wanted.host_ip, port.host_ip))
            for wanted in self._shape.host_ports
        )

    def compile(self) -> None:
        """Count the conflicts on each node."""
        self._conflicts = np.zeros(self._state.capacity, dtype=np.int32)
        for port, counter in self._state.index.host_ports.items():
            weight = self._weight(port)
            if weight:
                rows, counts = counter.arrays()
                self._conflicts[rows] += weight * counts.astype(np.int32)

    def refused(self, rows: Rows) -> NDArray[np.bool_] | None:
        """Refuse nodes with a conflict."""
        return self._conflicts[rows] > 0

    def refuses(self, row: int) -> bool:
        """Tell whether one row has a conflict."""
        return bool(self._conflicts[row] > 0)

    def trial(self, rows: NDArray[np.intp], pods: MovingPods) -> Trial | None:
        """Return the wanted ports that are taken on some rows."""
        numbers: list[int] = rows.tolist()
        trials = [_PortTrial(self._weight, self._state.pods_on[row].values()) for row in numbers]
        return RowByRow(trials, pods)

    def yielding(self) -> NDArray[np.bool_] | None:
        """Every row: ports become free."""
        return np.ones(self._state.capacity, dtype=np.bool_)

    def refused_when_empty(self) -> NDArray[np.bool_] | None:
        """Every port is free where no pod runs."""
        return None

    def note(self, change: Change) -> None:
        """Count the ports of the pod."""
        shape = change.shape
        if shape is None or not shape.host_ports:
            return
        weight = self._weight_of.get(shape)
        if weight is None:
            weight = self._weight_of[shape] = sum(self._weight(port) for port in shape.host_ports)
        if weight:
            self._conflicts[change.row] += change.by * weight
            self._touched.append(change.row)

    def note_batch(self, batch: ChangeBatch) -> None:
        """Count the ports of the pods that have any of the wanted ones."""
        journal = journal_of(self._state)
        concerns = self._relevance.of(batch.ports, journal.ports.shapes, self._is_in_conflict)
        for number in np.flatnonzero(concerns):
            self.note(batch.changes[number])

    def settle(self) -> NDArray[np.intp] | None:
        """Return the rows whose conflicts changed."""
        if not self._touched:
            return NO_ROWS
        rows = np.array(self._touched, dtype=np.intp)
        self._touched.clear()
        return rows

    def reason(self, row: int) -> str:
        """Name the ports and who has them."""
        said: list[str] = []
        for wanted in self._shape.host_ports:
            for key, pod in self._state.pods_on[row].items():
                taken = any(
                    wanted.protocol == port.protocol
                    and wanted.port == port.port
                    and (wanted.host_ip == port.host_ip or _EVERY_ADDRESS in (wanted.host_ip, port.host_ip))
                    for port in pod.shape.host_ports
                )
                if taken:
                    said.append(f"host port {wanted.port}/{wanted.protocol} is taken by pod {key}")
                    break
        return "; ".join(said)


class _PortTrial(RowTrial):
    """Ports that conflict with a wanted one.

    A set, as kube-scheduler's: of two pods with one port, the first that goes makes it free.
    """

    __slots__ = ("_taken", "_weight")

    def __init__(self, weight: Callable[[HostPort], int], there: Iterable[BoundPod]) -> None:
        self._weight = weight
        self._taken: set[HostPort] = set()
        for pod in there:
            self.count(pod, 1)

    def count(self, pod: BoundPod, by: int) -> None:
        for port in pod.shape.host_ports:
            if by < 0:
                self._taken.discard(port)
            elif self._weight(port):
                self._taken.add(port)

    def verdict(self) -> Verdict:
        return Verdict.REFUSES if self._taken else Verdict.ACCEPTS


class SharedGpu(NodeFilter):
    """Too few GPUs of an accepted model have enough of themselves free."""

    name: ClassVar[str] = "SharedGpu"
    follows_pods: ClassVar[bool] = True

    def __init__(self, state: ClusterState, shape: PodShape, gpu: GpuRequest) -> None:
        """Bind to a state, a shape and its request."""
        super().__init__(state, shape)
        self._gpu = gpu

    def _wrong_model(self, rows: Rows) -> NDArray[np.bool_] | None:
        if not self._gpu.models:
            return None
        wanted = [number for number, model in enumerate(self._state.gpu_models) if model in self._gpu.models]
        return ~np.isin(self._state.gpu_model_ids[rows], np.array(wanted, dtype=np.int32))

    def _too_few(self, rows: Rows, milli: int) -> NDArray[np.bool_]:
        enough = (self._state.gpu_free_milli[rows] >= milli).sum(axis=1) < self._gpu.count
        wrong = self._wrong_model(rows)
        return enough if wrong is None else enough | wrong

    def refused(self, rows: Rows) -> NDArray[np.bool_] | None:
        """Refuse nodes without room."""
        return self._too_few(rows, self._gpu.milli)

    def refused_when_empty(self) -> NDArray[np.bool_] | None:
        """Refuse nodes without the devices."""
        return self._too_few(ALL_ROWS, 0)

    def trial(self, rows: NDArray[np.intp], pods: MovingPods) -> Trial | None:
        """Return the GPUs of some rows."""
        lacks_devices, free = self._too_few(rows, 0).tolist(), self._state.gpu_free_milli[rows].tolist()
        trials = [
            _GpuTrial(self._gpu, milli, Verdict.HOPELESS if lacks else Verdict.REFUSES)
            for milli, lacks in zip(free, lacks_devices, strict=True)
        ]
        return RowByRow(trials, pods)

    def yielding(self) -> NDArray[np.bool_] | None:
        """Rows that have the devices."""
        return ~self._too_few(ALL_ROWS, 0)

    def reason(self, row: int) -> str:
        """Say what is wanted and what there is."""
        free = [int(milli) for milli in self._state.gpu_free_milli[row] if milli >= 0]
        models = " or ".join(self._gpu.models)
        wanted = (
            f"{self._gpu.count} GPU(s){f' {models}' if models else ''} with {self._gpu.milli}/1000 free each"
        )
        if not free:
            return f"wants {wanted}; the node has none"
        has = self._state.gpu_models[int(self._state.gpu_model_ids[row])]
        return f"wants {wanted}; the node has {has} with {', '.join(str(milli) for milli in free)} free"


class _GpuTrial(RowTrial):
    """What is free of each GPU; a pod that is only nominated has none yet."""

    __slots__ = ("_free", "_gpu", "_short")

    def __init__(self, gpu: GpuRequest, free: list[int], short: Verdict) -> None:
        self._gpu = gpu
        self._free = free
        self._short = short

    def count(self, pod: BoundPod, by: int) -> None:
        if pod.shape.gpu is not None:
            for gpu in pod.gpus:
                self._free[gpu] -= by * pod.shape.gpu.milli

    def verdict(self) -> Verdict:
        if self._short is Verdict.HOPELESS:
            return self._short
        has_enough = sum(free >= self._gpu.milli for free in self._free) >= self._gpu.count
        return Verdict.ACCEPTS if has_enough else self._short
