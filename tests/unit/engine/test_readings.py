"""What is measured of the nodes reaches the policy that decides, and the one that stands in for it."""

import numpy as np
import pytest

from stowplan.core.engine import Engine
from stowplan.core.policy import CycleView, make_policy
from stowplan.core.policy.interface import Plan, reads_nodes
from stowplan.core.semantics import NodeReadings
from stowplan.errors import InvalidInput, StowplanError
from tests.unit.engine.test_limits import cluster, pending


class Seen:
    """A list rule that keeps the readings it was shown; it may fail."""

    name = "seen"
    reads_nodes = True

    def __init__(self, *, fails: bool = False) -> None:
        self.boards: list[NodeReadings | None] = []
        self._inner = make_policy("fifo")
        self._fails = fails

    def plan(self, view: CycleView) -> Plan:
        self.boards.append(view.readings)
        if self._fails:
            raise StowplanError("no plan")
        return self._inner.plan(view)


def test_the_board_is_shown_to_the_policy_and_its_fallback() -> None:
    state = cluster(2)
    board = NodeReadings(state.capacity)
    policy, fallback = Seen(fails=True), Seen()
    engine = Engine(state, policy, rng=np.random.default_rng(1), fallback=fallback)
    report = engine.cycle(0.0, pending(100), readings=board)
    assert report.degraded is not None
    assert policy.boards == fallback.boards == [board]
    engine.cycle(1.0, [])
    assert policy.boards[-1] is None
    ready = Seen()
    (task,) = pending(300)
    Engine(state, ready, rng=np.random.default_rng(1)).predict_s(2.0, task, [0], readings=board)
    assert ready.boards == [board]


def test_a_board_of_another_size_is_refused() -> None:
    state = cluster(2)
    engine = Engine(state, Seen(), rng=np.random.default_rng(1))
    with pytest.raises(InvalidInput, match="has 1 rows"):
        engine.cycle(0.0, pending(100), readings=NodeReadings(1))


def test_who_does_not_say_that_it_reads_does_not() -> None:
    assert reads_nodes(Seen())
    assert not reads_nodes(make_policy("fifo"))
