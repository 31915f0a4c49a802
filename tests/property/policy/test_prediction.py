"""The prediction in NumPy is the law that the compiled solver solves, node by node."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.core.physics.laws import PhysicsLaws
from stowplan.core.physics.node import node_rates
from stowplan.core.physics.vocabulary import RESOURCE_COUNT, Resource
from stowplan.core.policy.prediction import NodeBatch, predicted_rates

NODES, TASKS = 6, 7


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
    laws = PhysicsLaws()
    batch = NodeBatch(in_batch, weight, capacity, speed * present, exposed * present)
    rates = predicted_rates(batch, laws, tolerance=1e-9)
    for node, count in enumerate(counts):
        expected = node_rates(
            demand[node, :count],
            capacity[node],
            weight=weight[node, :count],
            speed=speed[node, :count],
            exposed=exposed[node, :count],
            laws=laws,
        )
        if expected.converged:  # else both fall back, each in its own way
            assert rates[node, :count] == pytest.approx(expected.rate_per_s, rel=1e-5)
        assert (rates[node, count:] == 0.0).all()
