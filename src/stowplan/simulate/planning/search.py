"""Local search over lists of tasks: a few change places, and the schedule is pushed right and left again.

A makespan alone says little about which of two schedules is nearer to a better one. What is minimised is
lateness against a target below the best makespan found: by how much each task ends too late to leave its tail
time before the target, weighted with its share of the resources (what lies too late must find room earlier,
and the larger it is the harder that is) plus a little, so that thin chains count. No lateness means that the
makespan is at most the target, which then moves on.

A change is accepted when lateness is no more than now, or than it was a number of changes ago. That is late
acceptance: it needs no temperature, so no scale of time or size.

Source: E. K. Burke, Y. Bykov, "The Late Acceptance Hill-Climbing Heuristic", European Journal of Operational
Research 258(1), 2017.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stowplan.core.physics.compile import compiled, inner
from stowplan.simulate.planning.graph import Graph, heads, reverse
from stowplan.simulate.planning.justify import justify
from stowplan.simulate.planning.moves import move_task, swap_tasks
from stowplan.simulate.planning.parallel import list_in_parallel
from stowplan.simulate.planning.rules import list_by_rank, priorities, ranks, shares
from stowplan.simulate.planning.timetable import Timetable, list_by_start, new_timetable, place_serially

__all__ = ["search"]

# Chosen on the training sets of `tpch-batch`; none matters much.
_HISTORY = 0.05  # lateness is compared with that so many changes ago, as a share of all there will be
_AMBITION = 0.01  # how far the target lies below the best makespan, as a share of it
_THIN = 0.02  # weight of a task that holds nothing; one that holds all has 1 more
_AREA_BIAS = 0.3  # tasks are drawn to be moved with their area to this power
_AGAIN = 0.4  # chance of one more move in a change, each time
_SWAP = 0.5  # share of moves that swap a task with one of about its area
_ALIKE = 10  # which are those so many ranks of area away at most
_NEAR = 0.5  # share of the other moves that go `_REACH` places at most
_REACH = 50
_PASSES_PER_CHANGE = 3  # forwards, right, left
_ROUNDING = 1e-12  # a sum of durations may differ by so much with its order


class _Draw(NamedTuple):
    """How tasks are drawn."""

    rng: np.random.Generator
    cumulated: NDArray[np.float64]
    """(n,) sums of weights."""
    by_area: NDArray[np.int64]
    """(n,) tasks by area."""
    area_rank: NDArray[np.int64]
    """(n,) where each stands there."""


@compiled
def search(
    graph: Graph, rng: np.random.Generator, passes: int, bound_s: float
) -> tuple[NDArray[np.float64], float, int]:
    """Return the starts (n,) and the makespan of the best schedule found, in seconds, and the passes made.

    Args:
        graph: what is planned.
        rng: decides what is changed.
        passes: no change begins after so many schedules; those of the constructive rules count.
        bound_s: a schedule of this makespan is optimal and ends the search.
    """
    mirrored = reverse(graph)
    table = new_timetable(graph)
    tasks = np.empty(len(graph.duration_s), dtype=np.int64)
    current = np.empty(len(graph.duration_s), dtype=np.int64)
    made = _construct(graph, mirrored, table, tasks, current)
    best_s = place_serially(graph, current, table)
    best_start_s = table.start_s.copy()

    share = shares(graph)
    draw = _new_draw(rng, share * graph.duration_s)
    weight = share + _THIN
    tail_s = heads(mirrored)
    target_s = max(bound_s, best_s * (1.0 - _AMBITION))
    lateness = _lateness(table.end_s, tail_s, weight, target_s)
    past = np.full(1 + int(_HISTORY * passes / _PASSES_PER_CHANGE), lateness)
    changes = 0
    while made < passes and best_s > bound_s * (1.0 + _ROUNDING):
        tasks[:] = current
        _change(graph, tasks, draw)
        place_serially(graph, tasks, table)
        makespan_s = justify(graph, mirrored, table, tasks)
        made += _PASSES_PER_CHANGE
        slot = changes % len(past)
        changes += 1
        changed = _lateness(table.end_s, tail_s, weight, target_s)
        if changed <= max(lateness, past[slot]):
            lateness = changed
            list_by_start(graph, table, current)
            if makespan_s < best_s:
                best_s = makespan_s
                best_start_s[:] = table.start_s
                target_s = max(bound_s, best_s * (1.0 - _AMBITION))
                lateness = _lateness(table.end_s, tail_s, weight, target_s)
                past += lateness - changed
        past[slot] = min(past[slot], lateness)
    return best_start_s, best_s, made


@inner
def _construct(
    graph: Graph, mirrored: Graph, table: Timetable, tasks: NDArray[np.int64], best: NDArray[np.int64]
) -> int:
    """Write the list of the best schedule of any rule into `best`; return the passes made."""
    best_s = np.inf
    made = 0
    for key in priorities(graph):
        rank = ranks(key)
        for is_parallel in (False, True):
            if is_parallel:
                list_in_parallel(graph, rank, tasks)
            else:
                list_by_rank(graph, rank, tasks)
            makespan_s = place_serially(graph, tasks, table)
            made += 1
            before_s = np.inf
            while makespan_s < before_s:
                before_s = makespan_s
                makespan_s = justify(graph, mirrored, table, tasks)
                made += 2
            if makespan_s < best_s:
                best_s = makespan_s
                best[:] = tasks
    return made


@inner
def _new_draw(rng: np.random.Generator, area_s: NDArray[np.float64]) -> _Draw:
    by_area = np.argsort(area_s)
    area_rank = np.empty(len(area_s), dtype=np.int64)
    area_rank[by_area] = np.arange(len(area_s))
    return _Draw(rng, np.cumsum(area_s**_AREA_BIAS), by_area, area_rank)


@inner
def _lateness(
    end_s: NDArray[np.float64], tail_s: NDArray[np.float64], weight: NDArray[np.float64], target_s: float
) -> float:
    lateness = 0.0
    for task in range(len(end_s)):
        late_s = end_s[task] + tail_s[task] - target_s
        if late_s > 0.0:
            lateness += late_s * weight[task]
    return lateness


@inner
def _change(graph: Graph, tasks: NDArray[np.int64], draw: _Draw) -> None:
    """Move one task or a few to other places in the list."""
    rng = draw.rng
    count = len(tasks)
    position = np.empty(count, dtype=np.int64)
    position[tasks] = np.arange(count)
    while True:
        drawn = int(np.searchsorted(draw.cumulated, rng.random() * float(draw.cumulated[-1])))
        task = min(drawn, count - 1)
        if rng.random() < _SWAP:
            rank = int(draw.area_rank[task]) + int(rng.integers(-_ALIKE, _ALIKE + 1))
            swap_tasks(graph, tasks, position, task, int(draw.by_area[min(max(rank, 0), count - 1)]))
        elif rng.random() < _NEAR:
            move_task(graph, tasks, position, task, int(position[task] + rng.integers(-_REACH, _REACH + 1)))
        else:
            move_task(graph, tasks, position, task, int(rng.integers(0, count)))
        if rng.random() >= _AGAIN:
            return
