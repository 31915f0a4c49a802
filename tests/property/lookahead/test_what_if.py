"""After a what-if nothing has happened; look-ahead is never worse than its policy by its own foresight."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stowplan.core.constraints import CompiledFilters
from stowplan.core.domain import ClusterState, validate_state
from stowplan.core.domain.state import ARRAYS
from stowplan.core.engine import Engine
from stowplan.core.lookahead import Counted, LookAhead
from stowplan.core.lookahead.what_if import decoded
from stowplan.core.policy import CycleView, make_policy
from stowplan.core.record import replay
from tests.record_cases import RULES, Drive

SEEDS = st.integers(0, 2**20)


def content(state: ClusterState) -> Iterator[object]:
    """All that a reader can see, with its order."""
    for name in ARRAYS:
        yield name, getattr(state, name).tobytes()
    yield list(state.pods.items())
    yield [list(pods.items()) for pods in state.pods_on]
    yield [(name, list(pods.items())) for name, pods in state.nominations.on.items()]
    for name in state.storage.__slots__:
        yield name, list(getattr(state.storage, name).items())
    for name in state.index.__slots__:
        yield name, [(key, list(rows.items())) for key, rows in getattr(state.index, name).items()]
    yield list(state.namespaces.items())


@settings(max_examples=20)
@given(seed=SEEDS, policy=st.sampled_from(["kube-scheduler", "srpt-physics", "round-robin", "tetris"]))
@example(seed=556, policy="kube-scheduler")  # a gang that one of two promises is made to is given up
def test_after_a_what_if_nothing_has_happened(seed: int, policy: str) -> None:
    drive = Drive(seed, "fifo")
    list(drive.run(6))
    drive.happen()
    heard: list[object] = []
    drive.state.tap = heard.append
    view = CycleView(
        drive.state, drive.now_s, drive.pending, drive.rng, drive.running, drive.engine.filters_of, None, ()
    )
    shapes = list({task.task.shape: None for task in drive.pending})
    for shape in shapes:
        drive.engine.filters_of(shape)  # compiled before; must be right afterwards
    # A new resource that a plan looks at gets a column; that is no change of what is there.
    before = list(content(drive.state.copy()))
    made = make_policy(policy)
    for _ in range(2):
        with decoded(view, made.plan(view), policy) as result:
            assert result.error is None
            for task, outcome in result.placed:
                assert drive.state.pods[task.key][1] == outcome.row
        assert list(content(drive.state)) == before
    validate_state(drive.state)
    assert heard == []
    for shape in shapes:
        kept, fresh = drive.engine.filters_of(shape), CompiledFilters(drive.state, shape, rules=RULES)
        assert kept.feasible.tolist() == fresh.feasible.tolist()
    scores = made.plan(view)
    anew = make_policy(policy).plan(view)
    if policy != "round-robin":  # whose turn has gone on
        for index in range(len(drive.pending)):
            filters = drive.engine.filters_of(drive.pending[index].task.shape)
            feasible = filters.feasible
            kept = np.array(scores.scores(index, filters))[feasible]
            assert kept.tolist() == np.array(anew.scores(index, filters))[feasible].tolist()


def look_ahead(plans: int = 9, margin: float = 0.0) -> LookAhead:
    return LookAhead(
        make_policy("srpt-physics"),
        [make_policy(name) for name in ("round-robin", "kube-scheduler", "random")],
        budget=lambda: Counted(plans),
        margin=margin,
    )


@settings(max_examples=15)
@given(seed=SEEDS, margin=st.sampled_from([0.0, 0.02, 0.2]))
def test_look_ahead_takes_the_best_and_never_a_worse_one(seed: int, margin: float) -> None:
    drive = Drive(seed, "fifo")
    ahead = look_ahead(margin=margin)
    drive.made = ahead
    drive.engine = Engine(drive.state, ahead, rng=drive.rng)
    for _ in drive.run(8):
        examined = ahead.examined
        if not examined.plans:
            continue
        assert not examined.failed
        assert next(iter(examined.foreseen_s)) == "srpt-physics"
        own_s, best_s = examined.foreseen_s["srpt-physics"], min(examined.foreseen_s.values())
        if best_s < own_s * (1.0 - margin):
            assert examined.foreseen_s[examined.chosen] == best_s
        else:
            assert examined.chosen == "srpt-physics"


@settings(max_examples=8)
@given(seed=SEEDS, plans=st.integers(0, 4))
def test_the_chosen_plan_comes_out_as_its_policy_alone_would_have_it(seed: int, plans: int) -> None:
    """The other policies' trials leave no trace: neither in the state, nor in chance, nor in turns."""
    for number in range(4):
        names = ["srpt-physics", "round-robin", "kube-scheduler", "random"]
        drive, alone = Drive(seed, "fifo"), Drive(seed, "fifo")
        list(drive.run(3 + number))
        list(alone.run(3 + number))
        drive.happen()
        alone.happen()
        ahead = look_ahead(plans)
        turns = ahead.memory
        report = Engine(drive.state, ahead, rng=drive.rng, explains=True).cycle(
            drive.now_s, drive.pending, drive.running
        )
        assert ahead.examined.plans == (min(plans, len(names)) if drive.pending else 0)
        same = Engine(alone.state, make_policy(ahead.examined.chosen), rng=alone.rng, explains=True).cycle(
            alone.now_s, alone.pending, alone.running
        )
        of_policy = [(t.key, p.node_name, p.gpus, p.storage) for t, p in same.placed]
        assert [(t.key, p.node_name, p.gpus, p.storage) for t, p in report.placed] == of_policy
        assert drive.rng.bit_generator.state == alone.rng.bit_generator.state
        if ahead.examined.chosen != "round-robin":
            assert ahead.memory == turns


@settings(max_examples=6)
@given(seed=SEEDS)
def test_cycles_with_look_ahead_replay(seed: int) -> None:
    drive = Drive(seed, "look-ahead")
    for written in drive.run(8):
        replayed = replay(written.frames, version="1")
        assert [placed for _, placed in replayed.report.placed] == [p for _, p in written.report.placed]


@pytest.mark.parametrize("plans", [0, 1, 2])
def test_with_the_same_number_of_plans_it_decides_the_same(plans: int) -> None:
    for seed in range(3):
        stories: list[list[object]] = []
        for _ in range(2):
            drive = Drive(seed, "fifo")
            drive.made = ahead = look_ahead(plans)
            drive.engine = Engine(drive.state, ahead, rng=drive.rng)
            stories.append([[p for _, p in written.report.placed] for written in drive.run(8)])
        assert stories[0] == stories[1]
