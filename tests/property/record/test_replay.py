"""Whatever happened before: a recorded cycle comes out the same again where only the record is known."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stowplan.core.domain import ClusterState, validate_state
from stowplan.core.domain.state import ARRAYS
from stowplan.core.policy import make_policy, policy_names
from stowplan.core.policy.interface import Replayable, reads_nodes
from stowplan.core.record import Chain, RecordedCycle, replay
from stowplan.core.record.values import pack, to_plain, to_value, unpack
from stowplan.errors import InvalidFile
from tests.record_cases import Drive

REPLAYABLE = sorted(
    name
    for name in policy_names()
    if name != "learned"  # its options are no plain data: tests/unit/registry replays it
    and isinstance(made := make_policy(name), Replayable)
    and made.memory is not None
)


def assert_equal_states(one: ClusterState, other: ClusterState) -> None:
    """Compare all that a reader can see, with the order in which it can be seen.

    Columns are compared by name: a pod that is only looked at brings one for a resource that nobody has.
    """
    for name in ("allocatable", "requested"):
        amounts, others = getattr(one, name), getattr(other, name)
        for resource in {**one.columns, **other.columns}:
            seen = [
                a[:, s.columns[resource]]
                for a, s in ((amounts, one), (others, other))
                if resource in s.columns
            ]
            assert not any(column.any() for column in seen[:1]) or len(seen) == 2
            assert np.array_equal(seen[0], seen[-1]), (name, resource)
    for name in ARRAYS[2:]:
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
        assert getattr(one, name).dtype == getattr(other, name).dtype
    for name in ("capacity", "taint_sets", "gpu_models", "images", "nodes", "namespaces"):
        assert getattr(one, name) == getattr(other, name), name
    assert list(one.rows()) == list(other.rows())
    assert list(one.free_rows) == list(other.free_rows)
    assert list(one.pods.items()) == list(other.pods.items())
    assert [list(pods) for pods in one.pods_on] == [list(pods) for pods in other.pods_on]
    assert list(one.labels) == list(other.labels)
    for key, column in one.labels.items():
        assert column.values == other.labels[key].values
        assert column.value_ids.tolist() == other.labels[key].value_ids.tolist()
    assert one.nominations.on == other.nominations.on
    assert [list(pods) for pods in one.nominations.on.values()] == [
        list(pods) for pods in other.nominations.on.values()
    ]
    for name in one.storage.__slots__:
        assert list(getattr(one.storage, name).items()) == list(getattr(other.storage, name).items()), name
    validate_state(other)


@pytest.mark.parametrize("policy", REPLAYABLE)
@settings(max_examples=5)
@given(seed=st.integers(0, 2**20))
@example(seed=38)  # the largest node goes, and shares of it are other ones
@example(seed=321)  # what waits asks for a resource that no node has, and look-ahead meets it half-way
def test_every_recorded_cycle_comes_out_the_same_again(policy: str, seed: int) -> None:
    for written in Drive(seed, policy, measures=reads_nodes(make_policy(policy))).run(12):
        replayed = replay(written.frames, version="1")
        assert [placed for _, placed in replayed.report.placed] == [p for _, p in written.report.placed]
        assert [wait for _, wait in replayed.report.waiting] == [w for _, w in written.report.waiting]
        assert replayed.report.degraded == written.report.degraded


READERS = [("srpt-measured", {}), ("look-ahead", {"policy": "srpt-measured"})]


@pytest.mark.parametrize(("policy", "options"), READERS)
@settings(max_examples=10)
@given(seed=st.integers(0, 2**20))
def test_what_was_measured_is_in_the_record_bit_for_bit(
    policy: str, options: dict[str, object], seed: int
) -> None:
    for written in Drive(seed, policy, options, measures=True).run(12):
        replayed = replay(written.frames, version="1")
        assert [placed for _, placed in replayed.report.placed] == [p for _, p in written.report.placed]
        found, board = _added(written.frames).readings, written.board
        assert (found is None) == (board is None)
        if found is not None and board is not None:
            assert found.quantities == board.quantities
            assert found.values.tobytes() == board.values.tobytes()
            assert found.measured_s.tobytes() == board.measured_s.tobytes()
            assert np.array_equal(found.age_s, board.age_s, equal_nan=True)


def test_who_decides_by_readings_would_decide_otherwise_without_them() -> None:
    """So the tests above can fail: readings move placements, and the drive has stale and cleared rows."""
    differ = 0
    stale = 0
    for seed in (3, 4, 6, 10, 17, 25):  # of forty; what is there only for seconds moves nothing
        pairs = zip(
            Drive(seed, "srpt-measured", measures=True).run(30),
            Drive(seed, "srpt-measured").run(30),
            strict=True,
        )
        for measured, blind in pairs:
            placed, other = ([p.node_name for _, p in each.report.placed] for each in (measured, blind))
            differ += placed != other
            if measured.board is not None:
                board = measured.board
                stale += int((np.isnan(board.values) & ~np.isnan(board.measured_s)).sum())
            if placed != other:
                break  # from here on the two are different stories
    assert differ > 3
    assert stale > 50


def test_a_frame_without_readings_is_what_it_was_before_there_were_any() -> None:
    for written in Drive(1, "srpt").run(6):
        assert "readings" not in unpack(written.frames[-1])["cycle"]


def test_readings_that_go_on_from_none_are_refused() -> None:
    first, second = (written.frames for written in Drive(5, "srpt", measures=True).run(2))
    frame = unpack(second[1])
    assert "readings" in frame["cycle"]
    assert "quantities" not in frame["cycle"]["readings"]
    without = unpack(first[0])
    del without["cycle"]["readings"]
    with pytest.raises(InvalidFile, match="its chain does not hold"):
        _added([pack(without), second[1]])
    frame["cycle"]["readings"]["values"] = b"1234567"
    with pytest.raises(InvalidFile, match="damaged"):
        _added([first[0], pack(frame)])


def _added(frames: list[bytes]) -> RecordedCycle:
    chain = Chain()
    return [chain.add(frame) for frame in frames][-1]


def test_the_drive_has_everything_in_it() -> None:
    written = [each for seed in range(10) for each in Drive(seed, "srpt").run(12)]
    assert sum(len(each.report.placed) for each in written) > 100
    assert sum(len(each.report.waiting) for each in written) > 50
    assert sum(len(each.report.deferred) for each in written) > 10
    assert sum(len(placed.storage) for each in written for _, placed in each.report.placed) > 3
    assert sum(bool(placed.gpus) for each in written for _, placed in each.report.placed) > 3
    assert any(each.before.nominations.on for each in written)
    events = {type(event).__name__ for each in written for event in each.capture.events}
    assert len(events) > 6


@settings(max_examples=15)
@given(seed=st.integers(0, 2**20))
def test_what_is_read_is_what_was_there(seed: int) -> None:
    chain = Chain()
    for written in Drive(seed, "fifo", every=1000).run(15):
        recorded = chain.add(written.frames[-1])
        assert_equal_states(written.before, recorded.state)
        for now, then in zip(recorded.pending, written.capture.pending, strict=True):
            assert (now.key, now.index, now.ready_s, now.task) == (
                then.key,
                then.index,
                then.ready_s,
                then.task,
            )
            assert now.progress.workflow == then.progress.workflow
        for kept in written.capture.progress:
            same = {
                id(each.progress): each.progress
                for each in [*recorded.pending, *(r.pending for r in recorded.running.values())]
                if each.progress.key == kept.progress.key
            }
            if not same:  # it has changed, but nothing of it is pending or running
                continue
            (now,) = same.values()
            assert now.status.tobytes() == kept.status
            assert now.unfinished_parents.tobytes() == kept.unfinished_parents
            assert now.upward_rank_s.tobytes() == kept.upward_rank_s
            assert (now.remaining_work_s, now.open_tasks) == (kept.remaining_work_s, kept.open_tasks)
        then_running = {task.pending.key: task for task in written.capture.running}
        assert list(recorded.running) == list(then_running)
        for key, task in recorded.running.items():
            was = then_running[key]
            assert (task.row, task.started_s, task.expected_end_s) == (
                was.row,
                was.started_s,
                was.expected_end_s,
            )


@settings(max_examples=15)
@given(seed=st.integers(0, 2**20))
def test_the_same_cycles_give_the_same_bytes(seed: int) -> None:
    one = [written.frames[-1] for written in Drive(seed, "srpt").run(6)]
    other = [written.frames[-1] for written in Drive(seed, "srpt").run(6)]
    assert one == other


@settings(max_examples=15)
@given(seed=st.integers(0, 2**20))
def test_values_come_back_as_they_were(seed: int) -> None:
    drive = Drive(seed, "fifo")
    list(drive.run(3))
    for _, row in drive.state.rows():
        node = drive.state.node(row)
        assert to_value(unpack(pack(to_plain(node))), type(node)) == node
    for pod, _ in drive.state.pods.values():
        again = to_value(unpack(pack(to_plain(pod.shape))), type(pod.shape))
        assert again == pod.shape
        assert hash(again) == hash(pod.shape)
