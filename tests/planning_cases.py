"""Random batches of small DAGs on one node, and an account of what a schedule may do that shares no code."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies as st

from stowplan.core.domain import Phase, Resources, Task, Workflow, WorkProfile
from stowplan.simulate.clusters.model import Cluster
from stowplan.simulate.planning import Batch
from stowplan.simulate.workloads.model import Submission, Workload
from tests.simulation_cases import cluster, node, task, workload


@dataclass(frozen=True, slots=True)
class Case:
    """A batch with the machine it is for."""

    cluster: Cluster
    workload: Workload

    @property
    def batch(self) -> Batch:
        """The batch, as the planner takes it."""
        return Batch.of(self.cluster, self.workload)

    @property
    def tasks(self) -> list[Task]:
        """All tasks, in the order of the batch."""
        return [task for submission in self.workload.submissions for task in submission.workflow.tasks]

    @property
    def parents(self) -> list[list[int]]:
        """The parents of each task, as indexes into `tasks`."""
        parents: list[list[int]] = []
        for submission in self.workload.submissions:
            first = len(parents)
            parents += [[first + index for index in above] for above in submission.workflow.parents]
        return parents

    def running_for(self, share: float, rng: np.random.Generator) -> Workload:
        """Return the workload with tasks that take between `share` and all of what is expected of them."""
        submissions: list[Submission] = []
        for submission in self.workload.submissions:
            tasks = tuple(
                replace(one, work=WorkProfile((Phase(one.expected_s * rng.uniform(share, 1.0)),)))
                for one in submission.workflow.tasks
            )
            submissions.append(replace(submission, workflow=replace(submission.workflow, tasks=tasks)))
        return replace(self.workload, submissions=tuple(submissions))

    def fit_together(self, indexes: Sequence[int]) -> bool:
        """Tell whether the node has room for these tasks at one time."""
        has = self.cluster.nodes[0].allocatable
        asked = [self.tasks[index].shape.requests for index in indexes]
        return len(indexes) <= has["pods"] and all(
            sum(one.get(name, 0) for one in asked) <= has[name] for name in ("cpu", "memory")
        )

    def require_feasible(self, start_s: Sequence[float]) -> None:
        """Check a schedule: every task after its parents, and room for all that runs at every instant."""
        end_s = [start + one.expected_s for start, one in zip(start_s, self.tasks, strict=True)]
        for index, above in enumerate(self.parents):
            assert start_s[index] >= 0.0
            for parent in above:
                assert start_s[index] >= end_s[parent], (parent, index)
        for now_s in start_s:  # what runs only grows when something starts
            running = [i for i in range(len(end_s)) if start_s[i] <= now_s < end_s[i]]
            assert self.fit_together(running), (now_s, running)

    def shortest_s(self) -> float:
        """Return the makespan of a best schedule, by trying every order in which the tasks can be placed."""
        count = len(self.tasks)
        parents = self.parents
        best_s = float("inf")
        for order in itertools.permutations(range(count)):
            place = {index: position for position, index in enumerate(order)}
            if all(place[parent] < place[index] for index in order for parent in parents[index]):
                best_s = min(best_s, self._place_in(order))
        return best_s

    def _place_in(self, order: Sequence[int]) -> float:
        """Place the tasks in this order, each as early as it fits; return when the last ends."""
        start_s: dict[int, float] = {}
        end_s: dict[int, float] = {}
        for index in order:
            ready_s = max((end_s[parent] for parent in self.parents[index]), default=0.0)
            for at_s in sorted({ready_s, *(end for end in end_s.values() if end > ready_s)}):
                until_s = at_s + self.tasks[index].expected_s
                instants = [at_s, *(start for start in start_s.values() if at_s < start < until_s)]
                if all(
                    self.fit_together([index, *(i for i in start_s if start_s[i] <= now_s < end_s[i])])
                    for now_s in instants
                ):
                    start_s[index], end_s[index] = at_s, until_s
                    break
        return max(end_s.values())


@st.composite
def cases(draw: st.DrawFn, *, most_tasks: int, seconds: st.SearchStrategy[float]) -> Case:
    """Batches of one to three workflows with tasks that compete for cores, memory and places for pods."""
    flows: list[Workflow] = []
    left = draw(st.integers(1, most_tasks))
    while left > 0:
        count = draw(st.integers(1, left)) if len(flows) < 2 else left
        left -= count
        tasks = tuple(
            task(
                f"t{index}",
                seconds=draw(seconds),
                cores=draw(st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0])),
                memory_gib=draw(st.sampled_from([0.0, 1.0, 2.0, 5.0])),
            )
            for index in range(count)
        )
        edges = tuple(
            (f"t{above}", f"t{below}")
            for below in range(count)
            for above in range(below)
            if draw(st.integers(0, 3)) == 0
        )
        flows.append(Workflow(f"w{len(flows)}", tasks, edges))
    machine = node("n0", cores=4.0, memory_gib=8.0)
    allocatable = Resources({**machine.allocatable, "pods": draw(st.sampled_from([2, 3, 110]))})
    return Case(cluster(replace(machine, allocatable=allocatable)), workload(*flows))
