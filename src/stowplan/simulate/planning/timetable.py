"""Serial schedule generation: tasks are placed one by one, each as early as it fits.

The timetable is a chain of instants at which what is free changes; a task starts at one of them and its end
adds at most one. So a placement costs the instants it looks at, whatever the length of time, and times are
exact: every start is 0 or the end of some task, bit for bit.

A schedule in which no task could start earlier, with all others as they are, is active. Serial generation
makes active schedules and, over all lists, every active one, so some list makes an optimal one.

Source: R. Kolisch, "Serial and Parallel Resource-Constrained Project Scheduling Methods Revisited", European
Journal of Operational Research 90(2), 1996.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stowplan.core.physics.compile import inner
from stowplan.simulate.planning.graph import Graph

__all__ = ["Timetable", "list_by_end", "list_by_start", "new_timetable", "place_serially"]


class Timetable(NamedTuple):
    """A schedule of n tasks, and the chain of its instants: 0 is time 0, 1 the end of time."""

    start_s: NDArray[np.float64]
    """(n,)"""
    end_s: NDArray[np.float64]
    """(n,)"""
    start_at: NDArray[np.int64]
    """(n,) instant of the start."""
    end_at: NDArray[np.int64]
    """(n,) instant of the end."""
    time_s: NDArray[np.float64]
    """(n + 2,) by instant."""
    free: NDArray[np.int64]
    """(n + 2, R) by instant; what is free from it to the next."""
    after: NDArray[np.int64]
    """(n + 2,) by instant; the next one."""
    place: NDArray[np.int64]
    """(n + 3,) scratch of the sorts below."""


@inner
def new_timetable(graph: Graph) -> Timetable:
    """Return room for a schedule of `graph`."""
    tasks = len(graph.duration_s)
    instants = tasks + 2
    return Timetable(
        np.zeros(tasks),
        np.zeros(tasks),
        np.zeros(tasks, dtype=np.int64),
        np.zeros(tasks, dtype=np.int64),
        np.zeros(instants),
        np.zeros((instants, len(graph.capacity)), dtype=np.int64),
        np.zeros(instants, dtype=np.int64),
        np.zeros(instants + 1, dtype=np.int64),
    )


@inner
def place_serially(graph: Graph, tasks: NDArray[np.int64], table: Timetable) -> float:
    """Make the schedule of a list of all tasks, parents before children; return its makespan in seconds."""
    table.time_s[0] = 0.0
    table.time_s[1] = np.inf
    table.free[0] = graph.capacity
    table.free[1] = graph.capacity
    table.after[0] = 1
    instants = 2
    makespan_s = 0.0
    for task in tasks:
        first = 0
        for edge in range(graph.parent_from[task], graph.parent_from[task + 1]):
            end_at = int(table.end_at[int(graph.parent[edge])])
            if table.time_s[end_at] > table.time_s[first]:
                first = end_at
        instants = _place(graph, task, first, table, instants)
        makespan_s = max(makespan_s, float(table.end_s[int(task)]))
    return makespan_s


@inner
def _fits(demand: NDArray[np.int64], task: int, free: NDArray[np.int64], instant: int) -> bool:
    if demand[task, 0] > free[instant, 0]:  # outside the loop: most batches have one resource that binds
        return False
    for resource in range(1, demand.shape[1]):  # noqa: SIM110  (numba compiles no generator expression)
        if demand[task, resource] > free[instant, resource]:
            return False
    return True


@inner
def _place(graph: Graph, task: int, first: int, table: Timetable, instants: int) -> int:
    """Start `task` at the first instant from `first` on at which it fits for its whole duration."""
    time_s = table.time_s
    free = table.free
    after = table.after
    demand = graph.demand
    duration_s = graph.duration_s[task]
    start = first
    while True:
        while not _fits(demand, task, free, start):
            start = int(after[start])
        end_s = time_s[start] + duration_s
        last = start  # the last instant that the task covers
        following = int(after[start])
        while time_s[following] < end_s and _fits(demand, task, free, following):
            last = following
            following = int(after[following])
        if time_s[following] >= end_s:
            break
        start = following
    end = following
    if time_s[following] != end_s:
        end = instants
        instants += 1
        time_s[end] = end_s
        free[end] = free[last]
        after[end] = following
        after[last] = end
    covered = start
    while covered != end:
        free[covered, 0] -= demand[task, 0]
        for resource in range(1, demand.shape[1]):
            free[covered, resource] -= demand[task, resource]
        covered = after[covered]
    table.start_s[task] = time_s[start]
    table.end_s[task] = end_s
    table.start_at[task] = start
    table.end_at[task] = end
    return instants


@inner
def _list_by(
    instant_of: NDArray[np.int64], topological: NDArray[np.int64], table: Timetable, tasks: NDArray[np.int64]
) -> None:
    """Sort the tasks by an instant each, equal ones as in `topological`, into `tasks`; in linear time."""
    place = table.place
    place[:] = 0
    for instant in instant_of:
        place[instant + 1] += 1
    # `place[i + 1]` counts the tasks at instant i; walk the chain to turn counts into first positions.
    position = 0
    instant = 0
    while instant != 1:
        count = place[instant + 1]
        place[instant + 1] = position
        position += count
        instant = table.after[instant]
    for task in topological:
        at = instant_of[task] + 1
        tasks[place[at]] = task
        place[at] += 1


@inner
def list_by_start(graph: Graph, table: Timetable, tasks: NDArray[np.int64]) -> None:
    """Write the tasks of a schedule of `graph` into `tasks`, the earliest start first, parents first."""
    _list_by(table.start_at, graph.topological, table, tasks)


@inner
def list_by_end(graph: Graph, table: Timetable, tasks: NDArray[np.int64]) -> None:
    """Write the tasks of a schedule of `graph` into `tasks`, the latest end first, children first."""
    _list_by(table.end_at, graph.topological, table, tasks)
    tasks[:] = tasks[::-1].copy()
