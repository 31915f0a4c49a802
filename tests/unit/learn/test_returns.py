"""Rewards, returns and advantages by hand, and by the laws that they must obey whatever the numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose

from stowplan.learn.returns import Stays, advantages, costs, group_baselines, returns

FLOATS = st.floats(-10.0, 10.0, width=32)


def stays(*spans: tuple[float, float]) -> Stays:
    return Stays(np.array([begin for begin, _ in spans]), np.array([end for _, end in spans]))


def test_a_workflow_costs_the_time_that_it_is_there() -> None:
    found = costs(stays((2.0, 10.0)), np.array([0.0, 4.0, 12.0]), tail_weight=0.0, scale_s=1.0)
    assert_allclose(found, [2.0, 6.0])


def test_two_workflows_count_twice_while_both_are_there() -> None:
    times_s = np.array([0.0, 1.0, 3.0, 5.0])
    found = costs(stays((0.0, 3.0), (1.0, 5.0)), times_s, tail_weight=0.0, scale_s=1.0)
    assert_allclose(found, [1.0, 4.0, 2.0])


def test_age_weighs_as_its_integral() -> None:
    # ∫ 1 + 0.5 t dt over 0…4 and 4…10
    found = costs(stays((0.0, 10.0)), np.array([0.0, 4.0, 10.0]), tail_weight=0.5, scale_s=1.0)
    assert_allclose(found, [4.0 + 4.0, 6.0 + 21.0])


def test_the_scale_is_the_unit_of_length_and_of_age() -> None:
    slow = costs(stays((0.0, 20.0)), np.array([0.0, 8.0, 20.0]), tail_weight=0.5, scale_s=2.0)
    fast = costs(stays((0.0, 10.0)), np.array([0.0, 4.0, 10.0]), tail_weight=0.5, scale_s=1.0)
    assert_allclose(slow, fast)


def test_a_workflow_that_failed_costs_to_the_end() -> None:
    found = costs(stays((0.0, np.inf)), np.array([0.0, 3.0, 7.0]), tail_weight=0.0, scale_s=1.0)
    assert_allclose(found, [3.0, 4.0])


def test_many_cycles_at_one_instant_cost_nothing_more() -> None:
    once = costs(stays((0.0, 9.0)), np.array([0.0, 9.0]), tail_weight=0.3, scale_s=1.0)
    often = costs(stays((0.0, 9.0)), np.array([0.0, 5.0, 5.0, 5.0, 9.0]), tail_weight=0.3, scale_s=1.0)
    assert often[1] == often[2] == 0.0
    assert_allclose(often.sum(), once.sum())


@given(
    st.lists(st.tuples(st.floats(0.0, 50.0), st.floats(0.0, 50.0)), min_size=1, max_size=6),
    st.lists(st.floats(0.0, 100.0), max_size=8),
    st.floats(0.0, 2.0),
)
def test_the_whole_cost_follows_from_completion_times(
    spans: list[tuple[float, float]], cuts: list[float], weight: float
) -> None:
    lengths = np.array([length for _, length in spans])
    there = stays(*((begin, begin + length) for begin, length in spans))
    times_s = np.array([0.0, *sorted(cuts), 100.0])
    found = costs(there, times_s, tail_weight=weight, scale_s=4.0)
    assert_allclose(found.sum(), (lengths / 4 + weight * lengths**2 / 32).sum(), rtol=1e-9, atol=1e-9)


def test_returns_add_up_what_follows() -> None:
    rewards = np.array([-1.0, -2.0, -3.0])
    assert_allclose(returns(rewards, np.ones(3), beta=0.0), [-6.0, -5.0, -3.0])


def test_returns_are_discounted_by_time_not_by_decision() -> None:
    # Two decisions at one instant: the second is not worth less.
    rewards, lengths = np.array([0.0, -1.0, -1.0]), np.array([0.0, np.log(2.0), 1.0])
    assert_allclose(returns(rewards, lengths, beta=1.0), [-1.5, -1.5, -1.0])


def test_a_run_that_is_cut_off_goes_on_from_what_is_expected() -> None:
    rewards, lengths = np.array([-1.0, -1.0]), np.ones(2)
    assert_allclose(returns(rewards, lengths, beta=0.0, bootstrap=-5.0), [-7.0, -6.0])
    worth = advantages(rewards, lengths, np.array([-7.0, -6.0]), beta=0.0, decay=0.95, bootstrap=-5.0)
    assert_allclose(worth, 0.0, atol=1e-12)  # all was as expected, the end included


def test_advantages_of_constant_rewards_are_a_geometric_series() -> None:
    # Without values, δ = r at every decision: A = r Σ (γλ)^k with γ = exp(−β Δt).
    beta, decay, length = 0.1, 0.9, 2.0
    found = advantages(np.ones(5), np.full(5, length), np.zeros(5), beta=beta, decay=decay)
    rate = np.exp(-beta * length) * decay
    assert_allclose(found, [(1 - rate ** (5 - k)) / (1 - rate) for k in range(5)])


def test_advantages_without_decay_are_one_surprise() -> None:
    rewards, values = np.array([-1.0, -2.0]), np.array([-4.0, -2.5])
    found = advantages(rewards, np.ones(2), values, beta=0.0, decay=0.0)
    assert_allclose(found, [-1.0 - 2.5 + 4.0, -2.0 + 2.5])


@given(arrays(np.float64, 6, elements=FLOATS), arrays(np.float64, 6, elements=FLOATS), FLOATS)
def test_with_full_decay_values_only_move_the_level(
    rewards: np.ndarray, values: np.ndarray, end: float
) -> None:
    lengths = np.linspace(0.0, 1.0, 6)
    worth = advantages(rewards, lengths, values, beta=0.3, decay=1.0, bootstrap=end)
    assert_allclose(worth, returns(rewards, lengths, beta=0.3, bootstrap=end) - values, atol=1e-9)


def test_a_group_is_compared_at_equal_times() -> None:
    one, other = np.array([0.0, 4.0]), np.array([0.0, 2.0, 6.0])
    found = group_baselines([one, other], [np.array([-10.0, -2.0]), np.array([-8.0, -6.0, -2.0])])
    assert_allclose(found[0], [-8.0, -4.0])  # at 4 s the other is half-way from −6 to −2
    assert_allclose(found[1], [-10.0, -6.0, 0.0])  # after the first one's last decision nothing is left


def test_of_three_the_two_others_are_averaged() -> None:
    times_s = [np.zeros(1)] * 3
    found = group_baselines(times_s, [np.array([-1.0]), np.array([-2.0]), np.array([-6.0])])
    assert_allclose(np.concatenate(found), [-4.0, -3.5, -1.5])


@pytest.mark.parametrize("count", [1, 2])
def test_equal_runs_are_worth_nothing(count: int) -> None:
    times_s = [np.array([0.0, 1.0, 2.0])] * (count + 1)
    found = [np.array([-3.0, -2.0, -1.0])] * (count + 1)
    for baseline in group_baselines(times_s, found):
        assert_allclose(baseline, found[0])
