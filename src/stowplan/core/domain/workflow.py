"""A workflow: tasks and the order in which they may run, checked once to be a directed acyclic graph.

Graph measures are computed on index arrays in topological order. Upward rank is HEFT's without communication
(Topcuoglu, Hariri, Wu 2002): the longest path of expected seconds from a task to an exit, itself included.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain.gang import Gang
from stowplan.core.domain.pod import PodShape
from stowplan.core.domain.work import WorkProfile
from stowplan.errors import InvalidWorkflow

__all__ = ["Task", "Workflow"]

_SHOWN = 8  # names listed in an error before "…"


@dataclass(frozen=True, slots=True)
class Task:
    """One pod of a workflow.

    `expected_s` is the duration that schedulers are told (from history, or the trace); what it really takes
    follows from `work` and the machine it shares. `template` names the class of similar tasks (an Argo
    template, a Nextflow process). `input_bytes` and `output_bytes` are totals of files read and written. The
    tasks of one `gang` are placed all together or not at all, and start together.
    """

    name: str
    shape: PodShape
    work: WorkProfile
    expected_s: float
    template: str = ""
    input_bytes: float = 0.0
    output_bytes: float = 0.0
    gang: Gang | None = None

    def __post_init__(self) -> None:
        """Refuse an unusable expectation.

        Raises:
            InvalidWorkflow: `expected_s` is negative, NaN or infinite.
        """
        if not (math.isfinite(self.expected_s) and self.expected_s >= 0.0):
            raise InvalidWorkflow(
                f"task {self.name!r}: expected_s is {self.expected_s}; it must be finite and ≥ 0"
            )


@dataclass(frozen=True)
class Workflow:
    """A named DAG of tasks. `edges` are (parent, child) task names.

    Raises:
        InvalidWorkflow: no tasks, a duplicate task, an edge to an unknown task, a duplicate edge, a cycle, a
            gang of another size than it says, or whose tasks wait for different ones, or a task that trains
            but is of no gang; the message names them.
    """

    name: str
    tasks: tuple[Task, ...]
    edges: tuple[tuple[str, str], ...] = ()
    family: str = ""
    index_of: dict[str, int] = field(init=False, repr=False, compare=False)
    parents: tuple[tuple[int, ...], ...] = field(init=False, repr=False, compare=False)
    children: tuple[tuple[int, ...], ...] = field(init=False, repr=False, compare=False)
    topological_order: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the graph and build its indexes."""
        if not self.tasks:
            raise InvalidWorkflow(f"workflow {self.name!r} has no tasks; give it at least one")
        index_of: dict[str, int] = {}
        for index, task in enumerate(self.tasks):
            if task.name in index_of:
                raise InvalidWorkflow(
                    f"workflow {self.name!r}: task {task.name!r} occurs twice; names must be unique"
                )
            index_of[task.name] = index
        parents: list[list[int]] = [[] for _ in self.tasks]
        children: list[list[int]] = [[] for _ in self.tasks]
        seen: set[tuple[str, str]] = set()
        for parent, child in self.edges:
            for end in (parent, child):
                if end not in index_of:
                    raise InvalidWorkflow(
                        f"workflow {self.name!r}: edge {parent!r} → {child!r} names the unknown task "
                        f"{end!r}; add the task or remove the edge"
                    )
            if (parent, child) in seen:
                raise InvalidWorkflow(
                    f"workflow {self.name!r}: edge {parent!r} → {child!r} occurs twice; keep one"
                )
            seen.add((parent, child))
            parents[index_of[child]].append(index_of[parent])
            children[index_of[parent]].append(index_of[child])
        object.__setattr__(self, "index_of", index_of)
        object.__setattr__(self, "parents", tuple(map(tuple, parents)))
        object.__setattr__(self, "children", tuple(map(tuple, children)))
        object.__setattr__(self, "topological_order", self._sort_topologically())
        self._check_gangs()

    def _check_gangs(self) -> None:
        members: dict[Gang, list[int]] = {}
        for index, task in enumerate(self.tasks):
            if task.gang is not None:
                members.setdefault(task.gang, []).append(index)
            elif task.work.training is not None:
                raise InvalidWorkflow(
                    f"workflow {self.name!r}: task {task.name!r} trains but is of no gang; name one, of "
                    "size 1 if it trains alone"
                )
        for gang, found in members.items():
            if len(found) != gang.size:
                raise InvalidWorkflow(
                    f"workflow {self.name!r}: gang {gang.name!r} is said to have {gang.size} tasks, but "
                    f"{len(found)} name it; correct the size or the tasks"
                )
            if len({frozenset(self.parents[index]) for index in found}) > 1:
                raise InvalidWorkflow(
                    f"workflow {self.name!r}: the tasks of gang {gang.name!r} wait for different tasks; they "
                    "must be ready together"
                )

    def _sort_topologically(self) -> tuple[int, ...]:
        waiting = [len(p) for p in self.parents]
        order = [index for index, count in enumerate(waiting) if count == 0]
        for index in order:
            for child in self.children[index]:
                waiting[child] -= 1
                if waiting[child] == 0:
                    order.append(child)
        if len(order) < len(self.tasks):
            cycle = self._find_cycle(waiting)
            names = [self.tasks[index].name for index in cycle]
            shown = " → ".join(names[:_SHOWN]) + (" → …" if len(names) > _SHOWN else "")
            raise InvalidWorkflow(
                f"workflow {self.name!r} has the cycle {shown} → {names[0]}; remove one of its edges"
            )
        return tuple(order)

    def _find_cycle(self, waiting: Sequence[int]) -> list[int]:
        # Every task still waiting has a parent still waiting: walking up must meet itself.
        index = next(i for i, count in enumerate(waiting) if count > 0)
        path: list[int] = []
        while index not in path:
            path.append(index)
            index = next(p for p in self.parents[index] if waiting[p] > 0)
        return path[path.index(index) :][::-1]

    def __len__(self) -> int:
        """Return the number of tasks."""
        return len(self.tasks)

    @property
    def expected_s(self) -> NDArray[np.float64]:
        """Expected seconds of each task, shape (tasks,)."""
        return np.array([task.expected_s for task in self.tasks], dtype=np.float64)

    def depths(self) -> NDArray[np.int64]:
        """Return the number of edges on the longest path from an entry to each task, shape (tasks,)."""
        depth = np.zeros(len(self.tasks), dtype=np.int64)
        for index in self.topological_order:
            for child in self.children[index]:
                depth[child] = max(depth[child], depth[index] + 1)
        return depth

    def upward_ranks(self, durations_s: Iterable[float] | None = None) -> NDArray[np.float64]:
        """Return the longest remaining path of each task in seconds, itself included, shape (tasks,).

        `durations_s` replaces the expected durations.
        """
        rank = np.array(list(durations_s), dtype=np.float64) if durations_s is not None else self.expected_s
        for index in reversed(self.topological_order):
            if self.children[index]:
                rank[index] += max(rank[child] for child in self.children[index])
        return rank

    def downward_ranks(self, durations_s: Iterable[float] | None = None) -> NDArray[np.float64]:
        """Return the longest path of seconds from an entry to each task, itself excluded, shape (tasks,)."""
        own = np.array(list(durations_s), dtype=np.float64) if durations_s is not None else self.expected_s
        rank = np.zeros(len(self.tasks), dtype=np.float64)
        for index in self.topological_order:
            for child in self.children[index]:
                rank[child] = max(rank[child], rank[index] + own[index])
        return rank

    def critical_path(self, durations_s: Iterable[float] | None = None) -> tuple[tuple[int, ...], float]:
        """Return the task indexes of a longest path, first to last, and its length in seconds.

        Ties go to the task that comes first in `tasks`.
        """
        rank = self.upward_ranks(durations_s)
        entries = [index for index, above in enumerate(self.parents) if not above]
        index = max(entries, key=lambda i: (rank[i], -i))
        length = float(rank[index])
        path = [index]
        while self.children[index]:
            index = max(self.children[index], key=lambda i: (rank[i], -i))
            path.append(index)
        return tuple(path), length
