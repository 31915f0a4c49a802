"""What can be said before a run: tasks that no node could take even if it were empty.

The simulator finds them too, when they become pending; a user should not wait for that to see a request that
was mistyped.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stowplan.core.constraints import FILTERS, CompiledFilters, RuleTable
from stowplan.core.domain import ClusterState, NodeSet, PodShape
from stowplan.simulate.clusters.model import Cluster
from stowplan.simulate.workloads.model import Workload

__all__ = ["infeasible_in_words", "infeasible_tasks"]

_SHOWN = 3


def infeasible_tasks(cluster: Cluster, workload: Workload, rules: RuleTable) -> Iterator[tuple[str, str]]:
    """Yield `WORKFLOW/TASK` and the reason for each task that no node could take, in the workload's order."""
    state = ClusterState()
    for node in cluster.nodes:
        state.apply(NodeSet(node))
    reason_of: dict[PodShape, str | None] = {}
    for submission in workload.submissions:
        for task in submission.workflow.tasks:
            if task.shape not in reason_of:
                reason_of[task.shape] = _reason(state, task.shape, rules)
            reason = reason_of[task.shape]
            if reason is not None:
                yield f"{submission.workflow.name}/{task.name}", reason


def _reason(state: ClusterState, shape: PodShape, rules: RuleTable) -> str | None:
    """Return why no node could take the shape, by what refuses most nodes; None if one could."""
    compiled = CompiledFilters(state, shape, rules=rules)
    if compiled.feasible.any() or compiled.could_ever_fit():
        return None
    counts = compiled.counts()
    name = max(counts, key=lambda one: counts[one])
    row = int(np.flatnonzero(compiled.refused_by == FILTERS.index(name) + 1)[0])
    return f"{compiled.reason(row)}, on {counts[name]:,} of {state.node_count:,} nodes"


def infeasible_in_words(cluster: Cluster, workload: Workload, rules: RuleTable) -> str | None:
    """Return one sentence about all tasks that no node could take; None if there is none."""
    found = list(infeasible_tasks(cluster, workload, rules))
    if not found:
        return None
    examples = "; ".join(f"{key}: {reason}" for key, reason in found[:_SHOWN])
    more = f"; and {len(found) - _SHOWN:,} more" if len(found) > _SHOWN else ""
    subject = "1 task fits" if len(found) == 1 else f"{len(found):,} tasks fit"
    return f"{subject} no node even if it were empty, and the rest runs on ({examples}{more})"
