"""Lower bounds of the genomics comparison: by hand, and no simulated run is below them."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from bench.genomics.bounds import LowerBounds
from stowplan.core.domain import Disk, Node, Phase, Workflow, WorkProfile
from stowplan.simulate.clusters.model import Cluster
from stowplan.simulate.simulator import Simulation
from stowplan.simulate.workloads.model import Workload
from tests.simulation_cases import busy_cluster, busy_workload, cluster, node, task, workload


def bounds(machines: Cluster, load: Workload) -> tuple[float, float, float, float]:
    found = LowerBounds(machines, load).of([submission.time_s for submission in load.submissions])
    return found.mean_s, found.p95_s, found.mean_by_path_s, found.mean_by_area_s


def single(name: str, seconds: float, cores: float = 4.0) -> Workflow:
    return Workflow(name, (task("t", seconds=seconds, cores=cores),))


def test_one_machine_serves_the_shortest_first() -> None:
    # 1 s, 2 s and 3 s on one machine that each fills: they end at 1, 3 and 6; no path is longer than 3 s.
    load = workload(single("c", 3.0), single("a", 1.0), single("b", 2.0))
    mean_s, p95_s, path_s, area_s = bounds(cluster(node("n")), load)
    assert area_s == pytest.approx((1 + 3 + 6) / 3)
    assert path_s == pytest.approx(2.0)
    assert mean_s == pytest.approx(area_s)
    assert p95_s == pytest.approx(np.percentile([1.0, 2.0, 3.0], 95))


def test_a_short_one_that_arrives_overtakes() -> None:
    # 10 s from 0, 2 s from 4: the short one takes 2 s, the long one ends at 12.
    load = workload(single("long", 10.0), single("short", 2.0), times_s=[0.0, 4.0])
    assert bounds(cluster(node("n")), load)[3] == pytest.approx((12.0 + 2.0) / 2)


def test_a_path_counts_whatever_there_is_room_for() -> None:
    chain = tuple(task(f"t{i}", seconds=5.0, cores=0.1) for i in range(3))
    load = workload(Workflow("w", chain, (("t0", "t1"), ("t1", "t2"))))
    mean_s, p95_s, path_s, area_s = bounds(cluster(node("n")), load)
    assert path_s == mean_s == p95_s == pytest.approx(15.0)
    assert area_s == pytest.approx(15.0 * 0.1 / 4.0)


def test_some_count_by_their_path_while_the_others_share_the_machine() -> None:
    thin = Workflow("thin", (task("t", seconds=100.0, cores=0.01),))
    load = workload(thin, single("a", 10.0), single("b", 10.0))
    mean_s, _, path_s, area_s = bounds(cluster(node("n")), load)
    # The thin one takes 100 s; the others 10 and 20 s on the one machine.
    assert mean_s == pytest.approx((100.0 + 10.0 + 20.0) / 3)
    assert path_s == pytest.approx(40.0)
    assert area_s < 11.0


def test_scarce_fast_machines_have_a_price() -> None:
    # A task takes 1 s on the fast machine and 3 s on the slow one. At equal prices all would count as fast:
    # 8 s of 4 cores on 8 cores; at 3 to 1 both earn alike, and it is as if there were 4 + 4 / 3 fast cores.
    work = WorkProfile((Phase(1.0, cpu_cores=4.0),), machine_factors=(("slow", 3.0),))
    tasks = tuple(task(f"t{i}", cores=4.0, work=work) for i in range(8))
    machines = cluster(node("fast", machine_type="fast"), node("slow", machine_type="slow"))
    area_s = bounds(machines, workload(Workflow("w", tasks)))[3]
    assert area_s == pytest.approx(8 * 4 / (4 + 4 / 3), rel=1e-3)


def test_a_task_alone_may_be_held_back_by_the_node_and_by_itself() -> None:
    machines = cluster(node("n", dram_bytes_per_s=10e9, disks=(Disk(100e6, 1e6),)))
    reading = WorkProfile((Phase(10.0, cpu_cores=0.1, disk_read_bytes_per_s=400e6),))
    assert bounds(machines, workload(Workflow("w", (task("t", work=reading),))))[0] == pytest.approx(40.0)
    # At 5 of 10 GB/s latency is 1 + 0.165 × ρ / (1.1 − ρ) times as high, of which a half is exposed.
    waiting = WorkProfile((Phase(10.0, cpu_cores=1.0, dram_bytes_per_s=5e9, latency_share=0.5),))
    found_s = bounds(machines, workload(Workflow("w", (task("t", work=waiting),))))[0]
    load = 0.5 * 10.0 / found_s
    assert found_s == pytest.approx(10.0 * (1.0 + 0.5 * 0.165 * load / (1.1 - load)), rel=1e-4)
    limited = WorkProfile((Phase(10.0, cpu_cores=2.0),), cpu_limit_cores=0.5)
    assert bounds(machines, workload(Workflow("w", (task("t", work=limited),))))[0] == pytest.approx(40.0)


@pytest.mark.parametrize("policy", ["srpt", "srpt-physics", "heft"])
@pytest.mark.parametrize("seed", [1, 2])
def test_no_run_is_below(policy: str, seed: int) -> None:
    machines, load = busy_cluster(3), busy_workload(seed, workflows=12)
    plain = Cluster("no-bursts", tuple(_without_bursts(machines)))
    completion_s = Simulation(plain, load, policy, seed=seed).run().workflows["completion_s"].to_numpy()
    mean_s, p95_s, path_s, area_s = bounds(plain, load)
    assert mean_s >= max(path_s, area_s)
    assert completion_s.mean() >= mean_s
    assert np.percentile(completion_s, 95) >= p95_s
    assert completion_s.mean() < 6.0 * mean_s  # it says something


def _without_bursts(machines: Cluster) -> Iterator[Node]:
    for each in machines.nodes:
        disks = tuple(Disk(disk.base_bytes_per_s, disk.base_iops) for disk in each.hardware.disks)
        yield replace(each, hardware=replace(each.hardware, disks=disks))
