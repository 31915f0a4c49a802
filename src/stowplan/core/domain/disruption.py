"""How many pods of a kind may be disrupted at once: what a PodDisruptionBudget says at one moment.

Preemption may break a budget, but looks for victims that break none first. It reads budgets by
kube-scheduler's rules (`framework/preemption/util.go`, FilterVictimsWithPDBViolation, 1.37), not by those of
the eviction API: an empty selector, which selects every pod there, selects none here, and a pod without
labels belongs to no budget.
"""

from __future__ import annotations

from dataclasses import dataclass

from stowplan.core.domain.pod import PodShape
from stowplan.core.domain.selectors import LabelSelector

__all__ = ["DisruptionBudget"]


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """One PodDisruptionBudget.

    Attributes:
        namespace, name: as the API has them.
        selector: the pods it is about, of its own namespace; None for none.
        disruptions_allowed: how many of them may be disrupted now (`status.disruptionsAllowed`).
        disrupted_pods: names of pods whose eviction the API server has counted already, while they are not
            gone yet (`status.disruptedPods`).
    """

    namespace: str
    name: str
    selector: LabelSelector | None
    disruptions_allowed: int = 0
    disrupted_pods: frozenset[str] = frozenset()

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    def covers(self, shape: PodShape) -> bool:
        """Tell whether preemption must reckon with the budget when it disrupts a pod of that shape."""
        selector = self.selector
        if selector is None or not selector.requirements or not shape.labels:
            return False
        return self.namespace == shape.namespace and selector.matches(dict(shape.labels))
