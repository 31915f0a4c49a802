"""What goes must go by itself, and what is remembered of it must be little.

What refers to itself in a circle stays until the collector looks everywhere. It seldom does in a process that
holds a cluster, and a circle holds all that hangs on it: its memory then grows with every pod that comes and
goes.
"""

import gc
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

import numpy as np
import pytest

from stowplan.core.constraints import CompiledFilters
from stowplan.core.domain import (
    BoundPod,
    ClusterState,
    HostPort,
    NodeSet,
    PendingTask,
    Phase,
    PodBound,
    PodRemoved,
    PodShape,
    Task,
    WorkProfile,
)
from stowplan.core.engine import Engine
from stowplan.core.policy import make_policy
from stowplan.serve.workflows.expectations import one_task
from tests.record_cases import Drive, some_node, some_shape
from tests.simulation_cases import shape

OURS = "stowplan."
PODS = 16_000
BATCH = 100


@contextmanager
def circles() -> Generator[Counter[str]]:
    """Count, by type, what of ours is left in circles when the block has ended."""
    gc.collect()
    gc.disable()
    found: Counter[str] = Counter()
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found.update(type(each).__qualname__ for each in gc.garbage if type(each).__module__.startswith(OURS))
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


def test_the_count_sees_a_circle() -> None:
    with circles() as left:
        state = ClusterState()
        state.tap = state.apply
        del state
    assert left["ClusterState"] == 1


@pytest.mark.parametrize("policy", ["srpt-physics", "srpt-measured", "kube-scheduler", "look-ahead"])
def test_cycles_and_their_records_leave_no_circle(policy: str) -> None:
    with circles() as left:
        drive = Drive(7, policy, measures=True, make=make_policy)
        cycles = sum(1 for _ in drive.run(16))  # four chains of records
    assert cycles == 16
    assert not left
    del drive


def test_filters_leave_no_circle() -> None:
    chance = np.random.default_rng(1)
    state = ClusterState()
    for number in range(4):
        state.apply(NodeSet(some_node(chance, f"n{number}")))
    shapes = [*(some_shape(chance) for _ in range(60)), shape(host_ports=(HostPort("TCP", "10.0.0.1", 80),))]
    assert len(set(shapes)) > 30
    with circles() as left:
        for some in shapes:
            filters = CompiledFilters(state, some)
            before = filters.feasible.copy()
            for number, other in enumerate(_bound(shapes)):  # many at once: they are taken in as a batch
                state.apply(PodBound(BoundPod(f"lab/{number}", other), "n0"))
            filters.refresh()
            for number in range(len(_bound(shapes))):
                state.apply(PodRemoved(f"lab/{number}"))
            filters.refresh()
            assert (filters.feasible == before).all()
            del filters
    assert not left


@pytest.mark.parametrize("policy", ["srpt-physics", "kube-scheduler"])
def test_of_pods_that_are_gone_only_the_last_few_thousand_are_remembered(policy: str) -> None:
    """Each has labels of its own, as the pods of workflows do: so each has a shape of its own."""
    state = ClusterState()
    chance = np.random.default_rng(3)
    for number in range(4):
        state.apply(NodeSet(some_node(chance, f"n{number}")))
    engine = Engine(state, make_policy(policy), rng=chance)
    before = _shapes_alive()
    for number in range(0, PODS, BATCH):
        for own in range(number, number + BATCH):
            of_its_own = shape(cores=0.001, memory_gib=0.0, labels=(("name", f"p{own}"),))
            state.apply(PodBound(BoundPod(f"lab/{own}", of_its_own), f"n{own % 4}"))
        engine.cycle(float(number), [_waiting(number)])
        for own in range(number, number + BATCH):
            state.apply(PodRemoved(f"lab/{own}"))
    alive = _shapes_alive() - before
    assert alive < PODS / 2


def _waiting(number: int) -> PendingTask:
    asks = shape(cores=64.0, labels=(("name", f"w{number}"),))
    progress = one_task(Task(f"w{number}", asks, WorkProfile((Phase(1.0),)), 1.0))
    return PendingTask(f"lab/w{number}", progress, 0, float(number))


def _shapes_alive() -> int:
    gc.collect()
    return sum(type(each) is PodShape for each in gc.get_objects())


def _bound(shapes: list[PodShape]) -> list[PodShape]:
    return [each for each in shapes if not each.volumes and each.gpu is None][:12]
