"""Finds the node to empty among those that could take the pod with fewer pods on them.

In a large cluster not all of them are tried: from some offset on, so many that a tenth of them, and at least
a hundred, are candidates (kube-scheduler's `minCandidateNodesPercentage` and `minCandidateNodesAbsolute`).
kube-scheduler tries nodes in parallel; here they count as tried one after the other, as if it had one thread.
While no candidate keeps all budgets, the search goes on to the last node: so nodes are tried by the hundred,
in array operations, and more of them each time.
Source: `DryRunPreemption` and `findCandidates` in kubernetes pkg/scheduler/framework/preemption, 1.37.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from stowplan.core.constraints import CompiledFilters
from stowplan.core.domain import ClusterState, DisruptionBudget
from stowplan.core.preemption.budgets import BudgetBook
from stowplan.core.preemption.choice import Candidate, StartTimes, best_candidate
from stowplan.core.preemption.victims import select_victims

__all__ = ["Chance", "Search", "SearchSettings", "search"]


class Chance(Protocol):
    """Draws numbers; `random.Random` is one."""

    def randrange(self, start: int, /) -> int:
        """Return a number from 0 on, below `start`."""
        ...


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """How far to look.

    Attributes:
        percent_of_nodes: find so many candidates, in hundredths of the nodes that could help.
        minimum_nodes: find at least so many.
        examines_all: try every node that could help.
    """

    percent_of_nodes: int = 10
    minimum_nodes: int = 100
    examines_all: bool = False

    def candidates_of(self, nodes: int) -> int:
        """Return how many candidates are enough when `nodes` could help."""
        if self.examines_all:
            return nodes
        return min(max(nodes * self.percent_of_nodes // 100, self.minimum_nodes), nodes)


@dataclass(frozen=True, slots=True)
class Search:
    """What was found.

    Attributes:
        best: the node to empty; None: preemption does not help.
        candidates: all that were found, those that break no budget first.
        potential: how many nodes could take the pod with fewer pods on them.
        examined: how many of those were tried.
    """

    best: Candidate | None
    candidates: tuple[Candidate, ...]
    potential: int
    examined: int


def search(
    state: ClusterState,
    compiled: CompiledFilters,
    budgets: Sequence[DisruptionBudget],
    started_s: StartTimes,
    *,
    settings: SearchSettings,
    generator: Chance,
) -> Search:
    """Look for the node to empty for a pod that no node takes; nothing is changed.

    Args:
        state: the cluster.
        compiled: the filters of the pod, caught up with the state.
        budgets: all disruption budgets, in the order in which they are asked.
        started_s: when pods started.
        settings: how far to look.
        generator: where the offset comes from.
    """
    rows = np.flatnonzero(compiled.yielding())
    if not len(rows):
        return Search(None, (), 0, 0)
    rows = np.roll(rows, -generator.randrange(len(rows)))
    book = BudgetBook(budgets)
    enough = settings.candidates_of(len(rows))
    keeping: list[Candidate] = []
    violating: list[Candidate] = []
    examined = 0
    for found in _tried(rows, enough, lambda some: select_victims(state, compiled, some, book, started_s)):
        examined += 1
        if found is not None:
            (violating if found.violations else keeping).append(found)
        if keeping and len(keeping) + len(violating) >= enough:
            break
    candidates = (*keeping, *violating)
    return Search(best_candidate(candidates, started_s), candidates, len(rows), examined)


def _tried(
    rows: NDArray[np.intp], first: int, select: Callable[[NDArray[np.intp]], list[Candidate | None]]
) -> Iterator[Candidate | None]:
    """Yield what `select` says of each row, the `first` of them at once, then twice as many each time."""
    begin, end = 0, max(first, 1)
    while begin < len(rows):
        yield from select(rows[begin:end])
        begin, end = end, 3 * end - 2 * begin
