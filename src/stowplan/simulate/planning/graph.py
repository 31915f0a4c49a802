"""The tasks of a batch as flat arrays, in the form that compiled code takes.

A graph and its reverse have the same form: a schedule of the reverse, read from its end, is a schedule of the
graph. So whatever places tasks forwards also places them backwards.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stowplan.core.physics.compile import inner

__all__ = ["Graph", "heads", "reverse"]


class Graph(NamedTuple):
    """n tasks, E edges, R resources. The parents of j are `parent[parent_from[j] : parent_from[j + 1]]`."""

    duration_s: NDArray[np.float64]
    """(n,) above 0."""
    demand: NDArray[np.int64]
    """(n, R) held from start to end; at most `capacity`."""
    capacity: NDArray[np.int64]
    """(R,) above 0."""
    parent_from: NDArray[np.int64]
    """(n + 1,)"""
    parent: NDArray[np.int64]
    """(E,)"""
    child_from: NDArray[np.int64]
    """(n + 1,)"""
    child: NDArray[np.int64]
    """(E,)"""
    topological: NDArray[np.int64]
    """(n,) all tasks, parents before children."""


@inner
def reverse(graph: Graph) -> Graph:
    """Return the graph with every edge turned round."""
    return Graph(
        graph.duration_s,
        graph.demand,
        graph.capacity,
        graph.child_from,
        graph.child,
        graph.parent_from,
        graph.parent,
        graph.topological[::-1].copy(),
    )


@inner
def heads(graph: Graph) -> NDArray[np.float64]:
    """Return the longest path of seconds before each task, itself excluded; shape (n,).

    Of the reverse these are the tails: the longest path after each task.
    """
    head_s = np.zeros(len(graph.duration_s))
    for task in graph.topological:
        for edge in range(graph.parent_from[task], graph.parent_from[task + 1]):
            parent = graph.parent[edge]
            head_s[task] = max(head_s[task], head_s[parent] + graph.duration_s[parent])
    return head_s
