"""Changes of a list of tasks that keep parents before children."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stowplan.core.physics.compile import inner
from stowplan.simulate.planning.graph import Graph

__all__ = ["move_task", "room_in_list", "swap_tasks"]


@inner
def room_in_list(graph: Graph, position: NDArray[np.int64], task: int) -> tuple[int, int]:
    """Return the first and the last place that `task` may take while the others keep their order.

    `position` (n,) is where each task stands in the list.
    """
    first = 0
    last = len(position) - 1
    for edge in range(graph.parent_from[task], graph.parent_from[task + 1]):
        first = max(first, int(position[int(graph.parent[edge])]) + 1)
    for edge in range(graph.child_from[task], graph.child_from[task + 1]):
        last = min(last, int(position[int(graph.child[edge])]) - 1)
    return first, last


@inner
def move_task(
    graph: Graph, tasks: NDArray[np.int64], position: NDArray[np.int64], task: int, wanted: int
) -> None:
    """Move `task` to the place nearest to `wanted` that it may take; those between close up.

    `tasks` (n,) is the list, `position` (n,) where each stands in it; both are changed.
    """
    first, last = room_in_list(graph, position, task)
    to = min(max(wanted, first), last)
    at = position[task]
    step = 1 if to > at else -1
    while at != to:
        tasks[at] = tasks[at + step]
        position[tasks[at]] = at
        at += step
    tasks[to] = task
    position[task] = to


@inner
def swap_tasks(
    graph: Graph, tasks: NDArray[np.int64], position: NDArray[np.int64], task: int, other: int
) -> None:
    """Move each of two tasks to where the other stands, as near as it may; arrays as in `move_task`."""
    at = position[task]
    move_task(graph, tasks, position, task, position[other])
    move_task(graph, tasks, position, other, at)
