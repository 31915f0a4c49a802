"""The estimated stretch, by hand, and the same for one task as for many."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.core.physics.laws import PhysicsLaws
from stowplan.core.physics.vocabulary import RESOURCE_COUNT, Resource
from stowplan.core.policy.stretch import Asked, Held, estimated_stretch

LAWS = PhysicsLaws()


def held(nodes: int = 1, **loads: float) -> Held:
    """Nodes with 10 of everything, and some load."""
    load = np.zeros((nodes, RESOURCE_COUNT))
    for name, amount in loads.items():
        load[:, Resource[name]] = amount
    return Held(load, np.full((nodes, RESOURCE_COUNT), 10.0))


def asked(*, exposed: float = 0.0, quota: float = 1.0, **amounts: float) -> Asked:
    per_s = np.zeros((1, RESOURCE_COUNT))
    for name, amount in amounts.items():
        per_s[0, Resource[name]] = amount
    return Asked(per_s, np.array([exposed]), np.array([quota]))


def stretch(one: Asked, on: Held) -> float:
    return float(estimated_stretch(one, on, LAWS)[0, 0])


def test_what_fits_is_not_stretched() -> None:
    assert stretch(asked(CPU=4.0, DISK=2.0), held(CPU=6.0, DISK=1.0)) == 1.0
    assert stretch(asked(), held(CPU=100.0)) == 1.0


def test_the_most_overloaded_resource_that_the_task_uses_counts() -> None:
    assert stretch(asked(CPU=5.0, DISK=5.0), held(CPU=10.0, DISK=25.0, NIC_UP=90.0)) == pytest.approx(3.0)


def test_waiting_for_memory_grows_with_its_load() -> None:
    one = asked(exposed=0.5, DRAM=2.0)
    assert stretch(one, held(DRAM=3.0)) == pytest.approx(1.0 + 0.5 * 0.165 * 0.5 / 0.6)
    assert stretch(one, held(DRAM=18.0)) == pytest.approx(2.0 * (1.0 + 0.5 * 0.165 * 1.0 / 0.1))
    assert stretch(asked(exposed=0.5), held(DRAM=5.0)) == pytest.approx(1.0 + 0.5 * 0.165 * 0.5 / 0.6)


def test_a_limit_on_cores_stretches_anywhere() -> None:
    assert stretch(asked(quota=0.25, CPU=4.0), held()) == 4.0


def test_a_capacity_that_is_not_known_is_never_full() -> None:
    on = held(CPU=1e9)
    on.capacity[:] = np.inf
    assert stretch(asked(CPU=5.0), on) == 1.0


@settings(max_examples=50)
@given(tasks=st.integers(0, 70), nodes=st.integers(0, 400), seed=st.integers(0, 999))
def test_each_number_is_the_same_whatever_is_asked_beside_it(tasks: int, nodes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    per_s = rng.gamma(0.5, 2.0, (tasks, RESOURCE_COUNT)) * (rng.random((tasks, RESOURCE_COUNT)) < 0.6)
    exposed = rng.random(tasks) * (rng.random(tasks) < 0.5)
    some = Asked(*(part.astype(np.float32) for part in (per_s, exposed, rng.uniform(0.1, 1.0, tasks))))
    load = rng.gamma(0.5, 8.0, (nodes, RESOURCE_COUNT))
    on = Held(*(part.astype(np.float32) for part in (load, rng.uniform(1.0, 20.0, load.shape))))
    found = estimated_stretch(some, on, LAWS)
    assert (found.shape, found.dtype) == ((tasks, nodes), np.float32)
    assert (found >= 1.0).all()
    for task, node in zip(rng.permutation(tasks)[:5], rng.permutation(nodes)[:5], strict=False):
        one = Asked(*(part[task : task + 1] for part in some))
        of_node = Held(*(part[node : node + 1] for part in on))
        alone = estimated_stretch(one, of_node, LAWS)
        assert alone.tobytes() == found[task : task + 1, node : node + 1].tobytes()
        exact = Asked(*(part.astype(np.float64) for part in one))
        exactly = estimated_stretch(exact, Held(*(part.astype(np.float64) for part in of_node)), LAWS)
        assert alone == pytest.approx(exactly, rel=1e-5)
