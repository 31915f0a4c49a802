"""Runs of scenarios under a rule, of which some cycles are kept with what became of their tasks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stowplan.core.encoder import Encoded, Encoder
from stowplan.core.policy import CycleView, Plan, Policy
from stowplan.learn.ablations.observations import Observations
from stowplan.learn.blocked import allowed_s, is_blocked
from stowplan.learn.episodes import ends_s_of, simulation_of
from stowplan.learn.scenarios import Scenario

__all__ = ["Watcher", "observe"]

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class _Seen:
    """One cycle; arrays as in `Observations`, of this cycle alone."""

    time_s: float
    keys: tuple[str, ...]
    bar_s: NDArray[np.float64]
    task_features: Floats
    position: Floats
    cluster_features: Floats
    node_features: Floats


class Watcher:
    """Decides as a rule does; looks at some cycles as the network would see them.

    Attributes:
        seen: the cycles that were looked at.
    """

    def __init__(self, rule: Policy, encoder: Encoder, rng: np.random.Generator, share: float) -> None:
        """Look at the first cycle, and at each other with a chance of `share`."""
        self.seen: list[_Seen] = []
        self._rule = rule
        self._encoder = encoder
        self._rng = rng
        self._share = share

    @property
    def name(self) -> str:
        """Name of the rule."""
        return self._rule.name

    @property
    def reads_nodes(self) -> bool:
        """The network is to see readings, whether or not the rule looks at them."""
        return True

    def plan(self, view: CycleView) -> Plan:
        """Return the rule's plan; nothing of it is changed."""
        if view.pending and (not self.seen or self._rng.random() < self._share):
            self.seen.append(_seen(self._encoder.encode(view), view))
        return self._rule.plan(view)


def _seen(encoded: Encoded, view: CycleView) -> _Seen:
    first = np.array([members[0] for members in encoded.members], dtype=np.intp)
    by_arrival = np.argsort(first)
    arrived: list[int] = first[by_arrival].tolist()
    return _Seen(
        view.now_s,
        tuple(view.pending[index].key for index in arrived),
        allowed_s(encoded.raw_task)[by_arrival],
        encoded.task_features[by_arrival],
        encoded.position[by_arrival],
        encoded.cluster_features,
        encoded.node_features.copy(),
    )


def observe(scenario: Scenario, rule: Policy, encoder: Encoder, kept_cycles: int) -> Observations:
    """Run a scenario under a rule and look at some of its cycles, at most about `kept_cycles`.

    There are fewer cycles than tasks, and each task counts as a cycle when the chance of one to be looked at
    is worked out; the first is always looked at.

    Raises:
        StowplanError: the run failed.
    """
    rng = np.random.default_rng(scenario.seed)
    share = min(1.0, kept_cycles / scenario.workload.task_count)
    watcher = Watcher(rule, encoder, rng, share)
    simulation = simulation_of(scenario, watcher)
    while not simulation.is_over:
        simulation.step()
    ends_s = ends_s_of(simulation)
    book = simulation.book
    seen = watcher.seen
    tasks = [[book.id_of[key] for key in one.keys] for one in seen]
    blocked = [
        is_blocked(ends_s[ids] - one.time_s, simulation.now_s - one.time_s, one.bar_s)
        for one, ids in zip(seen, tasks, strict=True)
    ]
    return Observations(
        groups=np.array([len(one.keys) for one in seen], dtype=np.int64),
        nodes=np.array([len(one.node_features) for one in seen], dtype=np.int64),
        task_features=np.concatenate([one.task_features for one in seen]),
        position=np.concatenate([one.position for one in seen]),
        workflow=np.array([book.workflow_of[task] for ids in tasks for task in ids], dtype=np.int64),
        blocked=np.concatenate(blocked).astype(np.float32),
        cluster_features=np.stack([one.cluster_features for one in seen]),
        node_features=np.concatenate([one.node_features for one in seen]),
    )
