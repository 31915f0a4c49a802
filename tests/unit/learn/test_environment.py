"""The Gymnasium environment: the library's own check, and an episode against the simulator."""

from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from numpy.testing import assert_allclose

from stowplan.errors import InvalidInput
from stowplan.learn.environment import ClusterEnvironment
from stowplan.learn.episodes import Reward
from stowplan.learn.rollouts import Setup


@pytest.fixture
def environment(setup: Setup) -> ClusterEnvironment:
    return ClusterEnvironment(
        ranges=setup.ranges, reward=Reward(tail_weight=0.0), most_groups=24, most_nodes=8, difficulty=0.5
    )


def play(environment: ClusterEnvironment, number: int, seed: int) -> tuple[float, dict[str, Any], int]:
    """Play random actions to the end; return the sum of rewards, the last info and the steps."""
    environment.action_space.seed(seed)
    _, first = environment.reset(seed=seed, options={"number": number})
    total, steps = 0.0, 0
    while True:
        observation, reward, is_done, is_cut_off, info = environment.step(environment.action_space.sample())
        total += reward
        steps += 1
        assert reward <= 0.0
        if is_done or is_cut_off:
            assert not is_cut_off
            assert observation in environment.observation_space
            return total, {**info, "first_s": first["now_s"]}, steps


def test_the_library_finds_nothing_wrong(environment: ClusterEnvironment) -> None:
    check_env(environment, skip_render_check=True)


def test_rewards_of_an_episode_are_its_completion_times(environment: ClusterEnvironment) -> None:
    total, info, steps = play(environment, 1, seed=0)
    simulation, scale_s = environment._simulation, environment._scale_s
    assert simulation is not None
    assert simulation.is_complete
    submitted_s = [s.time_s for s in simulation.workload.submissions]
    before_s = sum(max(info["first_s"] - time_s, 0.0) for time_s in submitted_s)
    count = len(submitted_s)
    assert_allclose(before_s / count - total * scale_s, info["completion_s"], rtol=1e-6)
    assert steps > 10


def test_episodes_repeat(environment: ClusterEnvironment) -> None:
    assert play(environment, 3, seed=5) == play(environment, 3, seed=5)
    assert play(environment, 3, seed=5)[0] != play(environment, 4, seed=5)[0]


def test_a_cycle_is_observed_as_it_is(environment: ClusterEnvironment) -> None:
    observation, info = environment.reset(seed=1, options={"number": 2})
    simulation = environment._simulation
    assert simulation is not None
    nodes = len(simulation.cluster)
    assert observation["is_group"].sum() >= 1
    assert info["number"] == 2
    interval_s = simulation.options.scheduling_interval_s
    assert 0.0 <= info["now_s"] - simulation.workload.submissions[0].time_s <= interval_s
    # The cluster is empty: every group fits every node that is large enough, and no node beyond.
    assert observation["is_feasible"][0, :nodes].any()
    assert not observation["is_feasible"][:, nodes:].any()
    assert not observation["node_features"][nodes:].any()


def test_what_the_action_likes_best_is_done(environment: ClusterEnvironment) -> None:
    observation, _ = environment.reset(seed=1, options={"number": 2})
    simulation = environment._simulation
    assert simulation is not None
    feasible = np.flatnonzero(observation["is_feasible"][0])
    liked = np.full((24, 8), -0.5, dtype=np.float32)
    liked[:, feasible[-1]] = 1.0
    action = {"order": np.zeros(24, np.float32), "node": liked, "wait": np.full(24, -1.0, np.float32)}
    environment.step(action)
    placed = simulation.floor.ledger.node[0]
    assert simulation.cluster.nodes[placed].name == simulation.site.state.node(int(feasible[-1])).name


def test_a_step_before_a_reset_is_refused(environment: ClusterEnvironment) -> None:
    with pytest.raises(InvalidInput, match="call reset first"):
        environment.step(environment.action_space.sample())


def test_room_for_fewer_nodes_than_there_may_be_is_refused(setup: Setup) -> None:
    with pytest.raises(InvalidInput, match="most_nodes is 3"):
        ClusterEnvironment(ranges=setup.ranges, most_nodes=3)
