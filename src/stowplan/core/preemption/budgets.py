"""Which pods of a node the disruption budgets would keep, if one after the other were ended.

Source: `FilterVictimsWithPDBViolation` in kubernetes pkg/scheduler/framework/preemption/util.go, 1.37.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stowplan.core.domain import BoundPod, DisruptionBudget, PodShape

__all__ = ["BudgetBook"]


class BudgetBook:
    """All budgets, in the order in which they are asked; which of them cover a shape is found out once."""

    __slots__ = ("_budgets", "_covering")

    def __init__(self, budgets: Sequence[DisruptionBudget]) -> None:
        """Hold `budgets` as they are at one moment."""
        self._budgets = budgets
        self._covering: dict[PodShape, tuple[int, ...]] = {}

    def split(self, pods: Iterable[BoundPod]) -> tuple[list[BoundPod], list[BoundPod]]:
        """Return the pods whose disruption, one after the other, some budget does not allow, and the others.

        A pod that a budget already counts as disrupted does not count again. Budgets after the first that
        does not allow a pod do not count it.
        """
        allowed: dict[int, int] = {}
        violating: list[BoundPod] = []
        others: list[BoundPod] = []
        for pod in pods:
            (others if self._allows(pod, allowed) else violating).append(pod)
        return violating, others

    def _allows(self, pod: BoundPod, allowed: dict[int, int]) -> bool:
        """Tell whether every budget allows one more pod, and count it in `allowed`, what is left of each."""
        for number in self._covering_budgets(pod.shape):
            budget = self._budgets[number]
            if pod.key.partition("/")[2] in budget.disrupted_pods:
                continue
            left = allowed.get(number, budget.disruptions_allowed) - 1
            allowed[number] = left
            if left < 0:
                return False
        return True

    def _covering_budgets(self, shape: PodShape) -> tuple[int, ...]:
        numbers = self._covering.get(shape)
        if numbers is None:
            numbers = tuple(number for number, budget in enumerate(self._budgets) if budget.covers(shape))
            self._covering[shape] = numbers
        return numbers
