"""Pod disruption budgets out of API objects (policy/v1)."""

from __future__ import annotations

from stowplan.core.domain import DisruptionBudget
from stowplan.kube.manifest.cursor import Cursor
from stowplan.kube.manifest.selectors import label_selector

__all__ = ["read_budget"]


def read_budget(namespace: str, name: str, cursor: Cursor) -> DisruptionBudget:
    """Return a budget; one without a status, which no controller has looked at yet, allows no disruption."""
    status = cursor["status"]
    return DisruptionBudget(
        namespace=namespace,
        name=name,
        selector=label_selector(cursor["spec"]["selector"]),
        disruptions_allowed=status["disruptionsAllowed"].integer(),
        disrupted_pods=frozenset(pod for pod, _ in status["disruptedPods"].entries()),
    )
