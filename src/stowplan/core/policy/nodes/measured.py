"""As `predicted`, with what was measured of the nodes: hidden load, disks that are not what they were.

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

The hidden load takes part in contention as one more task. It is kept in whole MB/s, so that a recorded
decision can be made again from what is remembered. How it follows from readings is a proposal; the contention
law is `predicted`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain import RunningTask
from stowplan.core.physics.laws import PhysicsLaws
from stowplan.core.physics.vocabulary import RESOURCE_COUNT, Resource
from stowplan.core.policy.demand import TaskDemand
from stowplan.core.policy.interface import CycleView
from stowplan.core.policy.nodes.predicted import PredictedDuration
from stowplan.core.semantics.board import NodeReadings
from stowplan.core.semantics.knee import BandwidthLaw

__all__ = ["MeasuredDuration"]

_MB: Final = 1e6
_INTERVAL_S: Final = 5.0  # over which a reading is a mean
_LEAST_BUSY: Final = 0.02  # share of time below which a disk's rate tells nothing
_LEAST_HIDDEN: Final = 0.05  # of a capacity, below which a difference is none
_REQUEST_BYTES: Final = 131072.0  # the kernel's readahead
_QUEUE_BYTES: Final = 1048576.0  # outstanding of a streaming reader
_BYTES_PER_CORE: Final = 3e9  # memory traffic of a core: by it others' share is weighed
_WHOLE: Final = 1000

_WINDOW_MS: Final = 25_000  # the least is taken over the window before and what there is of this one

# What is remembered of a row, in whole numbers: when it was last measured and when the window began (ms); the
# least unexplained traffic of memory and disk in this window, and in the one before (MB/s); what the disk
# serves, in thousandths of what it should.
_SEEN, _BEGAN, _DRAM, _DISK, _DRAM_BEFORE, _DISK_BEFORE, _RATE = range(7)
_COLUMNS: Final = 7
_NEVER: Final = -1


class MeasuredDuration(PredictedDuration):
    """Scores nodes by minus the predicted duration in seconds, beside what readings show."""

    reads_nodes = True

    def __init__(
        self, *, laws: PhysicsLaws | None = None, solved_nodes: int = 8, law: BandwidthLaw | None = None
    ) -> None:
        """Predict as `PredictedDuration`; `law` says which share of its bandwidth memory achieves.

        Raises:
            InvalidInput: `solved_nodes` is not positive.
        """
        super().__init__(laws=laws, solved_nodes=solved_nodes)
        self._achievable = (law or BandwidthLaw()).achievable
        self._rows: NDArray[np.int64] = _unknown(0)
        self._nominal: NDArray[np.float64] = np.zeros((0, RESOURCE_COUNT))

    @property
    def memory(self) -> tuple[int, ...]:
        """The turn, then row and what is remembered of it, for every row that was measured."""
        rows = np.flatnonzero(self._rows[:, _SEEN] != _NEVER)
        table = np.concatenate([rows[:, None], self._rows[rows]], axis=1)
        return (*super().memory, *table.ravel().tolist())

    def recall(self, memory: Sequence[int]) -> None:
        """Go on from where a rule had this `memory`."""
        super().recall(memory[:1])
        table = np.array(memory[1:], dtype=np.int64).reshape(-1, 1 + _COLUMNS)
        # No fewer rows than before: a plan that was made already is still asked about all of them.
        self._rows = _unknown(max(int(table[:, 0].max(initial=-1)) + 1, len(self._rows)))
        self._rows[table[:, 0]] = table[:, 1:]
        self._epoch = -1

    def begin(self, view: CycleView) -> None:
        """Start a cycle: learn from readings that are new."""
        if self.has_other_state_before(view):
            self._rows = _unknown(0)
        super().begin(view)
        capacity = self.state.capacity
        if len(self._rows) < capacity:
            self._rows = np.concatenate([self._rows, _unknown(capacity - len(self._rows))])
        if view.readings is None:
            gone = np.flatnonzero(self._rows[:, _SEEN] != _NEVER)
        else:
            gone = self._learn(view.readings)
        self._rows[gone] = _unknown(1)
        self._stale.update(gone.tolist())

    # ---- what readings say ----

    def _learn(self, readings: NodeReadings) -> NDArray[np.intp]:
        """Take in readings that are new; return rows of which nothing is known any more."""
        column = readings.quantities.index("memory_bandwidth_utilisation")
        is_known = ~np.isnan(readings.values).all(axis=1) & self.state.is_node
        measured_s = readings.measured_s[:, column]
        seen_ms = np.where(is_known & ~np.isnan(measured_s), 1000.0 * measured_s, _NEVER).astype(np.int64)
        for row in np.flatnonzero((seen_ms != self._rows[:, _SEEN]) & (seen_ms != _NEVER)).tolist():
            before = _hidden_on(self._rows[row]), int(self._rows[row, _RATE])
            self._note(row, int(seen_ms[row]), *self._unexplained(readings, row))
            if before != (_hidden_on(self._rows[row]), int(self._rows[row, _RATE])):
                self._stale.add(row)
        return np.flatnonzero((seen_ms == _NEVER) & (self._rows[:, _SEEN] != _NEVER))

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

    def _unexplained(self, readings: NodeReadings, row: int) -> tuple[int, int, int]:
        """Return unexplained traffic of memory and disk in MB/s, and what the disk serves, by one reading."""
        nominal = self._nominal_of(row)
        value = dict(zip(readings.quantities, readings.values[row].tolist(), strict=True))
        measured_s = float(np.nanmax(readings.measured_s[row]))
        explained, most_disk = self._explained(row, measured_s)
        used = value["memory_bandwidth_utilisation"] / self._achievable * nominal[Resource.DRAM]
        moved = value["storage_bytes_per_s"]
        return (
            _hidden_mb(used - explained, nominal[Resource.DRAM]),
            _hidden_mb(moved - most_disk, nominal[Resource.DISK]),
            _rate(value["storage_utilisation"], moved, nominal, int(self._rows[row, _RATE])),
        )

    def _explained(self, row: int, measured_s: float) -> tuple[float, float]:
        """Return the memory traffic of the tasks on `row` by then, and their most disk traffic."""
        dram = disk = 0.0
        kind = self.state.node(row).hardware.machine_type
        for key in self.state.pods_on[row]:
            running = self.view.running.get(key)
            if running is None:
                continue
            was_there = min(max(measured_s - running.started_s, 0.0) / _INTERVAL_S, 1.0)
            if was_there > 0.0:
                now, most = _traffic(running, measured_s, self._demand_of_task(running.pending.task), kind)
                dram += was_there * now
                disk += was_there * most
        return dram, disk

    def _nominal_of(self, row: int) -> NDArray[np.float64]:
        if self.feed.epoch != self._epoch or len(self._nominal) != self.state.capacity:
            self._nominal = super()._capacities()
        return self._nominal[row]

    # ---- what follows for the prediction ----

    def _capacities(self) -> NDArray[np.float64]:
        self._nominal = super()._capacities()
        return self._nominal.copy()

    def _tasks_of(self, row: int) -> list[TaskDemand]:
        remembered = self._rows[row]
        rate = remembered[_RATE] / _WHOLE
        disks = [Resource.DISK, Resource.DISK_OPS]
        self._capacity[row, disks] = self._nominal[row, disks] * rate
        tasks = super()._tasks_of(row)
        dram, disk = _hidden_on(remembered)
        return [*tasks, _hidden(dram * _MB, disk * _MB)] if dram or disk else tasks


def _unknown(rows: int) -> NDArray[np.int64]:
    return np.tile(np.array([_NEVER, 0, 0, 0, 0, 0, _WHOLE], dtype=np.int64), (rows, 1))


def _hidden_on(remembered: NDArray[np.int64]) -> tuple[int, int]:
    """Return hidden traffic of memory and disk, MB/s, by what is remembered of a row."""
    dram = min(remembered[_DRAM], remembered[_DRAM_BEFORE])
    return int(dram), int(min(remembered[_DISK], remembered[_DISK_BEFORE]))


def _hidden_mb(difference: float, nominal: float) -> int:
    """Return unexplained bytes per second in MB/s; 0 where they are not known, or too few to tell."""
    is_some = np.isfinite(difference) and np.isfinite(nominal) and difference > _LEAST_HIDDEN * nominal
    return round(difference / _MB) if is_some else 0


def _rate(busy: float, moved: float, nominal: NDArray[np.float64], before: int) -> int:
    """Return what a disk serves, in thousandths of what it should at requests of the common size."""
    should = min(float(nominal[Resource.DISK]), float(nominal[Resource.DISK_OPS]) * _REQUEST_BYTES)
    if not np.isfinite(should) or not busy >= _LEAST_BUSY or not moved > 0.0:
        return (before + _WHOLE) // 2
    return min(max(round(_WHOLE * moved / busy / should), 1), _WHOLE)


def _hidden(dram: float, disk: float) -> TaskDemand:
    """Return hidden traffic, bytes per second, as a task that goes on whatever runs beside it."""
    per_s, weight = np.zeros(RESOURCE_COUNT), np.ones(RESOURCE_COUNT)
    per_s[Resource.DRAM], weight[Resource.DRAM] = dram, max(dram / _BYTES_PER_CORE, 1e-9)
    per_s[Resource.DISK], per_s[Resource.DISK_OPS] = disk, disk / _REQUEST_BYTES
    weight[[Resource.DISK, Resource.DISK_OPS]] = _QUEUE_BYTES
    return TaskDemand(per_s, weight, 0.0, np.inf, ())


def _traffic(running: RunningTask, now_s: float, demand: TaskDemand, kind: str) -> tuple[float, float]:
    """Return the memory traffic of a task in the phase it should be in, and its most disk traffic in any."""
    phases = running.pending.task.work.phases
    total_s = sum(phase.work_s for phase in phases)
    if total_s <= 0.0:
        return 0.0, 0.0
    rate = demand.rate_alone(kind)
    takes_s = max(running.expected_end_s - running.started_s, 1e-9)
    done_s = min((now_s - running.started_s) / takes_s, 1.0) * total_s
    ends_s = np.cumsum([phase.work_s for phase in phases])
    current = phases[min(int(np.searchsorted(ends_s, done_s)), len(phases) - 1)]
    most_disk = max(phase.disk_read_bytes_per_s + phase.disk_write_bytes_per_s for phase in phases)
    return current.dram_bytes_per_s * rate, most_disk * rate
