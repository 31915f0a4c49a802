"""The network as a policy that explores: orders and nodes are drawn, and what was drawn is taken down.

* Order: Plackett–Luce, one draw per cycle. Adding independent Gumbel noise to the scores and sorting draws
  from it (Yellott 1977), and the probability of each step is a softmax over the groups not taken yet.
* Node: a softmax over the feasible nodes and waiting, with the nodes as they are at that moment: those that a
  placement of this cycle touched are encoded again.

Temperatures say how far a draw may stray from the best; at 0 nothing is drawn and this is the policy as it
serves. Constraints are not the network's: what the filters refuse has no probability at all.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from stowplan.core.constraints import CompiledFilters
from stowplan.core.encoder import Encoded, Encoder
from stowplan.core.policy import CycleView
from stowplan.core.policy.learned.decision import Groups, joined_keys
from stowplan.learn.network import PolicyNetwork
from stowplan.learn.records import CycleRecord, CycleRecorder, record_of

__all__ = ["NetworkPolicy", "Temperatures", "step_log_probs"]

Floats = NDArray[np.float32]


class Temperatures:
    """How far draws stray: of the order and of the choice of a node; 0 takes the best."""

    __slots__ = ("choice", "order")

    def __init__(self, *, order: float, choice: float) -> None:
        self.order = order
        self.choice = choice


class NetworkPolicy:
    """Places with a network in this process, and keeps some of its cycles.

    Attributes:
        cycles: the records that were kept.
        times_s: of every cycle that had something to decide.
        values: what the network expected at each of them.
        illegal: choices of nodes that the filters refuse; stays 0.
    """

    def __init__(
        self,
        network: PolicyNetwork,
        encoder: Encoder,
        rng: np.random.Generator,
        *,
        temperatures: Temperatures,
        kept_share: float,
    ) -> None:
        """Decide with `network`, whose mode is the caller's; keep a cycle with the chance `kept_share`."""
        self.network = network
        self.encoder = encoder
        self.cycles: list[CycleRecord] = []
        self.times_s: list[float] = []
        self.values: list[float] = []
        self.illegal = 0
        self._rng = rng
        self._temperatures = temperatures
        self._kept_share = kept_share
        self._plan: _Plan | None = None

    @property
    def name(self) -> str:
        """Name for messages."""
        return "network"

    @property
    def reads_nodes(self) -> bool:
        """It looks at readings."""
        return True

    def plan(self, view: CycleView) -> _Plan:
        """Return the plan of this cycle; that of the cycle before is taken down."""
        self.finish()
        encoded = self.encoder.encode(view)
        self.encoder.refresh_nodes()  # what changed before this cycle is in it
        recorder = None
        if self._kept_share > 0.0 and self._rng.random() < self._kept_share:
            recorder = record_of(encoded, view, len(self.times_s))
        with torch.inference_mode():
            nodes = self.network.node_side(torch.from_numpy(encoded.node_features))
            pooled = self.network.pool(nodes[None])
            said = self.network.task_side(
                torch.from_numpy(encoded.task_features)[None],
                torch.from_numpy(encoded.position)[None],
                torch.from_numpy(encoded.cluster_features)[None],
                pooled,
            )
        self.times_s.append(view.now_s)
        self.values.append(float(said.value))
        groups = Groups(self.network.sizes, said.groups[0].numpy())
        plan = _Plan(self, view, encoded, groups, nodes.numpy(), recorder)
        plan.draw_order(self._rng, self._temperatures.order)
        self._plan = plan
        return plan

    def finish(self) -> None:
        """Take down the last cycle, after which no more is asked of its plan."""
        if self._plan is not None:
            record = self._plan.record()
            if record is not None:
                self.cycles.append(record)
        self._plan = None

    def draw(self, logits: NDArray[np.float64]) -> tuple[int, float]:
        """Draw one of `logits` at the temperature of choices; return it and its log probability."""
        temperature = self._temperatures.choice
        if temperature <= 0.0:
            return int(logits.argmax()), 0.0
        scaled = logits / temperature
        choice = int((scaled + self._rng.gumbel(size=scaled.size)).argmax())
        top = scaled.max()
        return choice, float(scaled[choice] - top - np.log(np.exp(scaled - top).sum()))


