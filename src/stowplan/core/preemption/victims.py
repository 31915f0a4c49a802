"""Which pods of a node must go: all of lower priority first, then as many as possible are reprieved.

First are tried those that a disruption budget should keep, then the others; within both, the most important
first: higher priority, then the longer run. Source: `SelectVictimsOnNode` in kubernetes
pkg/scheduler/framework/plugins/defaultpreemption/default_preemption.go, 1.37.
"""

from __future__ import annotations

import math

from stowplan.core.constraints import CompiledFilters, Verdict
from stowplan.core.domain import BoundPod, ClusterState
from stowplan.core.preemption.budgets import BudgetBook
from stowplan.core.preemption.choice import Candidate, StartTimes

__all__ = ["select_victims"]


def select_victims(
    state: ClusterState,
    compiled: CompiledFilters,
    row: int,
    budgets: BudgetBook,
    started_s: StartTimes,
) -> Candidate | None:
    """Return the fewest pods that must leave the node of `row` so that the pod fits; None: that is no help.

    Args:
        state: the cluster.
        compiled: the filters of the pod that needs room, caught up with the state.
        row: the node.
        budgets: all disruption budgets.
        started_s: when pods started.
    """
    priority = compiled.shape.priority
    potential = [pod for pod in state.pods_on[row].values() if pod.shape.priority < priority]
    if not potential:
        return None
    trial = compiled.trial(row)
    for pod in potential:
        trial.remove(pod)
    if trial.verdict() is not Verdict.ACCEPTS:
        return None

    ranks = {pod.key: _rank(pod, started_s(pod.key), place) for place, pod in enumerate(potential)}

    def importance(pod: BoundPod) -> tuple[int, float, int]:
        return ranks[pod.key]

    violating, others = budgets.split(sorted(potential, key=importance))
    victims: list[BoundPod] = []
    violations = 0
    for place, pod in enumerate((*violating, *others)):
        trial.restore(pod)
        if trial.verdict() is not Verdict.ACCEPTS:
            trial.remove(pod)
            victims.append(pod)
            violations += place < len(violating)
    if not victims:  # the pod fits beside all of them: there was nothing to preempt for
        return None
    victims.sort(key=importance)
    return Candidate(state.node(row).name, tuple(victims), violations)


def _rank(pod: BoundPod, started_s: float, place: int) -> tuple[int, float, int]:
    """Return the importance of a pod, the most important first.

    kube-scheduler takes pods that have not started for ones that start when it looks at them, one after the
    other: so they have an order among them, and others that started at the same time have none.
    """
    return -pod.shape.priority, started_s, place if math.isinf(started_s) else 0
