"""List policies: an order rule says which task is next, a node rule says where it goes.

Nearly every classic rule is such a pair. Both are asked per cycle with the view, so what they decide depends
on the cluster as it is, not on a schedule made beforehand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from stowplan.core.constraints import CompiledFilters
from stowplan.core.policy.interface import CycleView
from stowplan.core.policy.nodes.base import NodeRule

__all__ = ["ListPolicy", "OrderRule"]


class OrderRule(Protocol):
    """Orders the pending tasks of a view."""

    def __call__(self, view: CycleView) -> NDArray[np.intp]:
        """Return indexes into `view.pending`, first to be placed first; each at most once."""
        ...


class _ListPlan:
    """The plan of one cycle."""

    __slots__ = ("_node_rule", "_pending", "breaks_ties_randomly", "order")

    def __init__(self, view: CycleView, order: NDArray[np.intp], node_rule: NodeRule) -> None:
        self._pending = view.pending
        self._node_rule = node_rule
        self.order: list[int] = order.tolist()
        self.breaks_ties_randomly = node_rule.breaks_ties_randomly

    def scores(self, index: int, filters: CompiledFilters) -> NDArray[np.float64]:
        return self._node_rule.scores(self._pending[index], filters)

    def choose_gpus(self, index: int, row: int) -> tuple[int, ...] | None:
        return self._node_rule.choose_gpus(self._pending[index], row)

    def expected_duration_s(self, index: int, row: int) -> float:
        return self._node_rule.expected_duration_s(self._pending[index], row)

    def contributions(self, index: int, row: int) -> Mapping[str, float]:
        return self._node_rule.contributions(self._pending[index], row)


class ListPolicy:
    """A policy made of an order rule and a node rule."""

    def __init__(self, name: str, order: OrderRule, node_rule: NodeRule) -> None:
        """Combine the two; the node rule belongs to this policy alone, because it keeps caches."""
        self._name = name
        self._order = order
        self._node_rule = node_rule

    @property
    def name(self) -> str:
        """Name as users write it."""
        return self._name

    @property
    def memory(self) -> tuple[int, ...] | None:
        """What must be known besides a view to make the same plan; None: more than can be said."""
        return self._node_rule.memory if self._node_rule.forgets else None

    def recall(self, memory: Sequence[int]) -> None:
        """Go on from where a policy of this name had this `memory`."""
        self._node_rule.recall(memory)

    @property
    def reads_nodes(self) -> bool:
        """Whether the node rule looks at readings."""
        return self._node_rule.reads_nodes

    def plan(self, view: CycleView) -> _ListPlan:
        """Return the plan of this cycle."""
        self._node_rule.begin(view)
        return _ListPlan(view, self._order(view), self._node_rule)
