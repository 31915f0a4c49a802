"""Rank functions of the list-scheduling papers: tasks × machines durations, communication per edge.

* HEFT and CPOP: H. Topcuoglu, S. Hariri, M.-Y. Wu, "Performance-Effective and Low-Complexity Task Scheduling
for Heterogeneous
  Computing", IEEE TPDS 13(3), 2002, sections 4.1 (ranks), 4.2 (HEFT), 4.3 (CPOP).
* PEFT: H. Arabnejad, J. Barbosa, "List Scheduling Algorithm for Heterogeneous Systems by an Optimistic Cost
Table", IEEE TPDS
  25(3), 2014, section 4 (OCT).

Machines are processors in the papers and machine types here; the mean over processors is then weighted by how
many nodes a type has. Communication between tasks on one machine is free in the papers; on a cluster of many
nodes per type that holds only for one node, so OCT takes the share of a type's nodes that are another node
into account (1 in the papers' setting).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain import Workflow

__all__ = ["critical_tasks", "downward_ranks", "optimistic_costs", "upward_ranks"]

Communication = Mapping[tuple[int, int], float]
"""Mean seconds to move the data of an edge (parent, child) between machines; missing: nothing."""


def upward_ranks(
    workflow: Workflow, mean_s: NDArray[np.float64], communication_s: Communication
) -> NDArray[np.float64]:
    """Return rank_u: the longest path from each task to an exit, communication included, shape (tasks,).

    Args:
        workflow: the DAG.
        mean_s: (tasks,) durations averaged over the machines.
        communication_s: mean seconds per edge.
    """
    ranks = mean_s.astype(np.float64)
    for task in reversed(workflow.topological_order):
        ranks[task] += max(
            (communication_s.get((task, child), 0.0) + ranks[child] for child in workflow.children[task]),
            default=0.0,
        )
    return ranks


def downward_ranks(
    workflow: Workflow, mean_s: NDArray[np.float64], communication_s: Communication
) -> NDArray[np.float64]:
    """Return rank_d: the longest path from an entry to each task, the task excluded, shape (tasks,)."""
    ranks = np.zeros(len(workflow), dtype=np.float64)
    for task in workflow.topological_order:
        ranks[task] = max(
            (ranks[p] + mean_s[p] + communication_s.get((p, task), 0.0) for p in workflow.parents[task]),
            default=0.0,
        )
    return ranks


def critical_tasks(workflow: Workflow, priority: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Tell which tasks form CPOP's critical path, shape (tasks,).

    The path starts at the entry of highest priority (rank_u + rank_d) and goes on to a child of the same
    priority. Rounding is allowed for: equal means within 1e-9 of the path's length.
    """
    is_critical = np.zeros(len(workflow), dtype=np.bool_)
    entries = [task for task, above in enumerate(workflow.parents) if not above]
    task = max(entries, key=lambda entry: (priority[entry], -entry))
    length = float(priority[task])
    while True:
        is_critical[task] = True
        heirs = [c for c in workflow.children[task] if priority[c] >= length - 1e-9 * max(length, 1.0)]
        if not heirs:
            return is_critical
        task = heirs[0]


def optimistic_costs(
    workflow: Workflow,
    durations_s: NDArray[np.float64],
    communication_s: Communication,
    same_machine_share: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Return PEFT's optimistic cost table: the least time all below a task takes, shape (tasks, machines).

    OCT(t, m) = max over children c of min over machines w of OCT(c, w) + duration(c, w) + communication(t,
    c), the last being zero when w = m.

    Args:
        workflow: the DAG.
        durations_s: (tasks, machines).
        communication_s: mean seconds per edge.
        same_machine_share: (machines,) how much of the communication remains when both tasks are on one
            machine type; zeros (the
            default) are the paper's processors, (n − 1)/n suits a type of n nodes.
    """
    machines = durations_s.shape[1]
    remains = np.ones((machines, machines), dtype=np.float64)
    np.fill_diagonal(remains, 0.0 if same_machine_share is None else same_machine_share)
    costs = np.zeros_like(durations_s, dtype=np.float64)
    for task in reversed(workflow.topological_order):
        for child in workflow.children[task]:
            moved_s = communication_s.get((task, child), 0.0)
            through = (costs[child] + durations_s[child])[None, :] + moved_s * remains
            costs[task] = np.maximum(costs[task], through.min(axis=1))
    return costs
