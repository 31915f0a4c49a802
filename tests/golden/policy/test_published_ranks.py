"""The worked examples of the papers: HEFT and CPOP (Topcuoglu et al. 2002), PEFT (Arabnejad & Barbosa 2014).

The rank functions are ours; the offline insertion-based scheduler that turns them into the published
makespans is this test's, since ours schedules onto running clusters.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from stowplan.core.domain import Phase, PodShape, Task, Workflow, WorkProfile
from stowplan.core.policy.ranks import critical_tasks, downward_ranks, optimistic_costs, upward_ranks


@dataclass(frozen=True)
class Example:
    """A published DAG: costs per task and processor, communication per edge (tasks from 1, as printed)."""

    costs: NDArray[np.float64]
    moved: dict[tuple[int, int], float]

    @property
    def workflow(self) -> Workflow:
        work = WorkProfile((Phase(1.0),))
        tasks = tuple(Task(f"t{i}", PodShape(), work, 1.0) for i in range(len(self.costs)))
        return Workflow("example", tasks, tuple((f"t{a}", f"t{b}") for a, b in self.moved))

    @property
    def mean(self) -> NDArray[np.float64]:
        return self.costs.mean(axis=1)


def example(costs: list[list[float]], moved: dict[tuple[int, int], float]) -> Example:
    return Example(
        np.array(costs, dtype=np.float64), {(a - 1, b - 1): seconds for (a, b), seconds in moved.items()}
    )


TOPCUOGLU = example(
    [
        [14, 16, 9],
        [13, 19, 18],
        [11, 13, 19],
        [13, 8, 17],
        [12, 13, 10],
        [13, 16, 9],
        [7, 15, 11],
        [5, 11, 14],
        [18, 12, 20],
        [21, 7, 16],
    ],
    {
        (1, 2): 18,
        (1, 3): 12,
        (1, 4): 9,
        (1, 5): 11,
        (1, 6): 14,
        (2, 8): 19,
        (2, 9): 16,
        (3, 7): 23,
        (4, 8): 27,
        (4, 9): 23,
        (5, 9): 13,
        (6, 8): 15,
        (7, 10): 17,
        (8, 10): 11,
        (9, 10): 13,
    },
)
ARABNEJAD = example(
    [
        [22, 21, 36],
        [22, 18, 18],
        [32, 27, 43],
        [7, 10, 4],
        [29, 27, 35],
        [26, 17, 24],
        [14, 25, 30],
        [29, 23, 36],
        [15, 21, 8],
        [13, 16, 33],
    ],
    {
        (1, 2): 17,
        (1, 3): 31,
        (1, 4): 29,
        (1, 5): 13,
        (1, 6): 7,
        (2, 8): 3,
        (2, 9): 30,
        (3, 7): 16,
        (4, 8): 11,
        (4, 9): 7,
        (5, 9): 57,
        (6, 8): 5,
        (7, 10): 9,
        (8, 10): 42,
        (9, 10): 7,
    },
)


def makespan(
    given: Example, priority: NDArray[np.float64], prefer: Callable[[int, int, float], float]
) -> float:
    """Schedule offline: highest ready priority first, with insertion, where `prefer` is least."""
    workflow = given.workflow
    slots: list[list[tuple[float, float]]] = [[] for _ in range(given.costs.shape[1])]
    where: dict[int, tuple[int, float]] = {}
    while len(where) < len(workflow):
        ready = [
            t
            for t in range(len(workflow))
            if t not in where and all(parent in where for parent in workflow.parents[t])
        ]
        task = max(ready, key=lambda t: (priority[t], -t))
        best: tuple[float, int, float, float] | None = None
        for processor, taken in enumerate(slots):
            arrival = max(
                (
                    where[parent][1] + (given.moved[parent, task] if where[parent][0] != processor else 0.0)
                    for parent in workflow.parents[task]
                ),
                default=0.0,
            )
            cost = float(given.costs[task, processor])
            start = arrival
            for begin, end in sorted(taken):
                if start + cost <= begin:
                    break
                start = max(start, end)
            choice = (prefer(task, processor, start + cost), processor, start, start + cost)
            best = choice if best is None else min(best, choice)
        assert best is not None
        _, processor, start, end = best
        slots[processor].append((start, end))
        where[task] = (processor, end)
    return max(end for _, end in where.values())


def by_finish(_task: int, _processor: int, finish: float) -> float:
    return finish


def test_heft_ranks_and_makespan_are_as_published() -> None:
    ranks = upward_ranks(TOPCUOGLU.workflow, TOPCUOGLU.mean, TOPCUOGLU.moved)
    published = [108.000, 77.000, 80.000, 80.000, 69.000, 63.333, 42.667, 35.667, 44.333, 14.667]
    assert ranks == pytest.approx(published, abs=5e-4)
    assert makespan(TOPCUOGLU, ranks, by_finish) == 80.0


def test_cpop_priorities_critical_path_and_makespan_are_as_published() -> None:
    workflow = TOPCUOGLU.workflow
    up = upward_ranks(workflow, TOPCUOGLU.mean, TOPCUOGLU.moved)
    down = downward_ranks(workflow, TOPCUOGLU.mean, TOPCUOGLU.moved)
    assert down == pytest.approx([0, 31, 25, 22, 24, 27, 62.333, 66.667, 63.667, 93.333], abs=5e-4)
    priority = up + down
    critical = critical_tasks(workflow, priority)
    assert np.flatnonzero(critical).tolist() == [0, 1, 8, 9]  # n1, n2, n9, n10
    processor = int(TOPCUOGLU.costs[critical].sum(axis=0).argmin())
    assert processor == 1  # P2, in 54

    def prefer(task: int, candidate: int, finish: float) -> float:
        return finish if not critical[task] or candidate == processor else np.inf

    assert makespan(TOPCUOGLU, priority, prefer) == 86.0


def test_peft_cost_table_and_makespan_are_as_published() -> None:
    costs = optimistic_costs(ARABNEJAD.workflow, ARABNEJAD.costs, ARABNEJAD.moved)
    assert costs.tolist() == [
        [64, 68, 86],
        [42, 39, 42],
        [27, 41, 43],
        [42, 39, 50],
        [28, 37, 28],
        [42, 39, 44],
        [13, 16, 22],
        [13, 16, 33],
        [13, 16, 20],
        [0, 0, 0],
    ]

    def prefer(task: int, processor: int, finish: float) -> float:
        return finish + costs[task, processor]

    assert makespan(ARABNEJAD, costs.mean(axis=1), prefer) == 122.0


def test_heft_on_the_peft_example_takes_longer_as_published() -> None:
    ranks = upward_ranks(ARABNEJAD.workflow, ARABNEJAD.mean, ARABNEJAD.moved)
    assert makespan(ARABNEJAD, ranks, by_finish) == 133.0


def test_communication_within_a_type_of_many_nodes_costs_its_share() -> None:
    workflow = ARABNEJAD.workflow
    share = np.array([0.5, 0.5, 0.5])
    costs = optimistic_costs(workflow, ARABNEJAD.costs, ARABNEJAD.moved, share)
    # t7 → t10 moves 9: on P1 half of it remains, 13 + 4.5; P2 could be reached for 16 + 9.
    assert costs[6].tolist() == [17.5, 20.5, 22.0]
