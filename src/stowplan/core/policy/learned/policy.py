"""The learned policy: what a network of a release says, as a plan.

The task side runs once per cycle, the node side only for nodes whose features changed, also within a cycle:
after each placement the node that took the task is computed anew, so that the next task sees it as it is. A
plan depends on the view, and on what readings of the last half minute showed (`memory`); what else is kept
between cycles makes it fast and changes nothing.

It raises, and the engine then falls back to a rule and says so, when the cycle is unlike training
(`familiarity`) or the network answers with what cannot be.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.constraints import CompiledFilters
from stowplan.core.encoder import Encoded, Encoder
from stowplan.core.policy.interface import CycleView
from stowplan.core.policy.learned.decision import Groups, Pointers, joined_keys
from stowplan.core.policy.learned.explaining import parts_of_score
from stowplan.core.policy.learned.familiarity import require_familiar
from stowplan.core.policy.learned.graphs import Graphs
from stowplan.core.policy.learned.keeping import KeptNodes
from stowplan.core.policy.learned.release import Release
from stowplan.errors import InternalError, StowplanError, Unfamiliar

__all__ = ["LearnedPlan", "LearnedPolicy", "WithoutModel"]

NAME: Final = "learned"
_MOST_LOG_SLOWDOWN: Final = math.log(1000.0)
"""A slowdown beyond this is no prediction; a proposal."""


class LearnedPlan:
    """The plan of one cycle, good until the policy makes its next.

    Attributes:
        order: indexes into the pending tasks; those of one group follow one another.
        value: what the network expects of the cycle.
    """

    breaks_ties_randomly = False

    def __init__(
        self, graphs: Graphs, kept: KeptNodes, encoder: Encoder, view: CycleView, encoded: Encoded
    ) -> None:
        """Decide on the tasks of `view`, encoded as `encoded`."""
        self._graphs, self._kept, self._encoder = graphs, kept, encoder
        self._view, self._encoded = view, encoded
        self._pods_before = len(view.state.pods)
        rows, self.value = graphs.group_rows(
            encoded.task_features, encoded.position, encoded.cluster_features, graphs.pooled(kept.rows)
        )
        self.groups = groups = Groups(graphs.sizes, rows)
        self._points = Pointers(groups)
        self._pointers = self._points.of(joined_keys(graphs.sizes, kept.rows), encoded.log_prior())
        self._scores: NDArray[np.float64] = np.full(view.state.capacity, -np.inf)
        self.order: Sequence[int] | NDArray[np.intp] = _ordered(encoded, groups)

    def scores(self, index: int, filters: CompiledFilters) -> NDArray[np.float64]:
        """Return the pointer of every node, −inf for all where it is better to wait; see `Plan.scores`."""
        del filters
        group = self._group(index)
        changed = self._kept.catch_up()
        if changed.size:
            keys = joined_keys(self._graphs.sizes, self._kept.rows[changed])
            self._pointers[:, changed] = self._points.of(keys, self._encoded.log_prior(places=changed))
        waits = self.groups.wait[group] > 0.0 and self._may_wait()
        self._scores[self._encoded.node_rows] = -np.inf if waits else self._pointers[group]
        return self._scores

    def _may_wait(self) -> bool:
        """Tell whether something runs that could end: otherwise a wait would be for ever."""
        return bool(self._view.running) or len(self._view.state.pods) > self._pods_before

    def choose_gpus(self, index: int, row: int) -> tuple[int, ...] | None:
        """Leave the choice to the decoder."""
        del index, row
        return None

    def expected_duration_s(self, index: int, row: int) -> float:
        """Return what is expected of the task × the prior × what was learned beyond it: a median.

        Raises:
            Unfamiliar: the prediction is beyond all reason.
        """
        group, place = self._group(index), self._place(row)
        log_slowdown = self.groups.log_slowdown(group, self._kept.rows[place])
        if abs(log_slowdown) > _MOST_LOG_SLOWDOWN:
            raise Unfamiliar(
                f"the model predicts that {self._view.pending[index].key} takes "
                f"exp({log_slowdown:.3g}) times as long as by physics; a rule should decide"
            )
        expected_s = self._view.pending[index].task.expected_s
        return expected_s * math.exp(self._encoded.log_prior_at(group, place) + log_slowdown)

    def duration_spread(self, index: int, row: int) -> float:
        """Return the standard deviation of the log of the duration; 0.3: about a factor of 1.35 each way."""
        return self.groups.spread(self._group(index), self._kept.rows[self._place(row)])

    def blocking_risk(self, index: int) -> float:
        """Return the probability, 0–1, that the network gives to the task being blocked."""
        return 0.5 + 0.5 * math.tanh(0.5 * float(self.groups.blocking[self._group(index)]))

    def contributions(self, index: int, row: int) -> Mapping[str, float]:
        """Return the parts of the score of `row`, which add up to it; see `explaining`."""
        group, place = self._group(index), self._place(row)
        log_factor = float(self._encoded.log_factor_of_type[group, self._encoded.type_of_node[place]])
        return parts_of_score(
            self._graphs,
            self._encoder.schema.node,
            self.groups,
            group,
            self._encoded.node_features[place],
            {"machine type": log_factor, "neighbours": self._encoded.log_prior_at(group, place) - log_factor},
        )

    def _group(self, index: int) -> int:
        group = int(self._encoded.group_of[index])
        if group < 0:
            raise InternalError(f"task {index} is asked for, but it waits for a later cycle")
        return group

    def _place(self, row: int) -> int:
        rows = self._encoded.node_rows
        place = int(np.searchsorted(rows, row))
        if place == rows.size or rows[place] != row:
            raise InternalError(f"row {row} is asked for, but there is no node")
        return place


def _ordered(encoded: Encoded, groups: Groups) -> NDArray[np.intp]:
    """Return the pending tasks by priority class, then by the network's order; group by group."""
    order = (encoded.order_prior + groups.order).astype(np.float64)
    by_rank: list[int] = np.lexsort((-order, -encoded.priority)).tolist()
    return np.array([index for group in by_rank for index in encoded.members[group]], dtype=np.intp)


