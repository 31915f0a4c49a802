"""The prediction in NumPy is the law that the compiled solver solves, node by node."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from stowplan.core.physics.laws import PhysicsLaws
from stowplan.core.physics.node import node_rates
from stowplan.core.physics.vocabulary import RESOURCE_COUNT, Resource
from stowplan.core.policy.prediction import NodeBatch, predicted_rates

NODES, TASKS = 6, 7
LAWS = PhysicsLaws()


def is_solution(batch: NodeBatch, node: int, rates: NDArray[np.float64]) -> bool:
    """Tell whether nothing is overloaded and each task is held back by itself or a full resource."""
    present = batch.alone[node] > 0.0
    demand, weight = batch.demand[node, present].copy(), batch.weight[node, present]
    load = min(float(demand[:, Resource.DRAM] @ rates[present]) / batch.capacity[node, Resource.DRAM], 1.0)
    latency = 1.0 + LAWS.dram_latency_coefficient * load / (LAWS.dram_saturation - load)
    stall = 1.0 + batch.exposed[node, present] * (latency - 1.0)
    demand[:, Resource.CPU] *= stall
    used = (demand * rates[present, None]).sum(axis=0) / batch.capacity[node]
    if (used > 1.0 + 1e-6).any():
        return False
    level = demand * rates[present, None] / weight
    has_most = (demand > 0.0) & (level >= level.max(axis=0) * (1 - 1e-5)) & (used > 1.0 - 1e-5)
    is_free = rates[present] >= batch.alone[node, present] / stall * (1 - 1e-5)
    return bool((is_free | has_most.any(axis=1)).all())


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32 - 1), pressure=st.sampled_from([0.3, 1.0, 3.0]), latency=st.booleans())
def test_a_batch_is_what_the_compiled_solver_makes_of_it(
    seed: int, pressure: float, *, latency: bool
) -> None:
    rng = np.random.default_rng(seed)
    shape = (NODES, TASKS, RESOURCE_COUNT)
    demand = rng.uniform(0.0, 2.0, shape) * (rng.random(shape) < 0.6)
    weight = rng.uniform(0.2, 5.0, demand.shape)
    capacity = demand.sum(axis=1) / pressure * rng.uniform(0.5, 1.5, (NODES, RESOURCE_COUNT))
    capacity[rng.random(capacity.shape) < 0.3] = np.inf
    capacity = np.maximum(capacity, 1e-3)
    speed = rng.uniform(0.5, 2.0, (NODES, TASKS))
    exposed = rng.uniform(0.0, 1.0, (NODES, TASKS)) * (rng.random((NODES, TASKS)) < 0.5) * latency
    counts = rng.integers(1, TASKS + 1, NODES)
    in_batch = demand.copy()
    in_batch[:, :, Resource.CPU] /= speed
    present = np.arange(TASKS) < counts[:, None]
    in_batch *= present[:, :, None]
    batch = NodeBatch(in_batch, weight, capacity, speed * present, exposed * present)
    rates = predicted_rates(batch, LAWS, tolerance=1e-9)
    for node, count in enumerate(counts):
        assert (rates[node, count:] == 0.0).all()
        solved = node_rates(
            demand[node, :count],
            capacity[node],
            weight=weight[node, :count],
            speed=speed[node, :count],
            exposed=exposed[node, :count],
            laws=LAWS,
        )
        if not solved.converged:
            continue  # both fall back, each in its own way
        if rates[node, :count] != pytest.approx(solved.rate_per_s, rel=1e-5):
            # Memory latency can let a node settle in two ways: loaded and slow, or held back elsewhere.
            assert latency
            assert is_solution(batch, node, rates[node])


@given(seed=st.integers(0, 2**32 - 1))
def test_a_share_that_is_changed_is_no_solution(seed: int) -> None:
    rng = np.random.default_rng(seed)
    demand = rng.uniform(0.5, 2.0, (1, 4, RESOURCE_COUNT))
    capacity = demand.sum(axis=1) / 2
    ones = np.ones((1, 4))
    batch = NodeBatch(demand, np.ones_like(demand), capacity, ones, 0.3 * ones)
    rates = predicted_rates(batch, LAWS, tolerance=1e-9)[0]
    assert is_solution(batch, 0, rates)
    for factor in (0.9, 1.1):
        changed = rates.copy()
        changed[0] *= factor
        assert not is_solution(batch, 0, changed)
