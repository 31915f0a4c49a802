"""From described machines and work to what the kernel runs: each field reaches its law."""

from dataclasses import replace

import numpy as np
import pytest

from stowplan.core.domain import Disk, Gpu, Phase, Task, Workflow, WorkProfile
from stowplan.core.physics.cpu import cpu_weight_of_request
from stowplan.errors import InvalidInput
from stowplan.simulate.clusters.model import Cluster, Fabric
from stowplan.simulate.demands import Demands, profiles_of
from stowplan.simulate.hardware import Machines
from stowplan.simulate.kernel import OWN_NIC_DOWN, OWN_NIC_UP, RACK_DOWN, RACK_UP, own_root_complex
from stowplan.simulate.simulator import Simulation
from tests.simulation_cases import GIB, cluster, node, task, workload


def finished_s(machines: Cluster, *tasks: Task) -> list[float]:
    run = Simulation(machines, workload(Workflow("w", tasks)), "round-robin", seed=0).run()
    return run.tasks.sort("task")["finished_s"].to_list()


def test_what_is_not_told_limits_nothing_but_cores_are_those_allocatable() -> None:
    bare = replace(node("n0", cores=3.0), hardware=replace(node("n0").hardware, cores=0.0))
    told = Machines.of(cluster(bare)).nodes
    assert told.cpu_cores.tolist() == [3.0]
    assert told.memory_bytes.tolist() == [16.0 * GIB]
    for name in ("dram_bytes_per_s", "disk_bytes_per_s", "disk_operations_per_s", "nic_up_bytes_per_s"):
        assert np.isinf(getattr(told, name)).all(), name
    assert np.isinf(told.pcie_bytes_per_s).all()


def test_the_disks_of_a_node_add_up() -> None:
    disks = (Disk(4e7, 0.0), Disk(6e7, 0.0))
    assert finished_s(cluster(node("n0", disks=disks)), task("a", disk_read_bytes_per_s=2e8)) == [
        pytest.approx(20.0)
    ]


def test_a_burst_bucket_runs_dry() -> None:
    # 1 GB at 100 MB/s; the bucket of 250 MB loses 50 MB/s and is dry at 5 s; the other 500 MB go at 50 MB/s.
    disk = Disk(5e7, 0.0, burst_bytes_per_s=1e8, credits_bytes=2.5e8)
    ends = finished_s(cluster(node("n0", disks=(disk,))), task("a", disk_write_bytes_per_s=1e8))
    assert ends == [pytest.approx(15.0)]


def test_operations_bound_the_disk_too() -> None:
    # 1,000 operations per second of 10 kB are 10 MB/s, half of what is asked.
    work = WorkProfile((Phase(10.0, disk_read_bytes_per_s=2e7, disk_request_bytes=1e4),))
    assert finished_s(cluster(node("n0", disks=(Disk(1e9, 1000.0),))), task("a", work=work)) == [
        pytest.approx(20.0)
    ]


def test_nodes_of_one_rack_share_its_uplink_and_the_zone_is_not_left() -> None:
    fabric = Fabric(rack_uplink_bytes_per_s=1e8, zone_uplink_bytes_per_s=1e3)
    nodes = [node("n0", rack="r0"), node("n1", rack="r0"), node("n2", rack="r1")]
    ends = finished_s(
        cluster(*nodes, fabric=fabric), *(task(name, nic_up_bytes_per_s=1e8) for name in ("a", "b", "c"))
    )
    assert ends == pytest.approx([20.0, 20.0, 10.0])


def test_racks_of_one_name_in_two_zones_are_two() -> None:
    fabric = Fabric(rack_uplink_bytes_per_s=1e8)
    nodes = [node("n0", zone="z0"), node("n1", zone="z1")]
    tasks = [task(name, nic_down_bytes_per_s=1e8) for name in ("a", "b")]
    assert finished_s(cluster(*nodes, fabric=fabric), *tasks) == pytest.approx([10.0, 10.0])


def test_root_complexes_are_counted_by_first_mention_and_bounded() -> None:
    gpus = tuple(Gpu("A", f"pci{index % 3}") for index in (2, 0, 2, 1))
    assert Machines.of(cluster(node("n0", gpus=gpus))).root_of_gpu == ((0, 1, 0, 2),)
    many = tuple(Gpu("A", f"pci{index}") for index in range(9))
    with pytest.raises(InvalidInput, match="'n0' has 9 PCIe root complexes"):
        Machines.of(cluster(node("n0", gpus=many)))


def test_flows_are_named_where_there_is_traffic_only() -> None:
    work = WorkProfile((Phase(1.0, nic_up_bytes_per_s=5.0, pcie_bytes_per_s=7.0), Phase(1.0)))
    table = profiles_of([(work, 0.25)], leaves_rack=True, root_complex=1).phases
    assert table["flow_count"].tolist() == [3, 0]
    assert table["flow_link"][0, :3].tolist() == [OWN_NIC_UP, own_root_complex(1), RACK_UP]
    assert table["flow_bytes_per_s"][0, :3].tolist() == [5.0, 7.0, 5.0]
    assert table["gpu_utilisation"].tolist() == [0.25, 0.25]
    down = WorkProfile((Phase(1.0, nic_down_bytes_per_s=3.0),))
    table = profiles_of([(down, 0.0)], leaves_rack=False).phases
    assert table["flow_link"][0, : table["flow_count"][0]].tolist() == [OWN_NIC_DOWN]
    table = profiles_of([(down, 0.0)], leaves_rack=True).phases
    assert table["flow_link"][0, : table["flow_count"][0]].tolist() == [OWN_NIC_DOWN, RACK_DOWN]


def test_requests_limits_and_machine_factors_are_read_off() -> None:
    work = WorkProfile(
        (Phase(4.0, cpu_cores=2.0), Phase(6.0, cpu_cores=0.5)),
        anon_bytes=1e9,
        memory_limit_bytes=2e9,
        cpu_limit_cores=1.5,
        machine_factors=(("big", 0.5), ("old", 2.0)),
    )
    table = Demands([task("a", cores=0.5, memory_gib=2.0, work=work), task("b")], ["big", "old", "other"])
    assert table.cpu_weight.tolist() == [cpu_weight_of_request(0.5), cpu_weight_of_request(1.0)]
    assert table.cpu_limit_cores.tolist() == [1.5, np.inf]
    assert table.memory_limit_bytes.tolist() == [2e9, np.inf]
    assert table.memory_request_bytes.tolist() == [2.0 * GIB, 1.0 * GIB]
    assert table.alone_s.tolist() == [10.0, 10.0]
    assert table.cpu_core_s.tolist() == [11.0, 10.0]
    assert table.speeds[table.factor_id].tolist() == [[2.0, 0.5, 1.0], [1.0, 1.0, 1.0]]


def test_weights_share_a_short_machine_by_request() -> None:
    # One real core; weights of 2 and 1 requested cores are w2 and w1: beside b, a gets w2/(w1+w2) of it.
    short = node("n0", cores=4.0)
    short = replace(short, hardware=replace(short.hardware, cores=1.0))
    a, b = task("a", cores=2.0, cpu_cores=1.0), task("b", cores=1.0, cpu_cores=1.0)
    heavy, light = cpu_weight_of_request(2.0), cpu_weight_of_request(1.0)
    first_s = 10.0 * (heavy + light) / heavy
    assert finished_s(cluster(short), a, b) == pytest.approx([first_s, 20.0])
