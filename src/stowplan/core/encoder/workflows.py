"""What is known of each workflow: the places of its tasks, computed once, and how far it is.

Depth, order and number of parents never change. The critical path of what is left changes only as tasks end:
it is looked for again when the number of open tasks, or what is expected of them, has changed.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain import TaskStatus, Workflow, WorkflowProgress

__all__ = ["Places", "ProgressFacts", "Workflows"]

_ENDED: Final = int(TaskStatus.DONE)  # this and those above are ends
_MOST: Final = 4096  # workflows remembered, unless more are pending


class Places:
    """Where the tasks of one workflow stand.

    Attributes:
        order: int64 (tasks,); place in the topological order.
        depth: int64 (tasks,); edges on the longest path from an entry.
        parents, children: int64 (tasks,); how many.
        total_s: expected seconds of all tasks, summed.
    """

    __slots__ = ("children", "depth", "order", "parents", "total_s", "workflow")

    def __init__(self, workflow: Workflow) -> None:
        """Look at every task and edge once."""
        size = len(workflow)
        self.workflow = workflow
        self.order: NDArray[np.int64] = np.empty(size, dtype=np.int64)
        self.order[list(workflow.topological_order)] = np.arange(size)
        self.depth = workflow.depths()
        self.parents = np.fromiter(map(len, workflow.parents), dtype=np.int64, count=size)
        self.children = np.fromiter(map(len, workflow.children), dtype=np.int64, count=size)
        self.total_s = float(workflow.expected_s.sum())


class ProgressFacts:
    """How far one submitted workflow is.

    Attributes:
        progress: of which.
        places: of its workflow.
        critical_path_s: longest expected path through what has not ended.
        longest_s: longest expected path of the whole workflow.
    """

    __slots__ = ("_key", "_ranks", "critical_path_s", "longest_s", "places", "progress")

    def __init__(self, progress: WorkflowProgress, places: Places) -> None:
        """Know nothing yet; `refresh` looks."""
        self.progress = progress
        self.places = places
        self.critical_path_s = self.longest_s = 0.0
        self._ranks: NDArray[np.float64] | None = None
        self._key = (-1, 0.0)

    def refresh(self) -> None:
        """Look for the critical path, if it may be another one than before."""
        progress = self.progress
        ranks = progress.upward_rank_s
        key = (progress.open_tasks, ranks.item(0))  # the rank of a pod beside its workflow changes in place
        if ranks is self._ranks and key == self._key:
            return
        self._ranks, self._key = ranks, key
        self.longest_s = float(ranks.max())
        self.critical_path_s = float(ranks[progress.status < _ENDED].max(initial=0.0))


class Workflows:
    """Facts of the workflows that were met lately."""

    def __init__(self) -> None:
        """Know none."""
        self._places: dict[int, Places] = {}
        self._facts: dict[int, ProgressFacts] = {}

    def of(self, progress: WorkflowProgress) -> ProgressFacts:
        """Return the facts of `progress`, up to date."""
        facts = self._facts.get(id(progress))
        if facts is None or facts.places.workflow is not progress.workflow:
            facts = self._facts[id(progress)] = ProgressFacts(progress, self.places_of(progress.workflow))
        facts.refresh()
        return facts

    def places_of(self, workflow: Workflow) -> Places:
        """Return the places of a workflow's tasks."""
        places = self._places.get(id(workflow))
        if places is None:
            places = self._places[id(workflow)] = Places(workflow)
        return places

    def forget(self, needed: int) -> None:
        """Forget all when there are many more than the `needed` ones."""
        if max(len(self._places), len(self._facts)) > max(_MOST, 4 * needed):
            self._places.clear()
            self._facts.clear()
