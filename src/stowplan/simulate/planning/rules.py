"""Constructive rules: keys from which first lists are made.

Each suits some kind of batch: the longest path where chains are long, the same weighted with demand or area
where packing decides too. The weights have a floor, so that tasks which hold next to nothing keep their turn.

Source of the first: R. Kolisch, "Efficient Priority Rules for the Resource-Constrained Project Scheduling
Problem", Journal of Operations Management 14(3), 1996 (latest start time).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stowplan.core.physics.compile import inner
from stowplan.simulate.planning.graph import Graph, heads, reverse

__all__ = ["insert_by_rank", "list_by_rank", "priorities", "ranks", "shares"]


@inner
def shares(graph: Graph) -> NDArray[np.float64]:
    """Return the largest share of a resource that each task holds, shape (n,)."""
    share = np.zeros(len(graph.duration_s))
    for task in range(len(share)):
        for resource in range(len(graph.capacity)):
            share[task] = max(share[task], graph.demand[task, resource] / graph.capacity[resource])
    return share


@inner
def priorities(graph: Graph) -> NDArray[np.float64]:
    """Return the keys of each rule, shape (4, n); the lowest goes first."""
    path_s = heads(reverse(graph)) + graph.duration_s
    share = shares(graph)
    area_s = share * graph.duration_s
    key = np.empty((4, len(path_s)))
    key[0] = -path_s
    key[1] = -path_s * (share + share.mean())
    key[2] = -path_s * (area_s + 5.0 * area_s.mean())
    key[3] = -path_s * area_s.mean() - 0.02 * area_s.sum() * area_s
    return key


@inner
def ranks(key: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the rank of each task by ascending `key`, shape (n,)."""
    rank = np.empty(len(key), dtype=np.int64)
    rank[np.argsort(key)] = np.arange(len(key))
    return rank


@inner
def list_by_rank(graph: Graph, rank: NDArray[np.int64], tasks: NDArray[np.int64]) -> None:
    """Write all tasks into `tasks`: of those whose parents all stand before, always the lowest rank next."""
    open_parents = graph.parent_from[1:] - graph.parent_from[:-1]
    ready = np.empty(len(rank), dtype=np.int64)
    waiting = 0
    for task in range(len(rank)):
        if open_parents[task] == 0:
            waiting = insert_by_rank(ready, waiting, rank, task)
    for position in range(len(rank)):
        waiting -= 1
        task = ready[waiting]
        tasks[position] = task
        for edge in range(graph.child_from[task], graph.child_from[task + 1]):
            child = graph.child[edge]
            open_parents[child] -= 1
            if open_parents[child] == 0:
                waiting = insert_by_rank(ready, waiting, rank, child)


@inner
def insert_by_rank(ready: NDArray[np.int64], waiting: int, rank: NDArray[np.int64], task: int) -> int:
    """Put `task` among the `waiting` ready ones, the lowest rank last; return how many there are now."""
    position = waiting
    while position > 0 and rank[ready[position - 1]] < rank[task]:
        ready[position] = ready[position - 1]
        position -= 1
    ready[position] = task
    return waiting + 1
