"""What is kept of a run to learn from: some of its cycles, with the decisions of each and what came of them.

A run has thousands of decisions and a cycle of it up to hundreds of groups, so cycles are kept at random. A
kept cycle is self-contained: rows of nodes are copied when they first occur, and each decision names the rows
as they were when it was made. Everything is NumPy, small to send between processes, and free of any network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from stowplan.core.encoder import Encoded
from stowplan.core.policy import CycleView
from stowplan.learn.blocked import allowed_s

__all__ = ["CycleRecord", "CycleRecorder", "Decision", "RunRecord", "record_of"]

Floats = NDArray[np.float32]


@dataclass(slots=True)
class Decision:
    """One answer to "where": a node, or to wait.

    Attributes:
        group: of the cycle.
        rows: int32 (N,); rows of `CycleRecord.node_features` as the nodes were.
        is_feasible: bool (N,).
        may_wait: whether waiting was allowed.
        choice: position of the node, N to wait.
        log_prob: of the choice under the policy that made it; 0 of a rule's.
        key: of the task.
        log_prior: float32 (N,); of the group on the nodes as they were, see `Encoded.log_prior`.
        log_slowdown: log of the real duration over what the prior said; NaN: not known.
    """

    group: int
    rows: NDArray[np.int32]
    is_feasible: NDArray[np.bool_]
    may_wait: bool
    choice: int
    log_prob: float
    key: str
    log_prior: Floats
    log_slowdown: float = float("nan")


@dataclass(slots=True)
class CycleRecord:
    """One cycle of G groups and N nodes.

    Attributes:
        number: of the cycle in its run.
        time_s: when.
        task_features, position, order_prior, cluster_features: as in `Encoded`.
        node_features: float32 (R, FN), the first N as the cycle began, then what changed in it.
        keys: of each group the first task, (G,).
        expected_s: float64 (G,); what its tasks are expected to take on the reference machine.
        order: intp; the groups in the order in which they were taken, all G of them.
        ordered: how many of `order` mattered: up to the last that was placed or told to wait.
        order_log_prob: float64 (ordered,); of each step under the policy that made it; 0 of a rule's.
        decisions: in order.
        bar_s: float64 (G,); seconds from now after which the first task of each group is blocked.
        blocked: float64 (G,); 1 or 0 as `is_blocked` says, NaN: not known.
        advantage, reward_to_go: filled in after the run.
    """

    number: int
    time_s: float
    task_features: Floats
    position: Floats
    order_prior: Floats
    cluster_features: Floats
    node_features: Floats
    keys: Sequence[str]
    expected_s: NDArray[np.float64]
    order: NDArray[np.intp]
    ordered: int
    order_log_prob: NDArray[np.float64]
    decisions: list[Decision]
    bar_s: NDArray[np.float64]
    blocked: NDArray[np.float64]
    advantage: float = 0.0
    reward_to_go: float = 0.0

    @property
    def nodes(self) -> int:
        """N: each decision names them all."""
        return len(self.decisions[0].rows)


@dataclass(slots=True)
class RunRecord:
    """What a run of a scenario gives to learn from, C cycles in all.

    Attributes:
        scenario: number of the scenario.
        times_s: float64 (C,); of all cycles that had something to decide, ascending.
        rewards: float64 (C,); until the next cycle, the last until the end, per workflow, in units of the
            scenario's time scale.
        lengths: float64 (C,); the same of time.
        values: float64 (C,); what the policy expected, 0 of rules.
        cycles: those that were kept.
        is_cut_off: whether the run was ended by its horizon.
        end_value: what the policy expected at its last cycle; what is left of a run that was cut off.
        completion_s: mean completion of its workflows, those that did not end count up to the end of the run.
        tail_s: 95th percentile of the same.
        tasks: attempts that were placed.
        illegal: choices that the constraints refused; must be 0.
    """

    scenario: int
    times_s: NDArray[np.float64]
    rewards: NDArray[np.float64]
    lengths: NDArray[np.float64]
    values: NDArray[np.float64]
    cycles: list[CycleRecord]
    is_cut_off: bool
    end_value: float
    completion_s: float
    tail_s: float
    tasks: int
    illegal: int = 0


@dataclass(slots=True)
class CycleRecorder:
    """Takes down one cycle as it is decided; `finish` makes the record."""

    number: int
    time_s: float
    encoded: Encoded
    keys: Sequence[str]
    expected_s: NDArray[np.float64]
    _rows: list[Floats] = field(default_factory=list[Floats])
    _now: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, dtype=np.int32))
    _decisions: list[Decision] = field(default_factory=list[Decision])

    def __post_init__(self) -> None:
        """Copy the nodes as they are."""
        self._rows = [self.encoded.node_features.copy()]
        self._now = np.arange(len(self.encoded.node_rows), dtype=np.int32)

    def nodes_changed(self, positions: NDArray[np.intp]) -> None:
        """Copy the nodes at `positions`, which changed since the last decision."""
        if positions.size:
            count = sum(map(len, self._rows))
            self._rows.append(self.encoded.node_features[positions])
            self._now = self._now.copy()
            self._now[positions] = count + np.arange(positions.size, dtype=np.int32)

    def decide(  # noqa: PLR0913  (what a decision has, but for the rows of its nodes)
        self,
        group: int,
        is_feasible: NDArray[np.bool_],
        choice: int,
        *,
        may_wait: bool,
        log_prob: float,
        key: str,
        log_prior: Floats,
    ) -> None:
        """Take down a decision on the nodes as they are now; see `Decision`."""
        self._decisions.append(
            Decision(group, self._now, is_feasible, may_wait, choice, log_prob, key, log_prior)
        )

    def finish(
        self, order: NDArray[np.intp], step_log_prob: NDArray[np.float64] | None
    ) -> CycleRecord | None:
        """Return the record; None when nothing was decided.

        Args:
            order: (G,) groups in the order in which they were taken.
            step_log_prob: (G,) log probability of each step, None of a rule.
        """
        if not self._decisions:
            return None
        encoded = self.encoded
        decided = {decision.group for decision in self._decisions}
        ordered = 1 + max(place for place, group in enumerate(order.tolist()) if group in decided)
        steps = np.zeros(ordered) if step_log_prob is None else step_log_prob[:ordered].astype(np.float64)
        return CycleRecord(
            number=self.number,
            time_s=self.time_s,
            task_features=encoded.task_features,
            position=encoded.position,
            order_prior=encoded.order_prior,
            cluster_features=encoded.cluster_features,
            node_features=np.concatenate(self._rows),
            keys=self.keys,
            expected_s=self.expected_s,
            order=order,
            ordered=ordered,
            order_log_prob=steps,
            decisions=self._decisions,
            bar_s=allowed_s(encoded.raw_task),
            blocked=np.full(len(self.keys), np.nan),
        )


def record_of(encoded: Encoded, view: CycleView, number: int) -> CycleRecorder:
    """Begin the record of a cycle."""
    first = [members[0] for members in encoded.members]
    return CycleRecorder(
        number,
        view.now_s,
        encoded,
        [view.pending[index].key for index in first],
        np.array([view.pending[index].task.expected_s for index in first], dtype=np.float64),
    )
