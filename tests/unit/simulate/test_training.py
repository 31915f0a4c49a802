"""Training gangs in the simulator: step times by hand, one pace for all workers, and lost ones."""

import math
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from stowplan.core.domain import (
    Gang,
    Gpu,
    GpuRequest,
    Hardware,
    Node,
    Phase,
    Task,
    Training,
    Workflow,
    WorkProfile,
)
from stowplan.simulate.clusters.model import BackgroundTenant, Cluster, Fabric, Link
from stowplan.simulate.faults import NO_FAULTS, FaultPlan
from stowplan.simulate.options import SimulationOptions
from stowplan.simulate.results import RunResult
from stowplan.simulate.simulator import Simulation
from tests.simulation_cases import cluster, node, shape, workload

CHECKED = SimulationOptions(validates=True, usage_points=8)
FABRIC = Fabric(
    same_root_complex=Link(100.0, 1e-12),
    same_node=Link(50.0, 1e-12),
    same_rack=Link(40.0, 1e-12),
    same_zone=Link(40.0, 1e-12),
    other_zone=Link(40.0, 1e-12),
    rack_uplink_bytes_per_s=10.0,
)
STEPS = 100.0


def machine(
    name: str, *, rack: str = "r0", roots: str = "aabb", nic: float = 1000.0, cores: float = 16.0
) -> Node:
    return node(
        name,
        cores=cores,
        rack=rack,
        gpus=tuple(Gpu("g", root) for root in roots),
        nic_up_bytes_per_s=nic,
        nic_down_bytes_per_s=nic,
        pcie_bytes_per_s=1000.0,
    )


def machines(*nodes: Node, **fields: Any) -> Cluster:  # noqa: ANN401
    return cluster(*nodes, **{"fabric": FABRIC, **fields})


def job(name: str, workers: int, *, gpus: int = 1, size: float = 100.0, cores: float = 1.0) -> Workflow:
    """A gang that computes one second a step and reduces `size` bytes, one after the other."""
    training = Training(steps=STEPS, compute_s=1.0, gradient_bytes=size)
    work = WorkProfile((Phase(STEPS, cpu_cores=cores),), training=training)
    asked = shape(cores=cores, gpu=GpuRequest(gpus))
    tasks = tuple(Task(f"t{i}", asked, work, STEPS, gang=Gang("g", workers)) for i in range(workers))
    return Workflow(name, tasks)


def run(
    machine_set: Cluster,
    *jobs: Workflow,
    faults: FaultPlan = NO_FAULTS,
    options: SimulationOptions = CHECKED,
    contention: bool = True,
) -> RunResult:
    return Simulation(
        machine_set, workload(*jobs), "gangs", seed=0, faults=faults, options=options, contention=contention
    ).run()


def steps(result: RunResult) -> list[tuple[str, float, float]]:
    return result.training.select("distance", "reduce_s", "step_s").rows()


@pytest.mark.parametrize(
    ("nodes", "workers", "gpus", "distance", "reduce_s"),
    [
        # 2 (n−1)/n · 100 bytes over the slowest edge of the ring.
        ((machine("n0"),), 2, 1, "same_root_complex", 100.0 / 100.0),
        ((machine("n0"),), 1, 2, "same_root_complex", 100.0 / 100.0),
        ((machine("n0"),), 4, 1, "same_node", 150.0 / 50.0),
        ((machine("n0"), machine("n1")), 8, 1, "same_rack", 175.0 / 40.0),
        # Four workers to a rack, whose uplinks carry 175 bytes each way at 10 a second.
        ((machine("n0"), machine("n1", rack="r1")), 8, 1, "same_zone", 175.0 / 10.0),
        ((machine("n0", nic=20.0), machine("n1")), 2, 4, "same_rack", 175.0 / 20.0),
    ],
)
def test_a_step_takes_what_it_computes_and_what_the_slowest_link_of_the_ring_takes(
    nodes: tuple[Node, ...], workers: int, gpus: int, distance: str, reduce_s: float
) -> None:
    result = run(machines(*nodes), job("w", workers, gpus=gpus))
    assert steps(result) == [(distance, pytest.approx(reduce_s), pytest.approx(1.0 + reduce_s))]
    ends = result.tasks["finished_s"].to_list()
    assert ends == pytest.approx([STEPS * (1.0 + reduce_s)] * workers)
    assert result.training["steps"].to_list() == pytest.approx([STEPS])