class LearnedPolicy:
    """Plans with the network of a release. Keeps the rows of the nodes of one cluster state."""

    reads_nodes = True

    def __init__(self, release: Release) -> None:
        """Serve `release`.

        Raises:
            InvalidFile: its graphs cannot be loaded, or do not fit its manifest.
        """
        manifest = release.manifest
        self.release = release
        self._graphs = Graphs(release)
        self._encoder = Encoder(statistics=manifest.statistics, off=manifest.off)
        self._kept = KeptNodes(self._encoder, self._graphs)

    @property
    def name(self) -> str:
        """Name as users write it."""
        return NAME

    @property
    def memory(self) -> tuple[int, ...]:
        """What is remembered of readings; see `Encoder.memory`."""
        return self._encoder.memory

    def recall(self, memory: Sequence[int]) -> None:
        """Go on from where a policy had this `memory`."""
        self._encoder.recall(memory)

    def plan(self, view: CycleView) -> LearnedPlan:
        """Return the plan of this cycle.

        Raises:
            Unfamiliar: the cycle is unlike what the model was trained on.
            InternalError: the network gives numbers that are not finite.
        """
        encoded = self._encoder.encode(view)
        self._kept.begin(encoded)
        require_familiar(self._encoder.schema, encoded)
        return LearnedPlan(self._graphs, self._kept, self._encoder, view, encoded)


class WithoutModel:
    """Stands where a model should be that cannot be had: every plan raises why, so that a rule decides."""

    reads_nodes = False
    memory: tuple[int, ...] = ()

    def __init__(self, reason: StowplanError) -> None:
        """Raise `reason` whenever a plan is asked for."""
        self._reason = reason

    @property
    def name(self) -> str:
        """Name as users write it."""
        return NAME

    def recall(self, memory: Sequence[int]) -> None:
        """Go on from `memory`, of which there is none."""
        del memory

    def plan(self, view: CycleView) -> LearnedPlan:
        """Raise why there is no model.

        Raises:
            StowplanError: always.
        """
        del view
        raise self._reason