def step_log_probs(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the log probability of each step of an order under Plackett–Luce, shape (G,).

    Args:
        scores: (G,) of the groups in the order in which they were taken.
    """
    left = np.logaddexp.accumulate(scores[::-1])[::-1]
    return scores - left


class _Plan:
    """The plan of one cycle; its `order` is drawn before it is handed out."""

    breaks_ties_randomly = False

    def __init__(
        self,
        policy: NetworkPolicy,
        view: CycleView,
        encoded: Encoded,
        groups: Groups,
        nodes: Floats,
        recorder: CycleRecorder | None,
    ) -> None:
        self.order: NDArray[np.intp] = np.zeros(0, dtype=np.intp)
        self._policy = policy
        self._view = view
        self._encoded = encoded
        self._groups = groups
        self._nodes = nodes
        self._recorder = recorder
        self._group_order: NDArray[np.intp] = np.zeros(0, dtype=np.intp)
        self._step_log_prob: NDArray[np.float64] | None = None
        self._waits: set[int] = set()
        self._has_placed = False
        self._is_open = np.ones(view.state.capacity, dtype=np.bool_)
        self._is_open[list(view.closed)] = False

    def draw_order(self, rng: np.random.Generator, temperature: float) -> None:
        """Draw the order of the groups; the tasks of one follow each other.

        Priority classes come first in every order; scenarios of training have one.
        """
        scores = (self._encoded.order_prior + self._groups.order).astype(np.float64)
        if temperature > 0.0:
            scores /= temperature
            noisy = scores + rng.gumbel(size=scores.size)
            self._group_order = np.lexsort((-noisy, -self._encoded.priority))
            self._step_log_prob = step_log_probs(scores[self._group_order])
        else:
            self._group_order = np.lexsort((-scores, -self._encoded.priority))
        members, by_rank = self._encoded.members, list(map(int, self._group_order))
        self.order = np.array([index for group in by_rank for index in members[group]], dtype=np.intp)

    def scores(self, index: int, filters: CompiledFilters) -> NDArray[np.float64]:
        """Return 0 for the node that was drawn and −inf for all others; all −inf: wait."""
        found = np.full(self._view.state.capacity, -np.inf)
        group = int(self._encoded.group_of[index])
        if group in self._waits:
            return found
        self._refresh()
        rows = self._encoded.node_rows
        is_feasible = filters.feasible[rows] & self._is_open[rows]
        logits = np.empty(rows.size + 1)
        sizes = self._policy.network.sizes
        pointer = self._groups.queries[group] @ joined_keys(sizes, self._nodes).T
        log_prior = self._encoded.log_prior(slice(group, group + 1))[0]
        pointer -= self._groups.alpha[group] * log_prior
        logits[:-1] = np.where(is_feasible, pointer, -np.inf)
        may_wait = self._has_placed or bool(self._view.running)
        logits[-1] = logits[:-1].max() + float(self._groups.wait[group]) if may_wait else -np.inf
        choice, log_prob = self._policy.draw(logits)
        if self._recorder is not None:
            self._recorder.decide(
                group,
                is_feasible,
                choice,
                may_wait=may_wait,
                log_prob=log_prob,
                key=self._view.pending[index].key,
                log_prior=log_prior,
            )
        if choice == rows.size:
            self._waits.add(group)
            return found
        if not is_feasible[choice]:
            self._policy.illegal += 1
        self._has_placed = True
        found[rows[choice]] = 0.0
        return found

    def _refresh(self) -> None:
        changed = self._policy.encoder.refresh_nodes()
        if changed.size:
            with torch.inference_mode():
                features = torch.from_numpy(self._encoded.node_features[changed])
                self._nodes[changed] = self._policy.network.node_side(features).numpy()
            if self._recorder is not None:
                self._recorder.nodes_changed(changed)

    def choose_gpus(self, index: int, row: int) -> tuple[int, ...] | None:
        """Leave the choice to the decoder."""
        del index, row
        return None

    def expected_duration_s(self, index: int, row: int) -> float:
        """Return what is expected of the task × the prior × what was learned beyond it."""
        group = int(self._encoded.group_of[index])
        node = int(np.searchsorted(self._encoded.node_rows, row))
        log_prior = self._encoded.log_prior_at(group, node)
        log_slowdown = self._groups.log_slowdown(group, self._nodes[node])
        return self._view.pending[index].task.expected_s * float(np.exp(log_prior + log_slowdown))

    def contributions(self, index: int, row: int) -> Mapping[str, float]:
        """Return nothing: rollouts are not explained."""
        del index, row
        return {}

    def record(self) -> CycleRecord | None:
        """Return the record of this cycle, None when it is not kept or nothing was decided."""
        if self._recorder is None:
            return None
        return self._recorder.finish(self._group_order, self._step_log_prob)