def test_the_time_lost_to_reductions_counts_to_pcie_inside_a_node_and_to_the_network_between() -> None:
    inside = run(machines(machine("n0")), job("w", 4)).tasks
    assert inside["slow_pcie_s"].to_list() == pytest.approx([STEPS * 3.0] * 4)
    between = run(machines(machine("n0"), machine("n1", rack="r1")), job("w", 8)).tasks
    assert between["slow_network_s"].to_list() == pytest.approx([STEPS * 17.5] * 8)
    for tasks in (inside, between):
        lost = tasks.select(pl.sum_horizontal(pl.col("^slow_.*$"))).to_series()
        assert (tasks["actual_s"] - tasks["alone_s"]).to_list() == pytest.approx(lost.to_list())


def test_two_gangs_on_one_interconnect_meet_as_often_as_they_reduce() -> None:
    fabric = replace(FABRIC, same_node=Link(1e6, 1e-12), node_interconnect_bytes_per_s=50.0)
    result = run(machines(machine("n0", roots="abcd"), fabric=fabric), job("v", 2), job("w", 2))
    # r = 100 (1 + d) / 50 and d = r / (1 + r), so 2 d² + d = 2.
    duty = (math.sqrt(17.0) - 1.0) / 4.0
    reduce_s = 2.0 * (1.0 + duty)
    assert steps(result) == [("same_node", pytest.approx(reduce_s), pytest.approx(1.0 + reduce_s))] * 2


def test_without_contention_no_ring_meets_another() -> None:
    fabric = replace(FABRIC, same_node=Link(1e6, 1e-12), node_interconnect_bytes_per_s=50.0)
    result = run(
        machines(machine("n0", roots="abcd"), fabric=fabric), job("v", 2), job("w", 2), contention=False
    )
    assert steps(result) == [("same_node", pytest.approx(2.0), pytest.approx(3.0))] * 2


def test_what_a_stream_takes_of_a_link_is_not_there_for_the_ring() -> None:
    fabric = replace(FABRIC, rack_uplink_bytes_per_s=0.0)
    pair = machines(machine("n0", roots="a", nic=60.0), machine("n1", roots="a", nic=60.0), fabric=fabric)
    stream = Task("s", shape(cores=1.0), WorkProfile((Phase(1000.0, nic_up_bytes_per_s=30.0),)), 1000.0)
    result = run(pair, job("w", 2, size=120.0), Workflow("s", (stream,)), options=SimulationOptions())
    # 120 bytes a step at 60 − 30 = 30, below the 40 of the ring's own edges.
    assert steps(result)[0][1:] == (pytest.approx(4.0, rel=1e-3), pytest.approx(5.0, rel=1e-3))


def test_the_slowest_worker_holds_up_the_others() -> None:
    # A tenant takes half of n1's cores (equal weights): the worker there has two of the four that it wants.
    tenant = BackgroundTenant("t", "n1", WorkProfile((Phase(1e5, cpu_cores=4.0),)), first_s=0.0)
    nodes = (machine("n0", roots="a", cores=4.0), machine("n1", roots="a", cores=4.0))
    alone = run(machines(*nodes), job("w", 2, size=1.0, cores=4.0), options=SimulationOptions())
    held = run(
        machines(*nodes, background=(tenant,)), job("w", 2, size=1.0, cores=4.0), options=SimulationOptions()
    )
    ends = held.tasks["finished_s"].to_list()
    assert ends[0] == pytest.approx(ends[1])
    assert ends[0] > 1.25 * alone.tasks["finished_s"].to_list()[0]


