"""Which node is emptied: the one where that does the least harm.

Fewest broken budgets; then the lowest priority of the most important victim; then the smallest sum of
priorities; then the fewest victims; then the node whose most important victims have run for the shortest
time; then the first. Priorities are shifted by 2³¹ before they are added, so that a few victims of negative
priority are not worse than many of them. Source: `pickOneNodeForPreemption` in
kubernetes pkg/scheduler/framework/preemption/preemption.go, 1.37.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from stowplan.core.domain import BoundPod

__all__ = ["Candidate", "StartTimes", "best_candidate", "preference"]

StartTimes = Callable[[str], float]
"""Tells by a pod's key when it started, in seconds since any moment; ∞ when it has not started yet."""

_SHIFT: Final = 1 << 31


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that can take the pod once its victims are gone.

    Attributes:
        node_name: the node.
        victims: the pods to end, at least one; the most important first: by priority, then the longest run.
        violations: how many of them a disruption budget should have kept.
    """

    node_name: str
    victims: tuple[BoundPod, ...]
    violations: int = 0


def preference(candidate: Candidate, started_s: StartTimes) -> tuple[float, ...]:
    """Return what candidates are compared by; the smallest is the best."""
    first = candidate.victims[0]  # of those with the highest priority the one that has run for longest
    priorities = [pod.shape.priority for pod in candidate.victims]
    return (
        candidate.violations,
        first.shape.priority,
        sum(priorities) + _SHIFT * len(priorities),
        len(priorities),
        -started_s(first.key),
    )


def best_candidate(candidates: Iterable[Candidate], started_s: StartTimes) -> Candidate | None:
    """Return the best candidate, the first of equal ones; None when there is none."""
    return min(candidates, key=lambda one: preference(one, started_s), default=None)
