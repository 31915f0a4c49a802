"""As `predicted`, with what was measured of the nodes: hidden load, disks that are not what they were.

The hidden load (`hidden_load`) takes part in contention as one more task; the law of that is `predicted`'s.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stowplan.core.physics.laws import PhysicsLaws
from stowplan.core.physics.vocabulary import RESOURCE_COUNT
from stowplan.core.policy.demand import TaskDemand
from stowplan.core.policy.hidden_load import DISK_RESOURCES, HiddenLoads
from stowplan.core.policy.interface import CycleView
from stowplan.core.policy.nodes.predicted import PredictedDuration
from stowplan.core.semantics.knee import BandwidthLaw

__all__ = ["MeasuredDuration"]


class MeasuredDuration(PredictedDuration):
    """Scores nodes by minus the predicted duration in seconds, beside what readings show."""

    reads_nodes = True

    def __init__(
        self, *, laws: PhysicsLaws | None = None, solved_nodes: int = 8, law: BandwidthLaw | None = None
    ) -> None:
        """Predict as `PredictedDuration`; `law` says which share of its bandwidth memory achieves.

        Raises:
            InvalidInput: `solved_nodes` is negative.
        """
        super().__init__(laws=laws, solved_nodes=solved_nodes)
        self._law = law
        self._hidden = HiddenLoads(law=law)
        self._nominal: NDArray[np.float64] = np.zeros((0, RESOURCE_COUNT))

    @property
    def memory(self) -> tuple[int, ...]:
        """The turn, then what is remembered of rows that were measured."""
        return (*super().memory, *self._hidden.memory)

    def recall(self, memory: Sequence[int]) -> None:
        """Go on from where a rule had this `memory`."""
        super().recall(memory[:1])
        self._hidden.recall(memory[1:])
        self._epoch = -1

    def begin(self, view: CycleView) -> None:
        """Start a cycle: learn from readings that are new."""
        if self.has_other_state_before(view):
            self._hidden = HiddenLoads(law=self._law)
        super().begin(view)
        self._stale.update(self._hidden.learn(view, self._demand_of_task))

    def _capacities(self) -> NDArray[np.float64]:
        self._nominal = super()._capacities()
        return self._nominal.copy()

    def _tasks_of(self, row: int) -> list[TaskDemand]:
        share = float(self._hidden.disk_share(np.array([row]))[0])
        self._capacity[row, DISK_RESOURCES] = self._nominal[row, DISK_RESOURCES] * share
        tasks = super()._tasks_of(row)
        hidden = self._hidden.task_on(row)
        return tasks if hidden is None else [*tasks, hidden]