def test_a_worker_whose_node_stands_still_stops_all_and_they_go_on_together() -> None:
    faults = FaultPlan.parse(
        [{"kind": "node-not-ready", "cause": "network", "nodes": ["n1"], "at_s": [50], "duration_s": 20}], "f"
    )
    pair = machines(machine("n0", roots="a"), machine("n1", roots="a"))
    whole = run(pair, job("w", 2)).tasks["finished_s"].to_list()
    late = run(pair, job("w", 2), faults=faults).tasks
    assert late["status"].to_list() == ["done", "done"]
    assert late["finished_s"].to_list() == pytest.approx([end + 20.0 for end in whole], rel=1e-3)


def test_a_gang_that_loses_a_worker_is_placed_again_as_a_whole() -> None:
    faults = FaultPlan.parse(
        [{"kind": "spot-reclaim", "nodes": ["n1"], "at_s": [50], "notice_s": 10, "duration_s": 30}], "f"
    )
    pair = machines(machine("n0", roots="a"), machine("n1", roots="a"))
    result = run(pair, job("w", 2), faults=faults)
    tasks = result.tasks.sort("attempt", "task")
    assert tasks["status"].to_list() == ["node_lost", "node_lost", "done", "done"]
    assert tasks["finished_s"].to_list()[:2] == pytest.approx([60.0, 60.0])
    assert result.training.height == 2
    assert result.training["steps"].to_list()[1] == pytest.approx(STEPS)
    begun = tasks.filter(pl.col("attempt") == 2)["started_s"].to_list()
    assert begun[0] == begun[1] >= 90.0


def test_workers_start_together_when_a_node_starts_pods_one_after_another() -> None:
    options = replace(CHECKED, pod_startup_s=1.0, pod_start_interval_s=3.0)
    result = run(machines(machine("n0")), job("w", 4), options=options)
    assert result.tasks["started_s"].to_list() == [10.0] * 4
    assert result.tasks["finished_s"].to_list() == pytest.approx([10.0 + STEPS * 4.0] * 4)


def test_gpus_compute_for_a_part_of_the_time_that_they_are_held() -> None:
    result = run(machines(machine("n0")), job("w", 4))  # computes for one second of four
    gpu = result.usage.filter(pl.col("resource") == "gpu")
    busy = (gpu["used"] * gpu["length_s"]).sum()
    held = (gpu["requested"] * gpu["length_s"]).sum()
    assert busy == pytest.approx(4 * STEPS)
    assert held == pytest.approx(4 * STEPS * 4.0)
    assert gpu["allocatable"].to_list()[0] == 4.0


def test_a_gang_that_does_not_train_just_starts_together() -> None:
    work = WorkProfile((Phase(10.0),))
    tasks = tuple(Task(f"t{i}", shape(cores=8.0), work, 10.0, gang=Gang("g", 3)) for i in range(3))
    nodes = (node("n0", cores=8.0), node("n1", cores=8.0))
    result = run(cluster(*nodes), Workflow("w", tasks))
    assert result.tasks["status"].to_list() == ["starved"] * 3
    more = run(cluster(*nodes, node("n2", cores=8.0)), Workflow("w", tasks))
    assert more.tasks["finished_s"].to_list() == [10.0] * 3
    assert more.training.height == 0


def test_the_same_run_gives_the_same_bytes() -> None:
    jobs = [job(f"w{i}", 1 + i % 4, size=50.0 * (1 + i % 3)) for i in range(9)]
    nodes = machines(machine("n0"), machine("n1"), machine("n2", rack="r1"))
    assert run(nodes, *jobs).digest() == run(nodes, *jobs).digest()
    assert not math.isnan(run(nodes, *jobs).summary["makespan_s"][0])


def test_hardware_without_root_complexes_is_one() -> None:
    flat = Node("n0", machine("n0").allocatable, hardware=Hardware(cores=16.0, gpus=(Gpu("g"), Gpu("g"))))
    assert steps(run(machines(flat), job("w", 2)))[0][0] == "same_root_complex"
