"""Plans and bounds worked out by hand, and what cannot be planned."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from stowplan.core.domain import Gpu, GpuRequest, Workflow
from stowplan.core.policy import Policy
from stowplan.errors import InvalidInput
from stowplan.simulate.clusters.model import Cluster
from stowplan.simulate.planning import Batch, plan_batch
from stowplan.simulate.simulator import Simulation
from stowplan.simulate.workloads.model import Workload
from tests.simulation_cases import cluster, node, shape, task, workload

TWO_CORES = cluster(node("n0", cores=2.0, memory_gib=64.0))
# Whoever starts `filler` at once lets `wide` wait for it: 4 + 5 + 4. With it beside `last`: 1 + 5 + 4.
WAITING_PAYS = workload(
    Workflow(
        "w",
        (
            task("first", seconds=1.0, cores=1.0),
            task("wide", seconds=5.0, cores=2.0),
            task("last", seconds=4.0, cores=1.0),
            task("filler", seconds=4.0, cores=1.0),
        ),
        (("first", "wide"), ("wide", "last")),
    )
)


def makespan_s(policy: Policy | str) -> float:
    simulation = Simulation(TWO_CORES, WAITING_PAYS, policy, seed=0, contention=False)
    simulation.run()
    return simulation.now_s


def test_a_plan_waits_where_that_pays() -> None:
    plan = plan_batch(Batch.of(TWO_CORES, WAITING_PAYS), seed=0, passes=100)
    assert plan.start_s.tolist() == [0.0, 1.0, 6.0, 6.0]
    assert plan.makespan_s == makespan_s(plan.policy()) == 10.0
    assert makespan_s("critical-path") == 13.0
    assert plan.gap == 0.0


def test_bounds_by_hand() -> None:
    """Area (1·1 + 5·2 + 4·1 + 4·1) / 2, path 1 + 5 + 4; a head of 2 before 3 s of all cores: energy 5."""
    bounds = plan_batch(Batch.of(TWO_CORES, WAITING_PAYS), seed=0, passes=0).bounds
    assert (bounds.area_s, bounds.critical_path_s, bounds.best_s) == (9.5, 10.0, 10.0)
    wide = [task(f"wide{i}", seconds=1.0, cores=2.0) for i in range(3)]
    thin = task("thin", seconds=2.0, cores=1.0)
    flow = Workflow("w", (thin, *wide), tuple(("thin", one.name) for one in wide))
    plan = plan_batch(Batch.of(TWO_CORES, workload(flow)), seed=0, passes=0)
    assert (plan.bounds.area_s, plan.bounds.critical_path_s, plan.bounds.energy_s) == (4.0, 3.0, 5.0)
    assert plan.makespan_s == 5.0


def test_only_resources_that_can_bind_are_planned() -> None:
    """Four cores are asked for and two there, 4 GiB and 64 GiB, 4 pods and 110; or 4 GiB and 3."""
    batch = Batch.of(TWO_CORES, WAITING_PAYS)
    assert (batch.resources, batch.graph.capacity.tolist()) == (("cpu",), [2000])
    assert batch.graph.demand.tolist() == [[1000], [2000], [1000], [1000]]
    less = cluster(node("n0", cores=2.0, memory_gib=3.0))
    assert Batch.of(less, WAITING_PAYS).resources == ("cpu", "memory")
    more = cluster(node("n0", cores=64.0, memory_gib=64.0))
    assert Batch.of(more, WAITING_PAYS).resources == ("pods",)


def test_whole_gpus_are_a_resource() -> None:
    machine = cluster(node("n0", cores=8.0, gpus=(Gpu("A"), Gpu("A"))))
    tasks = tuple(
        replace(task(f"t{i}", seconds=3.0), shape=shape(gpu=GpuRequest(count)))
        for i, count in enumerate([1, 1, 2])
    )
    plan = plan_batch(Batch.of(machine, workload(Workflow("w", tasks))), seed=0, passes=30)
    assert plan.batch.resources == ("whole GPUs",)
    assert plan.makespan_s == 6.0


def test_a_task_is_planned_with_the_time_it_takes_on_the_node() -> None:
    slow = replace(task("t", seconds=3.0).work, machine_factors=(("old", 2.0),))
    machine = cluster(node("n0", machine_type="old"))
    batch = Batch.of(machine, workload(Workflow("w", (task("t", work=slow), task("u", seconds=0.0)))))
    assert batch.graph.duration_s.tolist() == [6.0, 1e-6]


def _share() -> Workload:
    one = replace(task("t"), shape=shape(gpu=GpuRequest(1, 500)))
    return workload(Workflow("w", (one,)))


def _classes() -> Workload:
    high = replace(task("high"), shape=shape(priority=7))
    return workload(Workflow("w", (task("low"), high)))


@pytest.mark.parametrize(
    ("machines", "load", "message"),
    [
        (cluster(node("n0"), node("n1")), lambda: WAITING_PAYS, "has 2 nodes"),
        (
            TWO_CORES,
            lambda: workload(Workflow("a", (task("t"),)), Workflow("b", (task("t"),)), times_s=[0.0, 5.0]),
            "arrives from 0 s to 5 s",
        ),
        (TWO_CORES, _share, "'w/t' asks for 500 thousandths of a GPU"),
        (TWO_CORES, _classes, "priorities 0, 7"),
        (
            TWO_CORES,
            lambda: workload(Workflow("w", (task("t", cores=3.0),))),
            "'w/t' asks for cpu 3000, but node 'n0' has 2000",
        ),
    ],
)
def test_what_is_no_batch_is_refused(machines: Cluster, load: Callable[[], Workload], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        Batch.of(machines, load())


def test_passes_are_not_negative() -> None:
    with pytest.raises(InvalidInput, match="passes is -1"):
        plan_batch(Batch.of(TWO_CORES, WAITING_PAYS), seed=0, passes=-1)
