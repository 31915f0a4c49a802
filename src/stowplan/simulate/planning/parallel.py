"""Parallel schedule generation: time goes on from end to end, and whatever fits starts, by rank.

It never leaves room idle that a ready task could take, like a scheduler that decides as tasks end. Such
schedules are good beginnings, but may all miss the optimum, which can need a wait; so only their order of
starts is kept, as a list from which serial generation goes on.

Source: R. Kolisch, "Serial and Parallel Resource-Constrained Project Scheduling Methods Revisited", European
Journal of Operational Research 90(2), 1996.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stowplan.core.physics.compile import inner
from stowplan.simulate.planning.graph import Graph
from stowplan.simulate.planning.rules import insert_by_rank

__all__ = ["list_in_parallel"]


@inner
def list_in_parallel(graph: Graph, rank: NDArray[np.int64], tasks: NDArray[np.int64]) -> None:
    """Write all tasks into `tasks` in the order in which they start.

    Args:
        graph: what is placed.
        rank: (n,) a permutation; of the tasks that are ready and fit, the lowest rank starts first.
        tasks: (n,) result.
    """
    open_parents = graph.parent_from[1:] - graph.parent_from[:-1]
    free = graph.capacity.copy()
    ready = np.empty(len(rank), dtype=np.int64)
    left = np.empty(len(rank), dtype=np.int64)
    waiting = 0
    for task in range(len(rank)):
        if open_parents[task] == 0:
            waiting = insert_by_rank(ready, waiting, rank, task)
    end_s = np.empty(len(rank))  # of the running tasks, the soonest last
    running = np.empty(len(rank), dtype=np.int64)
    active = 0
    started = 0
    now_s = 0.0
    while started < len(rank):
        kept = 0
        for position in range(waiting - 1, -1, -1):
            task = int(ready[position])
            if (graph.demand[task] <= free).all():
                free -= graph.demand[task]
                tasks[started] = task
                started += 1
                active = _insert_end(end_s, running, active, now_s + float(graph.duration_s[task]), task)
            else:
                left[kept] = task
                kept += 1
        waiting = kept
        ready[:kept] = left[:kept][::-1]
        if started == len(rank):
            break
        now_s = end_s[active - 1]
        while active > 0 and end_s[active - 1] == now_s:
            active -= 1
            task = running[active]
            free += graph.demand[task]
            for edge in range(graph.child_from[task], graph.child_from[task + 1]):
                child = graph.child[edge]
                open_parents[child] -= 1
                if open_parents[child] == 0:
                    waiting = insert_by_rank(ready, waiting, rank, child)


@inner
def _insert_end(
    end_s: NDArray[np.float64], running: NDArray[np.int64], active: int, task_end_s: float, task: int
) -> int:
    """Put the end of `task` among the `active` ones, the soonest last; return how many there are now."""
    position = active
    while position > 0 and end_s[position - 1] < task_end_s:
        end_s[position] = end_s[position - 1]
        running[position] = running[position - 1]
        position -= 1
    end_s[position] = task_end_s
    running[position] = task
    return active + 1
