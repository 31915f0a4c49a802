"""RuleTable as a filter: the operator's rules, asked last, so that a refusal by Kubernetes comes first."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from stowplan.core.constraints.filter import NodeFilter, Rows
from stowplan.core.constraints.rules import Rule
from stowplan.core.domain import ClusterState, PodShape

__all__ = ["RuleFilter"]


class RuleFilter(NodeFilter):
    """A rule of the operator's refuses the node."""

    name: ClassVar[str] = "RuleTable"

    def __init__(self, state: ClusterState, shape: PodShape, rules: tuple[Rule, ...]) -> None:
        """Bind to a state, a shape and the rules about it (at least one)."""
        super().__init__(state, shape)
        self._rules = rules

    def refused(self, rows: Rows) -> NDArray[np.bool_] | None:
        """Refuse nodes that any rule refuses."""
        refused: NDArray[np.bool_] | None = None
        for rule in self._rules:
            one = rule.refused(self._state, rows)
            refused = one if refused is None else refused | one
        return refused

    def reason(self, row: int) -> str:
        """Name the rules."""
        rows = np.array([row], dtype=np.intp)
        refusing = [rule for rule in self._rules if rule.refused(self._state, rows)[0]]
        return "; ".join(
            f"rule {rule.name!r} {'forbids' if rule.is_forbidden else 'does not allow'} this node"
            for rule in refusing
        )
