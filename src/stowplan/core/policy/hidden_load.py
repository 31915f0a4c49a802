"""What readings show of nodes that nobody told: hidden load, and disks that are not what they were.

Physics knows what placed tasks ask for, and takes the rest of a node for free. Readings tell what is used:

* **Hidden memory traffic** is what is measured above what the tasks there explain, each in the phase that it
  should have reached by now.
* **Hidden disk traffic** is what is measured above the most that any phase of the tasks there asks for, for
  when a task reads and when it computes is not known to the second.
* Of both the least of the last half minute or more counts. A reading is a mean that also holds what tasks
  used that have ended since, and on a busy node some task has nearly always just ended; who stays for minutes
  is in every reading.
* **What the disk can serve** is what it serves over the share of time that it is busy (the utilisation law,
  U = X·S). While it is idle nothing is known, and what was known fades by half with every reading.

It is kept in whole MB/s, so that a recorded decision can be made again from what is remembered. How it
follows from readings is a proposal.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain import RunningTask, Task
from stowplan.core.physics.vocabulary import RESOURCE_COUNT, Resource
from stowplan.core.policy.demand import TaskDemand, capacity_of
from stowplan.core.policy.interface import CycleView
from stowplan.core.semantics.board import NodeReadings
from stowplan.core.semantics.knee import BandwidthLaw
from stowplan.errors import InvalidInput

__all__ = ["DISK_RESOURCES", "HiddenLoads"]

Doubles = NDArray[np.float64]

DISK_RESOURCES: Final = (int(Resource.DISK), int(Resource.DISK_OPS))
"""Resources of which a disk that is not what it was has less."""
_LOOKED_AT: Final = ("memory_bandwidth_utilisation", "storage_utilisation", "storage_bytes_per_s")
_MB: Final = 1e6
_INTERVAL_S: Final = 5.0  # over which a reading is a mean
_LEAST_BUSY: Final = 0.02  # share of time below which a disk's rate tells nothing
_LEAST_HIDDEN: Final = 0.05  # of a capacity, below which a difference is none
_MOST_HIDDEN: Final = 1000.0  # of a capacity, above which a reading means nothing
_REQUEST_BYTES: Final = 131072.0  # the kernel's readahead
_QUEUE_BYTES: Final = 1048576.0  # outstanding of a streaming reader
_BYTES_PER_CORE: Final = 3e9  # memory traffic of a core: by it others' share is weighed
_WHOLE: Final = 1000
_MOST_COURSES: Final = 16384  # of tasks, remembered

_WINDOW_MS: Final = 25_000  # the least is taken over the window before and what there is of this one

# What is remembered of a row, in whole numbers: when it was last measured and when the window began (ms); the
# least unexplained traffic of memory and disk in this window, and in the one before (MB/s); what the disk
# serves, in thousandths of what it should.
_SEEN, _BEGAN, _DRAM, _DISK, _DRAM_BEFORE, _DISK_BEFORE, _RATE = range(7)
_COLUMNS: Final = 7
_NEVER: Final = -1


@dataclass(frozen=True, slots=True)
class _Course:
    """How a task goes: when its phases end (seconds of work), their memory traffic, its most disk traffic."""

    ends_s: tuple[float, ...]
    dram_bytes_per_s: tuple[float, ...]
    most_disk_bytes_per_s: float
    total_s: float


class HiddenLoads:
    """What was measured of the rows of one state and is not explained by what is known to run there."""

    def __init__(
        self, *, law: BandwidthLaw | None = None, sees_memory: bool = True, sees_disks: bool = True
    ) -> None:
        """Know nothing yet.

        Args:
            law: which share of its bandwidth memory achieves.
            sees_memory: whether readings of memory bandwidth count; where not, nothing is hidden there.
            sees_disks: the same of disks, which are then what they should be.
        """
        self._achievable = (law or BandwidthLaw()).achievable
        self._sees_memory, self._sees_disks = sees_memory, sees_disks
        self._rows: NDArray[np.int64] = _unknown(0)
        self._courses: dict[int, tuple[Task, _Course]] = {}  # by identity of the task, which is kept with it

    @property
    def memory(self) -> tuple[int, ...]:
        """Row and what is remembered of it, for every row that was measured."""
        rows = np.flatnonzero(self._rows[:, _SEEN] != _NEVER)
        table = np.concatenate([rows[:, None], self._rows[rows]], axis=1)
        return tuple(table.ravel().tolist())

    def recall(self, memory: Sequence[int]) -> set[int]:
        """Go on from where another had this `memory`; return the rows of which something else is known."""
        table = np.array(memory, dtype=np.int64).reshape(-1, 1 + _COLUMNS)
        # No fewer rows than before: a plan that was made already is still asked about all of them.
        before = self._rows
        self._rows = _unknown(max(int(table[:, 0].max(initial=-1)) + 1, len(before)))
        self._rows[table[:, 0]] = table[:, 1:]
        known = np.flatnonzero((self._rows[: len(before)] != before).any(axis=1))
        return {*known.tolist(), *range(len(before), len(self._rows))}

    def learn(self, view: CycleView, demand_of: Callable[[Task], TaskDemand]) -> set[int]:
        """Take in readings that are new; return the rows of which something else is thought than before.

        Args:
            view: of the cycle.
            demand_of: says what a task needs.

        Raises:
            InvalidInput: the board of readings has another number of rows than the state, or holds not all
                that is looked at.
        """
        self._grow(view.state.capacity)
        if view.readings is None:
            gone = np.flatnonzero(self._rows[:, _SEEN] != _NEVER)
            changed: set[int] = set()
        else:
            gone, changed = self._read(view, view.readings, demand_of)
        self._rows[gone] = _unknown(1)
        return changed.union(gone.tolist())

    def bytes_per_s(self, rows: NDArray[np.intp]) -> Doubles:
        """Return the hidden load of `rows`, (rows, RESOURCE_COUNT), units of `Resource` per second."""
        self._grow(int(rows.max(initial=-1)) + 1)
        remembered = self._rows[rows]
        found = np.zeros((rows.size, RESOURCE_COUNT))
        found[:, Resource.DRAM] = np.minimum(remembered[:, _DRAM], remembered[:, _DRAM_BEFORE]) * _MB
        disk = np.minimum(remembered[:, _DISK], remembered[:, _DISK_BEFORE]) * _MB
        found[:, Resource.DISK], found[:, Resource.DISK_OPS] = disk, disk / _REQUEST_BYTES
        return found

    def disk_share(self, rows: NDArray[np.intp]) -> Doubles:
        """Return what the disks of `rows` serve as a share of what they should, (rows,), above 0."""
        self._grow(int(rows.max(initial=-1)) + 1)
        return self._rows[rows, _RATE] / _WHOLE

    def task_on(self, row: int) -> TaskDemand | None:
        """Return the hidden load of a row as a task that goes on whatever runs beside it; None: none."""
        per_s = self.bytes_per_s(np.array([row]))[0]
        return _as_task(per_s) if per_s.any() else None

    # ---- what readings say ----

    def _grow(self, rows: int) -> None:
        if len(self._rows) < rows:
            self._rows = np.concatenate([self._rows, _unknown(rows - len(self._rows))])

    def _read(
        self, view: CycleView, readings: NodeReadings, demand_of: Callable[[Task], TaskDemand]
    ) -> tuple[NDArray[np.intp], set[int]]:
        """Return the rows of which nothing is known any more, and those of which something else is."""
        count = view.state.capacity
        if len(readings) != count:
            raise InvalidInput(
                f"the board of readings has {len(readings)} rows, the state {count}; `grow` it"
            )
        for name in _LOOKED_AT:
            readings.column(name)
        places = {name: readings.quantities.index(name) for name in _LOOKED_AT}
        column = places["memory_bandwidth_utilisation"]
        is_known = ~np.isnan(readings.values).all(axis=1) & view.state.is_node
        measured_s = readings.measured_s[:, column]
        seen_ms = np.where(is_known & ~np.isnan(measured_s), 1000.0 * measured_s, _NEVER).astype(np.int64)
        seen_before = self._rows[:count, _SEEN]
        gone = np.flatnonzero((seen_ms == _NEVER) & (seen_before != _NEVER))
        changed: set[int] = set()
        latest_s = np.fmax.reduce(readings.measured_s, axis=1)
        for row in np.flatnonzero((seen_ms != seen_before) & (seen_ms != _NEVER)).tolist():
            values = {name: readings.values.item(row, at) for name, at in places.items()}
            before = _hidden_on(self._rows[row]), int(self._rows[row, _RATE])
            self._note(
                row, int(seen_ms[row]), *self._unexplained(view, row, values, latest_s.item(row), demand_of)
            )
            if before != (_hidden_on(self._rows[row]), int(self._rows[row, _RATE])):
                changed.add(row)
        return gone, changed

    def _note(self, row: int, now_ms: int, dram: int, disk: int, rate: int) -> None:
        """Remember what one reading says of a row."""
        remembered = self._rows[row]
        if remembered[_SEEN] == _NEVER or now_ms - remembered[_BEGAN] >= _WINDOW_MS:
            is_next = remembered[_SEEN] != _NEVER and now_ms - remembered[_SEEN] < _WINDOW_MS
            remembered[_DRAM_BEFORE] = remembered[_DRAM] if is_next else 0
            remembered[_DISK_BEFORE] = remembered[_DISK] if is_next else 0
            remembered[_BEGAN], remembered[_DRAM], remembered[_DISK] = now_ms, dram, disk
        remembered[_DRAM] = min(remembered[_DRAM], dram)
        remembered[_DISK] = min(remembered[_DISK], disk)
        remembered[_SEEN], remembered[_RATE] = now_ms, rate

    def _unexplained(
        self,
        view: CycleView,
        row: int,
        value: Mapping[str, float],
        measured_s: float,
        demand_of: Callable[[Task], TaskDemand],
    ) -> tuple[int, int, int]:
        """Return unexplained traffic of memory and disk in MB/s, and what the disk serves, by one reading."""
        nominal = capacity_of(view.state.node(row))
        explained, most_disk = self._explained(view, row, measured_s, demand_of)
        dram = disk = 0
        rate = _WHOLE
        if self._sees_memory:
            used = value["memory_bandwidth_utilisation"] / self._achievable * nominal[Resource.DRAM]
            dram = _hidden_mb(used - explained, nominal[Resource.DRAM])
        if self._sees_disks:
            moved = value["storage_bytes_per_s"]
            disk = _hidden_mb(moved - most_disk, nominal[Resource.DISK])
            rate = _rate(value["storage_utilisation"], moved, nominal, int(self._rows[row, _RATE]))
        return dram, disk, rate

    def _explained(
        self, view: CycleView, row: int, measured_s: float, demand_of: Callable[[Task], TaskDemand]
    ) -> tuple[float, float]:
        """Return the memory traffic of the tasks on `row` by then, and their most disk traffic."""
        dram = disk = 0.0
        kind = view.state.node(row).hardware.machine_type
        for key in view.state.pods_on[row]:
            running = view.running.get(key)
            if running is None:
                continue
            was_there = min(max(measured_s - running.started_s, 0.0) / _INTERVAL_S, 1.0)
            if was_there > 0.0:
                task = running.pending.task
                rate = demand_of(task).rate_alone(kind)
                now, most = _traffic(running, measured_s, rate, self._course(task))
                dram += was_there * now
                disk += was_there * most
        return dram, disk

    def _course(self, task: Task) -> _Course:
        known = self._courses.get(id(task))
        if known is None or known[0] is not task:
            if len(self._courses) >= _MOST_COURSES:
                self._courses.clear()
            known = self._courses[id(task)] = (task, _course_of(task))
        return known[1]


def _unknown(rows: int) -> NDArray[np.int64]:
    return np.tile(np.array([_NEVER, 0, 0, 0, 0, 0, _WHOLE], dtype=np.int64), (rows, 1))


def _hidden_on(remembered: NDArray[np.int64]) -> tuple[int, int]:
    """Return hidden traffic of memory and disk, MB/s, by what is remembered of a row."""
    dram = min(remembered[_DRAM], remembered[_DRAM_BEFORE])
    return int(dram), int(min(remembered[_DISK], remembered[_DISK_BEFORE]))


def _hidden_mb(difference: float, nominal: float) -> int:
    """Return unexplained bytes per second in MB/s; 0 where they are not known, or too few to tell."""
    is_some = math.isfinite(difference) and math.isfinite(nominal) and difference > _LEAST_HIDDEN * nominal
    return round(min(difference, _MOST_HIDDEN * nominal) / _MB) if is_some else 0


def _rate(busy: float, moved: float, nominal: Sequence[float], before: int) -> int:
    """Return what a disk serves, in thousandths of what it should at requests of the common size."""
    should = min(nominal[Resource.DISK], nominal[Resource.DISK_OPS] * _REQUEST_BYTES)
    is_told = all(map(math.isfinite, (should, busy, moved))) and busy >= _LEAST_BUSY and moved > 0.0
    if not is_told:
        return (before + _WHOLE) // 2
    return max(round(min(_WHOLE * moved / busy / should, float(_WHOLE))), 1)


def _as_task(per_s: Doubles) -> TaskDemand:
    """Return hidden traffic, (RESOURCE_COUNT,), as a task."""
    weight = np.ones(RESOURCE_COUNT)
    weight[Resource.DRAM] = max(per_s[Resource.DRAM] / _BYTES_PER_CORE, 1e-9)
    weight[list(DISK_RESOURCES)] = _QUEUE_BYTES
    return TaskDemand(per_s, weight, 0.0, np.inf, ())


def _course_of(task: Task) -> _Course:
    phases = task.work.phases
    return _Course(
        tuple(np.cumsum([phase.work_s for phase in phases], dtype=np.float64).tolist()),
        tuple(phase.dram_bytes_per_s for phase in phases),
        max((phase.disk_read_bytes_per_s + phase.disk_write_bytes_per_s for phase in phases), default=0.0),
        sum(phase.work_s for phase in phases),
    )


def _traffic(running: RunningTask, now_s: float, rate: float, course: _Course) -> tuple[float, float]:
    """Return the memory traffic of a task in the phase it should be in, and its most disk traffic in any."""
    if course.total_s <= 0.0:
        return 0.0, 0.0
    takes_s = max(running.expected_end_s - running.started_s, 1e-9)
    done_s = min((now_s - running.started_s) / takes_s, 1.0) * course.total_s
    current = min(bisect_left(course.ends_s, done_s), len(course.dram_bytes_per_s) - 1)
    return course.dram_bytes_per_s[current] * rate, course.most_disk_bytes_per_s * rate
