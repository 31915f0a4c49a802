"""One node: hand-worked rates, and that attribution adds up."""

import numpy as np
import pytest
from numpy.typing import NDArray

from stowplan.core.physics.node import node_rates
from stowplan.core.physics.vocabulary import RESOURCE_COUNT, Cause, Resource
from stowplan.errors import InvalidInput


def demands(*rows: dict[Resource, float]) -> NDArray[np.float64]:
    table = np.zeros((len(rows), RESOURCE_COUNT))
    for index, row in enumerate(rows):
        for resource, amount in row.items():
            table[index, resource] = amount
    return table


def capacities(**limits: float) -> NDArray[np.float64]:
    table = np.full(RESOURCE_COUNT, np.inf)
    for name, amount in limits.items():
        table[Resource[name]] = amount
    return table


def test_alone_everything_runs_at_full_speed() -> None:
    found = node_rates(demands({Resource.CPU: 2.0}), capacities(CPU=4.0))
    assert found.rate_per_s[0] == 1.0
    assert found.lost.sum() == 0.0
    assert found.used_per_s[Resource.CPU] == 2.0


def test_cores_are_shared_by_weight() -> None:
    found = node_rates(
        demands({Resource.CPU: 2.0}, {Resource.CPU: 2.0}),
        capacities(CPU=3.0),
        weight=np.array([[1.0] * RESOURCE_COUNT, [2.0] * RESOURCE_COUNT]),
    )
    assert found.rate_per_s == pytest.approx([0.5, 1.0])
    assert found.lost[0, Cause.CPU] == pytest.approx(0.5)


def test_a_light_user_of_a_full_bus_is_not_slowed() -> None:
    heavy, light = {Resource.DISK: 1.0}, {Resource.DISK: 0.2}
    found = node_rates(demands(heavy, heavy, light), capacities(DISK=1.0))
    assert found.rate_per_s == pytest.approx([0.4, 0.4, 1.0])
    assert found.lost[0, Cause.DISK] == pytest.approx(0.6)


def test_memory_streams_beside_each_other_slow_as_measured() -> None:
    """Pairs on two cores of one machine, 26 GB/s shared: read 16.9, triad 19.4 GB/s alone; within 11 %."""
    speeds = {"read": 16.9e9, "triad": 19.4e9}
    measured = {
        ("read", "read"): 1.36,
        ("triad", "triad"): 1.48,
        ("read", "triad"): 1.40,
        ("triad", "read"): 1.34,
    }
    for (victim, other), slowdown in measured.items():
        found = node_rates(
            demands({Resource.DRAM: speeds[victim]}, {Resource.DRAM: speeds[other]}), capacities(DRAM=26e9)
        )
        assert found.slowdown[0] == pytest.approx(slowdown, rel=0.115)
        assert found.lost[0, Cause.DRAM_BANDWIDTH] > 0.0


def test_latency_slows_before_bandwidth_is_used_up() -> None:
    stream, chase = {Resource.DRAM: 19.4e9}, {Resource.DRAM: 0.4e9}
    found = node_rates(demands(chase, stream), capacities(DRAM=26e9), exposed=np.array([1.0, 0.0]))
    assert 0.7 < found.memory_load < 0.8
    assert 1.2 < found.slowdown[0] < 1.5  # measured 1.28 [1.16–1.74]
    assert found.lost[0, Cause.DRAM_LATENCY] == pytest.approx(1.0 - found.rate_per_s[0])
    assert found.rate_per_s[1] == 1.0


def test_load_and_latency_agree_even_near_saturation() -> None:
    found = node_rates(
        demands(*[{Resource.DRAM: 3e9, Resource.CPU: 1.0}] * 12),
        capacities(DRAM=26e9),
        exposed=np.full(12, 0.5),
    )
    latency = 1.0 + 0.165 * found.memory_load / (1.1 - found.memory_load)
    own = 1.0 / (1.0 + 0.5 * (latency - 1.0))
    assert found.rate_per_s == pytest.approx(np.full(12, min(own, 26e9 / 36e9)), rel=1e-6)
    assert found.converged


def test_causes_add_up_to_all_that_is_lost() -> None:
    random = np.random.default_rng(5)
    count = 9
    demand = random.uniform(0.0, 1.0, (count, RESOURCE_COUNT))
    found = node_rates(
        demand,
        demand.sum(axis=0) * random.uniform(0.3, 0.9, RESOURCE_COUNT),
        speed=random.uniform(0.5, 2.0, count),
        quota=random.uniform(0.5, 1.0, count),
        gpu=random.uniform(0.7, 1.0, count),
        exposed=random.uniform(0.0, 0.5, count),
    )
    assert found.lost.sum(axis=1) == pytest.approx(1.0 - found.rate_per_s)
    assert found.converged


def test_a_waiting_core_is_a_busy_core() -> None:
    found = node_rates(
        demands({Resource.CPU: 1.0, Resource.DRAM: 20e9}),
        capacities(CPU=8.0, DRAM=26e9),
        exposed=np.array([0.5]),
    )
    assert found.rate_per_s[0] < 1.0
    assert found.used_per_s[Resource.CPU] == pytest.approx(1.0)


def test_nothing_left_means_standing_still() -> None:
    found = node_rates(demands({Resource.DISK: 5.0}, {Resource.CPU: 1.0}), capacities(DISK=0.0))
    assert found.rate_per_s.tolist() == [0.0, 1.0]
    assert found.lost[0, Cause.DISK] == 1.0
    assert found.slowdown[0] == np.inf


@pytest.mark.parametrize(
    ("name", "array"), [("speed", np.array([-1.0])), ("exposed", np.array([np.nan])), ("quota", np.ones(2))]
)
def test_bad_arrays_are_named(name: str, array: NDArray[np.float64]) -> None:
    with pytest.raises(InvalidInput, match=name):
        node_rates(demands({Resource.CPU: 1.0}), capacities(), **{name: array})  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="expected"):
        node_rates(np.ones((1, 3)), capacities())
