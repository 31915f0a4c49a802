"""Who may preempt: not a pod that says so itself, and nobody twice for one place.

Source: `PodEligibleToPreemptOthers` in kubernetes
pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go, 1.37.
"""

from __future__ import annotations

from collections.abc import Callable

from stowplan.core.constraints import CompiledFilters
from stowplan.core.domain import ClusterState

__all__ = ["why_not_eligible"]


def why_not_eligible(
    state: ClusterState,
    compiled: CompiledFilters,
    *,
    can_preempt: bool,
    nominated: str,
    is_leaving: Callable[[str], bool],
) -> str:
    """Return why a pod may not preempt others now; empty when it may.

    Args:
        state: the cluster.
        compiled: the filters of the pod, caught up with the state.
        can_preempt: False with `preemptionPolicy: Never`.
        nominated: the node that the pod is nominated for; empty for none.
        is_leaving: tells by key of a pod whether it is being deleted because a scheduler preempted it.
    """
    if not can_preempt:
        return "preemptionPolicy is Never"
    row = state.row(nominated) if nominated else -1
    if row < 0 or not (compiled.feasible[row] or compiled.yielding()[row]):
        return ""  # there is no hope for it there any more: it looks elsewhere
    priority = compiled.shape.priority
    for key, pod in state.pods_on[row].items():
        if pod.shape.priority < priority and is_leaving(key):
            return f"pod {key} is still being ended on node {nominated}, which is nominated"
    return ""
