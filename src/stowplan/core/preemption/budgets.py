"""Which pods of a node the disruption budgets would keep, if one after the other were ended.

Source: `FilterVictimsWithPDBViolation` in kubernetes pkg/scheduler/framework/preemption/util.go, 1.37.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.constraints import MovingPods
from stowplan.core.domain import DisruptionBudget, PodShape
from stowplan.core.preemption.turns import turns

__all__ = ["BudgetBook"]

_NO_BUDGET: Final = -1


class BudgetBook:
    """All budgets, in the order in which they are asked; which of them cover a shape is found out once."""

    __slots__ = ("_budgets", "_covering", "_of_namespace")

    def __init__(self, budgets: Sequence[DisruptionBudget]) -> None:
        """Hold `budgets` as they are at one moment."""
        self._budgets = budgets
        self._of_namespace: dict[str, list[int]] = {}
        for number, budget in enumerate(budgets):
            self._of_namespace.setdefault(budget.namespace, []).append(number)
        self._covering: dict[PodShape, tuple[int, ...]] = {}

    def broken(self, pods: MovingPods, numbers: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Tell which disruptions some budget does not allow, if the pods of a node went one after the other.

        A pod that a budget already counts as disrupted does not count again. Budgets after the first that
        does not allow a pod do not count it. What goes on one node does not count on another.

        Args:
            pods: among them those that go.
            numbers: theirs, those of a node together and in order, shape (n,).

        Returns: shape (n,).
        """
        is_broken = np.zeros(len(numbers), dtype=np.bool_)
        covering = [self._covering_budgets(shape) for shape in pods.shapes]
        used = sorted({number for several in covering for number in several})
        if not used:
            return is_broken
        asked = _as_table(covering, used)[pods.shape_numbers[numbers]]
        is_counted = self._is_counted(pods, numbers, asked, used)
        places = pods.places[numbers]
        allowed = [self._budgets[number].disruptions_allowed for number in used]
        left = np.tile(np.array(allowed, dtype=np.int64), (int(places.max(initial=0)) + 1, 1))
        for positions in turns(places):
            for order in range(asked.shape[1]):
                positions = positions[asked[positions, order] != _NO_BUDGET]  # noqa: PLW2901 - those left
                here = places[positions], asked[positions, order]
                left[here] -= is_counted[positions, order]
                is_over = is_counted[positions, order] & (left[here] < 0)
                is_broken[positions[is_over]] = True
                positions = positions[~is_over]  # noqa: PLW2901
        return is_broken

    def _is_counted(
        self, pods: MovingPods, numbers: NDArray[np.intp], asked: NDArray[np.intp], used: Sequence[int]
    ) -> NDArray[np.bool_]:
        """Tell which pods are new to which of the budgets that are asked, in the shape of `asked`."""
        is_counted = np.ones(asked.shape, dtype=np.bool_)
        for column, number in enumerate(used):
            disrupted = self._budgets[number].disrupted_pods
            if disrupted:
                positions, orders = np.nonzero(asked == column)
                names = [pod.key.partition("/")[2] for pod in pods.some(numbers[positions])]
                is_counted[positions, orders] = [name not in disrupted for name in names]
        return is_counted

    def _covering_budgets(self, shape: PodShape) -> tuple[int, ...]:
        numbers = self._covering.get(shape)
        if numbers is None:
            near = self._of_namespace.get(shape.namespace, ())
            numbers = tuple(number for number in near if self._budgets[number].covers(shape))
            self._covering[shape] = numbers
        return numbers


def _as_table(covering: Sequence[Sequence[int]], used: Sequence[int]) -> NDArray[np.intp]:
    """Return by shape the budgets that cover it, as places in `used`, shape (shapes, most of one shape)."""
    column_of = {number: column for column, number in enumerate(used)}
    table = np.full((len(covering), max(map(len, covering))), _NO_BUDGET, dtype=np.intp)
    for row, several in zip(table, covering, strict=True):
        row[: len(several)] = [column_of[number] for number in several]
    return table
