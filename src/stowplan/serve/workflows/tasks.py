"""A pod as a task: of its workflow's graph, beside it, or of none.

A pod that the graph does not foresee (a clean-up after a failure) is a task beside it: with all that is left
of its workflow, and the way from where it stands to the end.

Pods of no workflow with the same class and shape share one workflow of one task: a cluster has tens of
thousands of them, and policies keep what they work out by workflow.
"""

from __future__ import annotations

from stowplan.core.domain import PendingTask, WorkflowProgress
from stowplan.serve.workflows.entries import PodEntry
from stowplan.serve.workflows.expectations import Expectations, one_task
from stowplan.serve.workflows.tracking import Tracking

__all__ = ["pending_of"]


def pending_of(entry: PodEntry, expectations: Expectations, ready_s: float) -> PendingTask:
    """Return a pod as a pending task; the same one as before as long as nothing of it has changed.

    Args:
        entry: the pod.
        expectations: how long it will take.
        ready_s: since when it waits, monotonic.
    """
    tracking = entry.workflow.tracking if entry.workflow is not None else None
    known = entry.pending
    if (
        known is not None
        and entry.epoch == expectations.epoch
        and known.ready_s == ready_s
        and known.task.shape is entry.pod.shape
    ):
        if entry.task is None and tracking is not None:
            _stand_beside(known.progress, entry, tracking)
        return known
    actual = expectations.task(entry.key, entry.item, entry.shape, entry.pod.shape)
    if tracking is not None and entry.task is not None:
        pending = PendingTask(entry.pod.key, tracking.progress, entry.task, ready_s, actual)
    else:
        if tracking is None:
            progress = expectations.alone(actual)
        else:
            progress = one_task(actual)
            _stand_beside(progress, entry, tracking)
        pending = PendingTask(entry.pod.key, progress, 0, ready_s, actual)
    entry.pending, entry.epoch = pending, expectations.epoch
    return pending


def _stand_beside(progress: WorkflowProgress, entry: PodEntry, tracking: Tracking) -> None:
    own_s = progress.workflow.tasks[0].expected_s
    remaining_s = own_s + tracking.progress.remaining_work_s
    rank_s = own_s + _below_s(entry, tracking)
    if (progress.remaining_work_s, progress.upward_rank_s.item(0)) != (remaining_s, rank_s):
        progress.remaining_work_s = remaining_s
        progress.upward_rank_s[0] = rank_s
        progress.changed()


def _below_s(entry: PodEntry, tracking: Tracking) -> float:
    """Return the longest way from behind a pod to the end of its workflow."""
    if entry.match is None:
        return 0.0
    graph, tasks = tracking.index.graph, tracking.index.view.tasks_by_node
    longest_s = 0.0
    seen: set[int] = set()
    left = list(graph.children[entry.match.node.index])
    while left:
        node = left.pop()
        if node in seen:
            continue
        seen.add(node)
        task = tasks.get(node)
        if task is None:
            left += graph.children[node]
        else:
            longest_s = max(longest_s, float(tracking.progress.upward_rank_s[task]))
    return longest_s
