"""Rules as teachers: a rule decides, and what the network would have seen is taken down beside it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from stowplan.core.constraints import CompiledFilters
from stowplan.core.encoder import Encoded, Encoder
from stowplan.core.policy import CycleView, Plan, Policy
from stowplan.learn.records import CycleRecord, CycleRecorder, record_of
from stowplan.learn.survey import Survey

__all__ = ["Teacher"]


class Teacher:
    """A rule whose decisions are kept, each cycle with a chance.

    Attributes:
        cycles: the records that were kept.
        times_s: of every cycle.
        values: 0 for every cycle: a rule expects nothing.
        illegal: 0: a rule says nothing of nodes that the filters refuse.
    """

    def __init__(
        self,
        rule: Policy,
        encoder: Encoder,
        rng: np.random.Generator,
        *,
        kept_share: float,
        survey: Survey | None = None,
    ) -> None:
        """Decide as `rule` does; of cycles that are not kept only readings are looked at.

        `survey` sees those that are kept.
        """
        self.cycles: list[CycleRecord] = []
        self.times_s: list[float] = []
        self.values: list[float] = []
        self.illegal = 0
        self._rule = rule
        self._encoder = encoder
        self._rng = rng
        self._kept_share = kept_share
        self._survey = survey
        self._plan: _Watched | None = None

    @property
    def name(self) -> str:
        """Name of the rule."""
        return self._rule.name

    @property
    def reads_nodes(self) -> bool:
        """The network is to see readings, whether or not the rule looks at them."""
        return True

    def plan(self, view: CycleView) -> Plan:
        """Return the rule's plan, watched when the cycle is kept."""
        self.finish()
        plan = self._rule.plan(view)
        number = len(self.times_s)
        self.times_s.append(view.now_s)
        self.values.append(0.0)
        if self._kept_share <= 0.0 or self._rng.random() >= self._kept_share:
            self._encoder.observe(view)
            return plan
        encoded = self._encoder.encode(view)
        self._encoder.refresh_nodes()  # what changed before this cycle is in it
        if self._survey is not None:
            self._survey.add(encoded)
        self._plan = _Watched(plan, view, encoded, self._encoder, record_of(encoded, view, number))
        return self._plan

    def finish(self) -> None:
        """Take down the last cycle, after which no more is asked of its plan."""
        if self._plan is not None:
            record = self._plan.record()
            if record is not None:
                self.cycles.append(record)
        self._plan = None


class _Watched:
    """A rule's plan that notes what it was asked and what came of it."""

    def __init__(
        self, plan: Plan, view: CycleView, encoded: Encoded, encoder: Encoder, recorder: CycleRecorder
    ) -> None:
        self.order = plan.order
        self.breaks_ties_randomly = plan.breaks_ties_randomly
        self._plan = plan
        self._view = view
        self._encoded = encoded
        self._encoder = encoder
        self._recorder = recorder
        self._is_feasible: NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        self._has_placed = False
        self._is_open = np.ones(view.state.capacity, dtype=np.bool_)
        self._is_open[list(view.closed)] = False

    def scores(self, index: int, filters: CompiledFilters) -> NDArray[np.float64]:
        """Return the rule's scores."""
        self._recorder.nodes_changed(self._encoder.refresh_nodes())
        rows = self._encoded.node_rows
        self._is_feasible = filters.feasible[rows] & self._is_open[rows]
        scores = self._plan.scores(index, filters)
        is_waiting = not (scores[rows][self._is_feasible] > -np.inf).any()
        if is_waiting:
            self._note(index, rows.size)
        return scores

    def expected_duration_s(self, index: int, row: int) -> float:
        """Note the placement: the decoder asks this of the node that it has chosen."""
        self._note(index, int(np.searchsorted(self._encoded.node_rows, row)))
        self._has_placed = True
        return self._plan.expected_duration_s(index, row)

    def _note(self, index: int, choice: int) -> None:
        group = int(self._encoded.group_of[index])
        if group >= 0:
            self._recorder.decide(
                group,
                self._is_feasible,
                choice,
                may_wait=self._has_placed or bool(self._view.running),
                log_prob=0.0,
                key=self._view.pending[index].key,
                log_prior=self._encoded.log_prior(slice(group, group + 1))[0],
            )

    def choose_gpus(self, index: int, row: int) -> tuple[int, ...] | None:
        """Return the rule's choice."""
        return self._plan.choose_gpus(index, row)

    def contributions(self, index: int, row: int) -> Mapping[str, float]:
        """Return the rule's parts."""
        return self._plan.contributions(index, row)

    def record(self) -> CycleRecord | None:
        """Return the record; the rule's order of tasks becomes the order in which groups first occur."""
        of_task = self._encoded.group_of[np.asarray(self.order, dtype=np.intp)]
        groups, first = np.unique(of_task[of_task >= 0], return_index=True)
        order = groups[np.argsort(first, kind="stable")]
        rest = np.setdiff1d(np.arange(len(self._encoded.members)), order)
        return self._recorder.finish(np.concatenate([order, rest]).astype(np.intp), None)
