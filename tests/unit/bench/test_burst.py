"""The burst: what must wait whatever is done, what waited, and what is drawn."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.burst import scenario
from bench.burst.bounds import Arrived, least_waiting
from bench.burst_backlog import Waits, arrived, lower_percent
from bench.harness import Estimate


def pods(*of: tuple[float, float, float], standing: int = 0) -> Arrived:
    """Make pods of (created, run, GPUs); the first `standing` may not wait."""
    created_s, run_s, gpus = np.array(of).T
    return Arrived(created_s, run_s, gpus, np.arange(len(of)) >= standing)


def test_what_the_gpus_do_not_add_up_to_must_wait_and_the_largest_are_fewest() -> None:
    # Two GPUs. From 1 s to 4 s five are asked for: without the 2 of one pod and 1 of another the rest fits.
    # From 4 s on, 3 are asked for: one of two GPUs must wait, until the end at 9 s or its own at 10 s.
    few = pods((0.0, 4.0, 1.0), (0.0, 4.0, 1.0), (1.0, 9.0, 2.0), (1.0, 20.0, 1.0))
    least = least_waiting(few, 2.0, 9.0)
    assert (least.peak, least.total_s) == (2, 2 * 3.0 + 1 * 5.0)


def test_what_stands_there_does_not_wait() -> None:
    both = [(0.0, 10.0, 2.0), (0.0, 10.0, 1.0), (0.0, 10.0, 1.0)]
    assert least_waiting(pods(*both), 2.0, 10.0).peak == 1
    assert least_waiting(pods(*both, standing=1), 2.0, 10.0).peak == 2


def test_nothing_need_wait_where_there_is_room() -> None:
    least = least_waiting(pods((0.0, 5.0, 1.0), (5.0, 5.0, 1.0)), 1.0, 20.0)
    assert (least.peak, least.total_s) == (0, 0.0)


@given(
    st.lists(
        st.tuples(st.integers(0, 20), st.integers(1, 20), st.sampled_from([0.0, 0.5, 1.0, 2.0])),
        min_size=1,
        max_size=12,
    ),
    st.permutations(range(12)),
)
def test_no_list_schedule_on_one_large_node_comes_below(
    of: list[tuple[int, int, float]], ranks: list[int]
) -> None:
    capacity, end_s = 2.0, 1000.0
    some = pods(*[(float(created), float(run), gpus) for created, run, gpus in of])
    left = sorted(range(len(of)), key=lambda pod: ranks[pod])
    ends: dict[int, float] = {}
    waits: dict[int, float] = {}
    now_s = 0.0
    while left:
        for pod in list(left):
            created, run, gpus = of[pod]
            used = sum(of[other][2] for other, end in ends.items() if end > now_s)
            if created <= now_s and used + gpus <= capacity:
                ends[pod], waits[pod] = now_s + run, now_s - created
                left.remove(pod)
        now_s += 1.0  # times are whole seconds
    until_s = some.created_s + np.array([waits[pod] for pod in range(len(of))])
    had = Waits(some.created_s, until_s, 0)
    least = least_waiting(some, capacity, end_s)
    assert least.peak <= had.backlog_peak
    assert least.total_s <= had.delays_s.sum()


def test_the_backlog_counts_who_waits_at_once() -> None:
    # [0, 4), [1, 3), [3, 5): two at once, never three; the fourth did not wait at all.
    had = Waits(np.array([0.0, 1.0, 3.0, 3.0]), np.array([4.0, 3.0, 5.0, 3.0]), 0)
    assert had.backlog_peak == 2
    assert had.delay_mean_s == pytest.approx((4.0 + 2.0 + 2.0) / 4)


def test_lower_is_told_by_pairs() -> None:
    assert lower_percent([1.0, 5.0], [4.0, 10.0]) == Estimate(62.5, 50.0, 75.0, 2)
    with pytest.raises(ValueError, match="nothing can be lower"):
        lower_percent([1.0], [0.0])


@pytest.mark.usefixtures("shared_data")
def test_a_seed_draws_the_same_again_and_another_seed_something_else() -> None:
    first, again, other = (scenario.workload(seed) for seed in (3, 3, 4))
    assert first.submissions == again.submissions
    assert first.submissions != other.submissions


@pytest.mark.usefixtures("shared_data")
def test_the_burst_is_seventeen_times_the_rate() -> None:
    begin_s, end_s = scenario.WARM_UP_S, scenario.WARM_UP_S + scenario.BURST_S
    inside = outside = 0
    for seed in range(8):
        of = scenario.workload(seed)
        came_s = np.array(of.recorded_s)[[one.workflow.family == scenario.ARRIVING for one in of.submissions]]
        assert came_s.max() < scenario.END_S
        in_burst = int(((came_s >= begin_s) & (came_s < end_s)).sum())
        inside, outside = inside + in_burst, outside + came_s.size - in_burst
    rate = scenario.rate_per_s()
    expected_inside = 8 * scenario.FACTOR * rate * scenario.BURST_S
    expected_outside = 8 * rate * (scenario.END_S - scenario.BURST_S)
    assert abs(inside - expected_inside) < 4.0 * expected_inside**0.5
    assert abs(outside - expected_outside) < 4.0 * expected_outside**0.5


@pytest.mark.usefixtures("shared_data")
def test_as_much_is_asked_for_at_the_end_of_the_burst_as_there_is_room() -> None:
    shares: list[float] = []
    for seed in range(8):
        came = arrived(scenario.workload(seed))
        end_s = scenario.WARM_UP_S + scenario.BURST_S
        is_here = (came.created_s <= end_s) & (came.created_s + came.run_s > end_s)
        shares.append(float(came.gpus[is_here].sum()) / scenario.gpu_count())
    assert np.mean(shares) == pytest.approx(scenario.PEAK, abs=0.06)


@pytest.mark.usefixtures("shared_data")
def test_what_stands_comes_first_by_size_and_run_times_are_not_told() -> None:
    of = [one.workflow for one in scenario.workload(0).submissions]
    standing = [one.tasks[0] for one in of if one.family == scenario.STANDING]
    sizes = [scenario.gpus_of(task.shape) for task in standing]
    assert all(before >= after for before, after in pairwise(sizes))
    arriving = [one.tasks[0] for one in of if one.family == scenario.ARRIVING]
    assert np.mean([task.expected_s == task.work.alone_s for task in arriving]) < 0.05
    assert {task.expected_s for task in arriving if task.shape == arriving[0].shape} == {
        arriving[0].expected_s
    }
