"""What is encoded follows from the view and what is remembered of readings, is finite, and knows no order."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.core.domain import PendingTask, RunningTask
from stowplan.core.encoder import Encoder, FeatureGroup, demands, groups, occupants, workflows
from stowplan.core.policy import CycleView
from stowplan.core.policy.running import differing
from stowplan.core.record import Chain
from tests.encoder_cases import ARRAYS, as_bytes, assert_finite, permuted, watch
from tests.record_cases import Drive, some_workflow

SEEDS = st.integers(0, 2**20)
OFF = st.sets(st.sampled_from(FeatureGroup))


def recalled(encoder: Encoder, other: Encoder) -> Encoder:
    """Return `encoder` as one that saw the readings that `other` did."""
    encoder.recall(other.memory)
    return encoder


@settings(max_examples=20)
@given(seed=SEEDS, off=OFF, most_groups=st.integers(1, 12))
def test_caches_change_nothing(seed: int, off: set[FeatureGroup], most_groups: int) -> None:
    encoder = Encoder(off=off, most_groups=most_groups)
    drive = Drive(seed, "srpt")
    watched = watch(drive, encoder, np.random.default_rng(seed))
    for _ in drive.run(12):
        view, encoded = watched.seen[-1]
        encoder.refresh_nodes()
        anew = recalled(Encoder(off=off, most_groups=most_groups), encoder).encode(
            view
        )  # with what was placed
        assert as_bytes(anew)["raw_node"] == encoded.raw_node.tobytes()
        for name in ("node_features", "load", "capacity", "busy"):
            assert as_bytes(anew)[name] == getattr(encoded, name).tobytes()
        assert as_bytes(encoder.encode(view)) == as_bytes(anew)
        assert_finite(anew)


def test_caches_that_overflow_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    forgotten = 0
    forget = occupants.Occupants._forget

    def noted(self: occupants.Occupants) -> None:
        nonlocal forgotten
        forgotten += 1
        forget(self)

    monkeypatch.setattr(occupants.Occupants, "_forget", noted)
    for module in (demands, groups, occupants, workflows):
        monkeypatch.setattr(module, "_MOST", 1)
    for seed in range(5):
        encoder = Encoder()
        drive = Drive(seed, "srpt")
        watched = watch(drive, encoder, np.random.default_rng(seed))
        for _ in drive.run(25):
            view, _ = watched.seen[-1]
            assert as_bytes(encoder.encode(view)) == as_bytes(recalled(Encoder(), encoder).encode(view))
    assert forgotten >= 5


@settings(max_examples=10)
@given(seed=SEEDS)
def test_the_nodes_that_changed_are_told(seed: int) -> None:
    encoder = Encoder()
    drive = Drive(seed, "srpt")
    watched = watch(drive, encoder, np.random.default_rng(seed))
    before, epoch = np.zeros((0, 0), np.float32), -1
    for _ in drive.run(12):
        _, encoded = watched.seen[-1]
        changed = encoder.refresh_nodes()
        now = encoded.node_features
        if encoded.node_epoch == epoch:
            assert set(np.flatnonzero((now != before).any(axis=1))) <= set(changed.tolist())
        else:
            assert changed.tolist() == list(range(len(now)))
        assert changed.tolist() == sorted(set(changed.tolist()))
        before, epoch = now.copy(), encoded.node_epoch
    assert encoder.refresh_nodes().size == 0


@settings(max_examples=15)
@given(seed=SEEDS)
def test_a_recorded_view_is_encoded_as_the_live_one(seed: int) -> None:
    drive = Drive(seed, "srpt", measures=True)
    watched = watch(drive, Encoder())
    replayed = Encoder()
    chain, length = Chain(), 0
    for written in drive.run(14):
        if len(written.frames) <= length:
            chain, replayed = Chain(), Encoder()
        recorded = chain.add(written.frames[-1])
        length = len(written.frames)
        view = CycleView(
            recorded.state,
            recorded.now_s,
            recorded.pending,
            recorded.generator(),
            recorded.running,
            readings=recorded.readings,
        )
        live = watched.as_it_was[-1]
        assert as_bytes(recalled(replayed, watched.encoder).encode(view)) == live
        assert as_bytes(recalled(Encoder(), watched.encoder).encode(view)) == live


@settings(max_examples=20)
@given(seed=SEEDS, data=st.data())
def test_other_rows_of_nodes_are_other_rows_and_nothing_else(seed: int, data: st.DataObject) -> None:
    drive = Drive(seed, "srpt")
    watched = watch(drive, Encoder(), np.random.default_rng(seed))
    for _ in drive.run(6):
        pass
    view, _ = watched.seen[-1]
    one = Encoder().encode(view)
    order = data.draw(st.permutations(one.node_rows.tolist()))
    other = Encoder().encode(permuted(view, order))
    places = np.searchsorted(one.node_rows, order)
    of_nodes = {"node_features", "raw_node", "type_of_node", "load", "capacity", "busy"}
    for name in sorted(of_nodes):
        assert getattr(one, name)[places].tobytes() == getattr(other, name).tobytes(), name
    assert one.log_factor()[:, places].tobytes() == other.log_factor().tobytes()
    assert one.log_prior(places=places).tobytes() == other.log_prior().tobytes()
    same = set(ARRAYS) - of_nodes - {"node_rows", "log_factor"}
    assert {name: as_bytes(one)[name] for name in same} == {name: as_bytes(other)[name] for name in same}


@given(data=st.data())
def test_all_running_tasks_that_came_or_went_are_found(data: st.DataObject) -> None:
    rng = np.random.default_rng(0)
    progress = some_workflow(rng, "w")
    times = map(float, itertools.count())  # so that no two are equal

    def made(number: int) -> RunningTask:
        return RunningTask(PendingTask(f"p{number}", progress, 0, 0.0), 0, next(times), 1.0)

    numbers = st.lists(st.integers(0, 300), unique=True, max_size=200)
    before = [made(number) for number in data.draw(numbers)]
    kept = [task for task in before if data.draw(st.booleans())]
    keys = {task.pending.key for task in kept}
    new = [made(number) for number in data.draw(numbers) if f"p{number}" not in keys]
    now = data.draw(st.sampled_from([kept + new, new + kept, list(reversed(kept)) + new]))
    found = differing(before, now, {task.pending.key: task for task in now})
    gone_or_new = {id(task) for task in before} ^ {id(task) for task in now}
    assert gone_or_new <= {id(task) for task in found}
    if now == kept + new:
        assert len(found) == len(gone_or_new)
