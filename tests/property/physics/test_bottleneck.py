"""What defines bottleneck max fairness must hold for every system."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from stowplan.core.physics.bottleneck import NOT_CONVERGED, bottleneck_rates, scale_to_fit
from stowplan.core.physics.waterfill import waterfill

REL = 1e-6

System = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]
"""Demand, weight, capacity, own rate."""


@st.composite
def systems(draw: st.DrawFn) -> System:
    tasks, resources = draw(st.integers(1, 12)), draw(st.integers(1, 5))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    demand = random.uniform(0.0, 1.0, (tasks, resources)) * (random.random((tasks, resources)) < 0.7)
    weight = random.choice([1.0, 1.0, 2.0, 5.0], (tasks, resources))
    capacity = demand.sum(axis=0) * random.uniform(0.1, 1.3, resources)
    own = random.uniform(0.2, 2.0, tasks)
    return demand, weight, capacity, own


def solve(
    demand: NDArray[np.float64],
    weight: NDArray[np.float64],
    capacity: NDArray[np.float64],
    own: NDArray[np.float64],
    sweeps: int = 200,
) -> tuple[int, NDArray[np.float64], NDArray[np.int64]]:
    tasks, resources = demand.shape
    rate, binding = np.empty(tasks), np.empty(tasks, np.int64)
    used = bottleneck_rates(
        tasks, demand, weight, capacity, own, sweeps, 1e-12, np.empty(resources), rate, binding,
        np.empty(tasks), np.empty(resources, np.int64),
    )  # fmt: skip
    return used, rate, binding


@given(systems())
def test_no_resource_is_overloaded_and_nobody_exceeds_its_own_rate(
    system: System,
) -> None:
    demand, _, capacity, own = system
    _, rate, _ = solve(*system)
    assert (rate @ demand <= capacity * (1.0 + REL)).all()
    assert (rate <= own).all()


@given(systems())
def test_everybody_is_held_back_by_itself_or_by_a_full_resource_of_which_nobody_gets_more(
    system: System,
) -> None:
    demand, weight, capacity, own = system
    used, rate, binding = solve(*system)
    if used == NOT_CONVERGED:
        return
    usage = rate @ demand
    for task, resource in enumerate(binding):
        if resource < 0:
            assert rate[task] == own[task]
            continue
        assert usage[resource] >= capacity[resource] * (1.0 - REL)
        shares = rate * demand[:, resource] / weight[:, resource]
        assert shares[task] >= shares.max() * (1.0 - REL)


@given(systems())
def test_one_resource_alone_is_plain_water_filling(system: System) -> None:
    demand, weight, capacity, own = system
    demand, weight = demand[:, :1].copy(), weight[:, :1].copy()
    _, rate, _ = solve(demand, weight, capacity[:1], own)
    expected = waterfill(demand[:, 0] * own, weight[:, 0], float(capacity[0]))
    np.testing.assert_allclose(rate * demand[:, 0], expected, rtol=1e-9, atol=1e-12)


@given(systems(), st.permutations(range(5)))
def test_the_order_of_tasks_does_not_matter(system: System, shuffle: list[int]) -> None:
    demand, weight, capacity, own = system
    order = np.argsort(np.resize(shuffle, demand.shape[0]), kind="stable")
    used, rate, _ = solve(*system)
    used_too, rate_too, _ = solve(demand[order], weight[order], capacity, own[order])
    if NOT_CONVERGED not in (used, used_too):
        np.testing.assert_allclose(rate[order], rate_too, rtol=1e-6)


@given(systems())
def test_what_does_not_settle_is_said_and_still_fits(system: System) -> None:
    demand, _, capacity, _ = system
    used, rate, _ = solve(*system, sweeps=1)
    assert used == NOT_CONVERGED or used <= 1
    assert (rate @ demand <= capacity * (1.0 + REL)).all()
    assert (rate >= 0.0).all()


@given(systems())
def test_scaling_down_to_fit_only_ever_slows(system: System) -> None:
    demand, _, capacity, own = system
    rate, binding = own.copy(), np.full(own.shape[0], -1)
    scale_to_fit(own.shape[0], demand, capacity, rate, binding)
    assert (rate <= own).all()
    assert (rate @ demand <= capacity * (1.0 + REL)).all()
