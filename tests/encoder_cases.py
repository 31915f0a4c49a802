"""A scheduler in small whose every cycle is encoded, and what two encodings must have in common."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from stowplan.core.domain import ClusterState, NodeSet, PodBound
from stowplan.core.encoder import Encoded, Encoder
from stowplan.core.policy import CycleView, Plan, Policy
from stowplan.core.semantics import CATALOGUE, NODE_QUANTITIES, NodeReadings
from tests.record_cases import Drive

ENCODED = (
    "task_features",
    "position",
    "order_prior",
    "cluster_features",
    "asked_per_s",
    "exposed",
    "quota",
    "node_features",
    "load",
    "capacity",
    "busy",
    "log_factor_of_type",
)
"""Arrays for networks, and of what physics says; all finite."""
ARRAYS = (
    *ENCODED,
    "priority",
    "type_of_node",
    "node_rows",
    "group_of",
    "raw_task",
    "raw_node",
    "raw_cluster",
)


def as_bytes(encoded: Encoded) -> dict[str, bytes]:
    return {name: np.ascontiguousarray(getattr(encoded, name)).tobytes() for name in ARRAYS}


def assert_finite(encoded: Encoded) -> None:
    for name in ENCODED:
        assert np.isfinite(getattr(encoded, name)).all(), name
    assert np.isfinite(encoded.log_factor()).all()
    assert np.isfinite(encoded.log_prior()).all()


def some_readings(rng: np.random.Generator, capacity: int, *, wild: bool = False) -> NodeReadings:
    """A board on which some is unknown and, if `wild`, some is no number that was ever measured."""
    low = np.array([CATALOGUE[name].score_low for name in NODE_QUANTITIES])
    high = np.array([CATALOGUE[name].score_high for name in NODE_QUANTITIES])
    values = rng.uniform(low, high, (capacity, len(NODE_QUANTITIES)))
    values[rng.random(values.shape) < 0.3] = math.nan
    if wild:
        odd = rng.random(values.shape) < 0.3
        values[odd] = rng.choice([math.inf, -math.inf, 1e300, -1e300, 0.0], odd.sum())
    board = NodeReadings(capacity)
    board.put_rows(np.arange(capacity), values, np.zeros(values.shape))
    return board


def change_some(rng: np.random.Generator, board: NodeReadings) -> None:
    """Measure some rows again."""
    other = some_readings(rng, len(board))
    rows = np.flatnonzero(rng.random(len(board)) < 0.4)
    board.put_rows(rows, other.values[rows], other.measured_s[rows])


class Watched:
    """A policy of which every view is encoded before it plans; readings change between the views."""

    def __init__(self, policy: Policy, encoder: Encoder, rng: np.random.Generator | None = None) -> None:
        self.policy = policy
        self.encoder = encoder
        self.seen: list[tuple[CycleView, Encoded]] = []
        self.as_it_was: list[dict[str, bytes]] = []  # before anything was placed
        self._rng = rng
        self._board: NodeReadings | None = None

    @property
    def name(self) -> str:
        return self.policy.name

    def plan(self, view: CycleView) -> Plan:
        if self._rng is not None:
            view = replace(view, readings=self._read(view.state.capacity, self._rng))
        encoded = self.encoder.encode(view)
        self.seen.append((view, encoded))
        self.as_it_was.append(as_bytes(encoded))
        return self.policy.plan(view)

    def _read(self, capacity: int, rng: np.random.Generator) -> NodeReadings | None:
        if rng.random() < 0.1:
            self._board = None  # nobody measures any more
        elif self._board is None or rng.random() < 0.1:
            self._board = some_readings(rng, capacity, wild=True)
        else:
            self._board.grow(capacity)
            change_some(rng, self._board)
        return self._board


def watch(drive: Drive, encoder: Encoder, rng: np.random.Generator | None = None) -> Watched:
    """Encode all that the engine of `drive` decides on."""
    policy = drive.engine.policy = Watched(drive.engine.policy, encoder, rng)
    return policy


def permuted(view: CycleView, order: Sequence[int]) -> CycleView:
    """Return the same cycle with the nodes in other rows: those of `order`, one after the other."""
    old, new = view.state, ClusterState()
    for row in order:
        new.apply(NodeSet(old.node(row)))
    for pod, row in old.pods.values():
        new.apply(PodBound(pod, old.node(row).name))
    readings = view.readings
    if readings is not None:
        moved = NodeReadings(new.capacity)
        rows = list(order)
        moved.put_rows(np.arange(len(rows)), readings.values[rows], readings.measured_s[rows])
        readings = moved
    return CycleView(new, view.now_s, view.pending, view.rng, view.running, readings=readings)
