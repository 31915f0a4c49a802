"""`FluidKernel`: the face of the kernel. Checks what comes in, makes room, and calls the compiled loop.

Everything that could not be checked when the tables were built (rows, profiles, times) is checked here;
behind it runs compiled code that trusts its arrays. Arrays grow by doubling between calls, never inside one,
so a call allocates nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stowplan.core.physics.handles import handle_of
from stowplan.core.physics.laws import PhysicsLaws
from stowplan.core.physics.vocabulary import CAUSE_COUNT, RESOURCE_COUNT, Cause, Resource
from stowplan.errors import InvalidInput, StateConflict
from stowplan.simulate.kernel.devices import DEVICE_COLUMNS, read_devices
from stowplan.simulate.kernel.events import ChangeKind, KernelEvents, Wake
from stowplan.simulate.kernel.lifecycle import pace_tasks, start_tasks, stop_task
from stowplan.simulate.kernel.loop import (
    ADVANCED,
    EVENTS_FULL,
    WOKEN,
    advance,
    apply_change,
    settle,
    sync_all,
)
from stowplan.simulate.kernel.pairs import rehash_pairs
from stowplan.simulate.kernel.profiles import FLOW_SLOTS, KernelProfiles
from stowplan.simulate.kernel.reading import read_gpus, read_rates, read_tasks, read_use
from stowplan.simulate.kernel.setup import SCRATCH_ROWS, changes_table, fresh_state
from stowplan.simulate.kernel.state import (
    LOCAL_RESOURCES,
    SLOT_DTYPE,
    TaskState,
    copy_of,
    fresh_pairs,
    grown,
)
from stowplan.simulate.kernel.tables import KernelNodes, KernelSchedule, TaskStarts
from stowplan.simulate.kernel.validate import validate_state

__all__ = ["FluidKernel", "KernelStatistics"]

_PAIRS_PER_NET = FLOW_SLOTS


@dataclass(frozen=True, slots=True)
class KernelStatistics:
    """Counts since the kernel was made."""

    events: int
    """Starts, ends of phases, kills and changes that took effect."""
    node_solves: int
    sweeps: int
    """Sweeps of the fixed point, over all node solves."""
    link_relaxations: int
    unsettled: int
    """Solves that did not settle within the bound and were scaled down; 0 is what one wants to see."""


class FluidKernel:
    """Discrete-event fluid simulation of tasks on nodes; the package docstring tells how to drive it.

    Args:
        nodes: the machines and the fabric.
        laws: constants of the physics.
        schedule: changes at known times.
        contention: False lets every task run at its own speed; memory limits still hold.
        start_s: simulated time at which it begins.
    """

    def __init__(
        self,
        nodes: KernelNodes,
        *,
        laws: PhysicsLaws | None = None,
        schedule: KernelSchedule | None = None,
        contention: bool = True,
        start_s: float = 0.0,
    ) -> None:
        laws = laws or PhysicsLaws()
        self._nodes = nodes
        self._profile_work_s = np.zeros(0)
        self._state = fresh_state(nodes, laws, changes_table(schedule, nodes), start_s=start_s)
        self._handle = handle_of(self._state)
        self._counters["contention"] = int(contention)

    def _settle(self) -> None:
        """Solve what a change between two calls of `advance` has touched."""
        if self._counters["node_queue"][0] or self._counters["link_queue"][0]:
            settle(self._handle)

    def _replace(self, **tables: NDArray[Any]) -> None:
        """Put other arrays in place of tables, and tell the compiled code where they are."""
        self._state = self._state._replace(**tables)
        self._handle = handle_of(self._state)

    @property
    def _counters(self) -> NDArray[np.void]:
        return self._state.counters

    @property
    def now_s(self) -> float:
        """Simulated time; only ever grows."""
        return float(self._counters["now_s"][0])

    @property
    def nodes(self) -> KernelNodes:
        """What the kernel was made with; tells link ids."""
        return self._nodes

    def add_profiles(self, profiles: KernelProfiles) -> NDArray[np.int64]:
        """Take in profiles; returns their ids, usable from now on.

        Raises:
            InvalidInput: a flow names a link that does not exist.
        """
        state = self._state
        links = state.links.shape[0]
        named = profiles.phases["flow_link"][np.arange(FLOW_SLOTS) < profiles.phases["flow_count"][:, None]]
        lowest = -6 - 8
        if ((named >= links) | (named < lowest)).any():
            bad = int(named[(named >= links) | (named < lowest)][0])
            raise InvalidInput(
                f"a flow names link {bad}; there are links 0 … {links - 1} and the codes of tables.py"
            )
        if named.size:
            state.counters["with_flows"] = 1
        first = state.first_phase.shape[0] - 1
        offset = state.first_phase[-1]
        work_s = (
            np.add.reduceat(profiles.phases["work_s"], profiles.first_phase[:-1]) if len(profiles) else []
        )
        self._profile_work_s = np.concatenate([self._profile_work_s, work_s])
        self._replace(
            phases=np.concatenate([state.phases, profiles.phases]),
            first_phase=np.concatenate([state.first_phase, offset + profiles.first_phase[1:]]),
        )
        return np.arange(first, first + len(profiles), dtype=np.int64)

    def start(self, starts: TaskStarts) -> NDArray[np.int64]:
        """Start tasks now or later (`starts.start_s`); returns their ids, ascending.

        Raises:
            InvalidInput: a row or profile does not exist, or a start lies in the past.
        """
        count = len(starts)
        now_s = self.now_s
        at_s = np.where(np.isnan(starts.start_s), now_s, starts.start_s)
        self._check_range(starts.row, len(self._nodes), "node row")
        self._check_range(starts.profile, self._state.first_phase.shape[0] - 1, "profile")
        if count and not (at_s >= now_s).all():
            raise InvalidInput(f"a task is to start at {float(at_s.min())} s; it is already {now_s} s")
        now = at_s <= now_s
        self._make_room(starts.row[now], later=count - int(now.sum()))
        first = self._new_ids(count)
        ids = np.arange(first, first + count, dtype=np.int64)
        tasks = self._state.tasks[first : first + count]
        tasks["row"] = starts.row
        tasks["slot"] = -1
        tasks["profile"] = starts.profile
        tasks["phase"] = 0
        tasks["state"] = TaskState.WAITING
        tasks["gpu_mask"] = starts.gpu_mask
        tasks["start_s"] = at_s
        tasks["started_s"] = np.nan
        tasks["finished_s"] = np.nan
        tasks["speed"] = starts.speed
        tasks["pace"] = 1.0
        tasks["pace_cause"] = Cause.NETWORK
        tasks["cpu_weight"] = starts.cpu_weight
        tasks["cpu_limit"] = starts.cpu_limit_cores
        tasks["memory_limit"] = starts.memory_limit_bytes
        tasks["memory_request"] = starts.memory_request_bytes
        tasks["work_s"] = self._profile_work_s[starts.profile]
        start_tasks(self._handle, ids, at_s)
        self._settle()
        return ids

    def stop(self, tasks: ArrayLike) -> None:
        """Take waiting or running tasks away now, for example to preempt them; their work is lost.

        Raises:
            InvalidInput: no such task.
            StateConflict: a task ended before.
        """
        ids = self._ids(tasks)
        ended = self._state.tasks["state"][ids] > TaskState.RUNNING
        if ended.any():
            raise StateConflict(f"task {int(ids[ended][0])} cannot be stopped: it ended before")
        if np.unique(ids).size != ids.size:
            raise StateConflict("the list of tasks to stop names a task twice")
        for task in ids:
            stop_task(self._handle, int(task))
        settle(self._handle)

    def set_pace(self, tasks: ArrayLike, pace: ArrayLike, cause: ArrayLike) -> None:
        """Have waiting or running tasks go at `pace` (n,) times their speed from now on, because of `cause`.

        For what couples tasks of several nodes, such as the steps of one training job. What is lost by it
        counts to `cause` (n,), a `Cause`. 1 restores the speed.

        Raises:
            InvalidInput: no such task, or a pace that is not finite and above 0.
        """
        ids = self._ids(tasks)
        paces = np.broadcast_to(np.asarray(pace, np.float64), ids.shape)
        if not ((paces > 0.0) & (paces < math.inf)).all():
            raise InvalidInput(f"a pace is {float(paces.min())}; it must be a finite number above 0")
        causes = np.broadcast_to(np.asarray(cause, np.int64), ids.shape)
        self._check_range(causes, CAUSE_COUNT, "cause")
        pace_tasks(self._handle, ids, paces.copy(), causes.copy())
        settle(self._handle)

    def set_node_state(self, row: int, *, up: bool) -> None:
        """Let a node stand still or run again, now. Its tasks keep their place; to lose them, `stop` them."""
        self._check_range(np.array([row]), len(self._nodes), "node row")
        self._apply(ChangeKind.NODE_UP if up else ChangeKind.NODE_DOWN, row, 0, 1.0)

    def set_node_capacity(self, row: int, resource: Resource, factor: float) -> None:
        """Multiply the nominal capacity of a resource, now; 1 restores it. DISK scales operations too."""
        self._check_range(np.array([row]), len(self._nodes), "node row")
        self._apply(ChangeKind.NODE_CAPACITY, row, int(resource), factor)

    def set_link_capacity(self, link: int, factor: float) -> None:
        """Multiply the nominal capacity of a link, now; 1 restores it."""
        self._check_range(np.array([link]), self._state.links.shape[0], "link")
        self._apply(ChangeKind.LINK_CAPACITY, link, 0, factor)

    def advance(self, until_s: float, *, wake: Wake = Wake.SCHEDULER) -> KernelEvents:
        """Let time go on to `until_s`, or to the first instant with an event in `wake`.

        With inf it goes on until nothing is left to happen. Returns all events up to there, those of that
        instant together. PHASE_DONE is only reported when asked
        for.

        Raises:
            InvalidInput: `until_s` lies in the past or is not a number.
        """
        if not until_s >= self.now_s:
            raise InvalidInput(f"cannot advance to {until_s} s; it is already {self.now_s} s")
        while (stopped := advance(self._handle, until_s, int(wake))) not in {ADVANCED, WOKEN}:
            if stopped == EVENTS_FULL:
                events = self._state.events
                self._replace(events=grown(events, 2 * events.shape[0]))
            else:
                first = self._state.tasks["row"][self._state.start_task[0]]
                self._make_room(np.array([first]), later=0)
        count = int(self._counters["events"][0])
        taken = self._state.events[:count].copy()
        self._counters["events"] = 0
        self._counters["woken"] = 0
        return KernelEvents(taken["time_s"], taken["kind"], taken["task"], taken["row"])

    def progress(self, tasks: ArrayLike) -> NDArray[np.float64]:
        """(n,) share of each task's work that is done, 0 … 1; 1 for a finished task without work."""
        ids = self._ids(tasks)
        (done, _), total = self._read(ids), self._state.tasks["work_s"][ids]
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.where(total > 0.0, done / total, 1.0)
        return np.clip(share, 0.0, 1.0)

    def rate(self, tasks: ArrayLike) -> NDArray[np.float64]:
        """(n,) work seconds per second, now; 0 for tasks that do not run."""
        ids = self._ids(tasks)
        rates = np.empty(ids.size)
        read_rates(self._handle, ids, rates)
        return rates

    def slowdown_by_cause(self, tasks: ArrayLike) -> NDArray[np.float64]:
        """(n, CAUSE_COUNT) seconds lost so far. Time since the start = work done + sum over causes."""
        ids = self._ids(tasks)
        return self._read(ids)[1]

    def started_s(self, tasks: ArrayLike) -> NDArray[np.float64]:
        """(n,) when each began to run; NaN = not yet."""
        return self._state.tasks["started_s"][self._ids(tasks)].copy()

    def finished_s(self, tasks: ArrayLike) -> NDArray[np.float64]:
        """(n,) when each ended, in whatever way; NaN = not yet."""
        return self._state.tasks["finished_s"][self._ids(tasks)].copy()

    def running(self, row: int) -> NDArray[np.int64]:
        """Ids of the tasks that run on a node, ascending."""
        self._check_range(np.array([row]), len(self._nodes), "node row")
        return np.sort(self._state.slots["task"][row, : self._state.nodes["count"][row]])

    def utilisation(self) -> NDArray[np.float64]:
        """(N, RESOURCE_COUNT) use integrated over time since the start: core-seconds, bytes, operations."""
        used = np.zeros((len(self._nodes), RESOURCE_COUNT))
        read_use(self._handle, self._nodes.link_bytes_per_s.shape[0], self._nodes.root_complexes, used)
        return used

    def gpu_seconds(self) -> NDArray[np.float64]:
        """(N,) seconds that GPUs were kept busy since the start, summed over those of a node."""
        used = np.zeros(len(self._nodes))
        read_gpus(self._handle, used)
        return used

    def link_use(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """What all links carry and could carry now, bytes per second, each (links,)."""
        links = self._state.links
        return links["usage"].copy(), links["capacity"].copy()

    def devices(self) -> NDArray[np.float64]:
        """(N, DEVICE_COLUMNS) what each node's disk can serve and who waits now; see `read_devices`."""
        found = np.empty((len(self._nodes), DEVICE_COLUMNS))
        read_devices(self._handle, found)
        return found

    def memory_bytes(self) -> NDArray[np.float64]:
        """(N, 2) anonymous memory and page cache, as of the last event on each node."""
        return np.stack([self._state.nodes["anon"], self._state.nodes["cache"]], axis=1)

    def statistics(self) -> KernelStatistics:
        """Counts since the kernel was made."""
        counters = self._counters[0]
        names = ("event_total", "solves", "sweeps", "relaxations", "failed")
        return KernelStatistics(*(int(counters[name]) for name in names))

    def validate(self) -> None:
        """Re-check all invariants across arrays; for tests, after every step.

        Raises:
            InternalError: one does not hold, with the evidence.
        """
        copies = copy_of(self._state)
        sync_all(handle_of(copies))
        validate_state(copies)

    def _apply(self, kind: ChangeKind, index: int, column: int, factor: float) -> None:
        if not 0.0 <= factor < math.inf:
            raise InvalidInput(f"a capacity factor is {factor}; it must be a finite number of 0 or more")
        apply_change(self._handle, int(kind), index, column, factor)
        settle(self._handle)

    def _read(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Work done (n,) and time lost (n, CAUSE_COUNT) up to now."""
        done, lost = np.empty(ids.size), np.empty((ids.size, CAUSE_COUNT))
        read_tasks(self._handle, ids, done, lost)
        return done, lost

    def _ids(self, tasks: ArrayLike) -> NDArray[np.int64]:
        ids = np.atleast_1d(np.asarray(tasks, np.int64))
        self._check_range(ids, int(self._counters["tasks"][0]), "task")
        return ids

    @staticmethod
    def _check_range(values: NDArray[np.int64], count: int, what: str) -> None:
        bad = (values < 0) | (values >= count)
        if bad.any():
            raise InvalidInput(
                f"{what} {int(values[bad][0])} does not exist; there are {count}, counted from 0"
            )

    def _new_ids(self, count: int) -> int:
        """Make room for `count` more tasks; returns the first id."""
        first = int(self._counters["tasks"][0])
        self._counters["tasks"] = first + count
        self._replace(tasks=grown(self._state.tasks, first + count))
        return first

    def _make_room(self, rows: NDArray[np.int64], *, later: int) -> None:
        """Make room for one more running task on each of `rows`, and for `later` more starts to come."""
        state = self._state
        starts = int(state.counters["starts"][0]) + later
        changed: dict[str, NDArray[Any]] = {
            "start_time": grown(state.start_time, starts),
            "start_task": grown(state.start_task, starts),
        }
        crowd = state.nodes["count"] + np.bincount(rows, minlength=len(self._nodes))
        slots = int(crowd.max(initial=1))
        if slots > state.slots.shape[1]:
            wider = np.zeros((len(self._nodes), max(slots, 2 * state.slots.shape[1])), SLOT_DTYPE)
            wider[:, : state.slots.shape[1]] = state.slots
            changed["slots"] = wider
        live = int(state.counters["running"][0]) + rows.size
        if state.counters["with_flows"][0] and live > state.nets.shape[0]:
            old = state.nets.shape[0]
            nets = grown(state.nets, live)
            nets["child"][old:] = np.arange(old + 1, nets.shape[0] + 1)
            nets["child"][-1] = state.counters["net_free"][0]
            state.counters["net_free"] = old
            pairs, table = fresh_pairs(_PAIRS_PER_NET * nets.shape[0])
            kept = state.pairs.shape[0]
            pairs[:kept] = state.pairs
            pairs["next"][-1] = state.counters["pair_free"][0]
            state.counters["pair_free"] = kept
            changed |= {"nets": nets, "pairs": pairs, "pair_table": table}
        width = max(
            changed.get("slots", state.slots).shape[1],
            changed.get("nets", state.nets).shape[0],
            SCRATCH_ROWS,
        )
        if width > state.scratch.shape[1]:
            # Not a power of two: the rows would fall on the same cache lines.
            width = 2 * width + 8
            changed["scratch"] = np.zeros((SCRATCH_ROWS, width))
            changed["scratch_whole"] = np.zeros((2, width), np.int64)
            changed["matrix"] = np.zeros(2 * LOCAL_RESOURCES * width)
        changed = {name: array for name, array in changed.items() if array is not getattr(state, name)}
        if changed:  # else all handed-out addresses still hold
            self._replace(**changed)
        if "pairs" in changed:
            rehash_pairs(self._handle)
