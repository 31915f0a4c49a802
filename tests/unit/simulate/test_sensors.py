"""What agents on the simulated nodes measure: worked out by hand, and that measuring changes nothing."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from stowplan.core.domain import Disk, Phase, Workflow, WorkProfile
from stowplan.core.physics.vocabulary import Resource
from stowplan.core.policy import CycleView, make_policy
from stowplan.core.policy.interface import Plan
from stowplan.core.semantics import NodeReadings
from stowplan.errors import InvalidInput
from stowplan.simulate.clusters.model import BackgroundTenant, Cluster, Drift, Fabric, Link
from stowplan.simulate.faults import FaultPlan
from stowplan.simulate.options import SensorOptions, SimulationOptions
from stowplan.simulate.simulator import Simulation
from stowplan.simulate.workloads.model import Workload
from tests.simulation_cases import busy_cluster, busy_workload, cluster, node, task, workload

KIB = 1024.0
ACHIEVABLE = 0.85
EXACT = SensorOptions()


class Watcher:
    """srpt that looks at readings, and keeps what it saw by time."""

    name = "srpt"
    reads_nodes = True

    def __init__(self) -> None:
        self._rule = make_policy("srpt")
        self.seen: dict[float, dict[str, list[float]]] = {}
        self.boards: list[NodeReadings] = []

    def plan(self, view: CycleView) -> Plan:
        board = view.readings
        assert board is not None
        self.boards.append(board)
        self.seen[view.now_s] = {name: board.column(name).tolist() for name in board.quantities}
        return self._rule.plan(view)


def ticks(times_s: Sequence[float]) -> Workload:
    """Tasks that do next to nothing, one at each of `times_s`: so many cycles to look in."""
    small = (task("t", seconds=0.001, cores=0.001, memory_gib=0.001),)
    return workload(*(Workflow(f"tick{n}", small) for n in range(len(times_s))), times_s=times_s)


def watch(machines: Cluster, load: Workload, sensors: SensorOptions = EXACT) -> Watcher:
    watcher = Watcher()
    Simulation(machines, load, watcher, seed=1, options=SimulationOptions(sensors=sensors)).run()
    return watcher


def io(rate: float, *, queue: float = 1024 * KIB) -> Phase:
    return Phase(
        1000.0,
        cpu_cores=0.0,
        disk_read_bytes_per_s=rate,
        disk_queue_bytes=queue,
        disk_request_bytes=128 * KIB,
    )


def tenant(*phases: Phase, on: str = "n", first_s: float = 0.0) -> BackgroundTenant:
    return BackgroundTenant("tenant", on, WorkProfile(phases), first_s)


def machine(name: str = "n") -> Cluster:
    return cluster(
        node(name, cores=4.0, dram_bytes_per_s=2e10, disks=(Disk(100e6, 2000.0),), nic_up_bytes_per_s=1e8,
             nic_down_bytes_per_s=1e8)
    )  # fmt: skip


def with_tenants(*tenants: BackgroundTenant) -> Cluster:
    (only,) = machine().nodes
    return cluster(only, background=tenants)


def test_nothing_is_known_before_two_readings_nor_much_of_an_idle_node() -> None:
    seen = watch(machine(), ticks([0.0, 4.0, 5.0, 21.0])).seen
    assert all(math.isnan(column[0]) for column in seen[4.0].values())
    idle = {name: column[0] for name, column in seen[5.0].items()}
    assert idle["cpu_utilisation"] == pytest.approx(0.0, abs=1e-3)
    assert idle["memory_bandwidth_utilisation"] == 0.0 == idle["memory_bandwidth_pressure"]
    assert idle["storage_utilisation"] == 0.0 == idle["storage_bytes_per_s"] == idle["storage_queue_depth"]
    assert idle["cpu_wait_share"] == 0.0 == idle["nic_utilisation"]
    for unknown in ("storage_await_s", "storage_level", "rtt_tail_s", "pcie_link_share"):
        assert math.isnan(idle[unknown])


def test_a_tenant_that_nobody_placed_shows() -> None:
    work = Phase(1000.0, cpu_cores=1.0, dram_bytes_per_s=1e10)
    seen = watch(with_tenants(tenant(work)), ticks([10.0])).seen[10.0]
    assert seen["cpu_utilisation"][0] == pytest.approx(0.25, rel=1e-3)
    assert seen["memory_bandwidth_utilisation"][0] == pytest.approx(0.5 * ACHIEVABLE)
    assert 0.0 < seen["memory_bandwidth_pressure"][0] < 1.0


def test_readings_are_means_over_the_interval_before() -> None:
    work = Phase(1000.0, cpu_cores=1.0, dram_bytes_per_s=1e10)
    seen = watch(with_tenants(tenant(work, first_s=7.0)), ticks([9.9, 10.0, 14.9, 15.0])).seen
    utilisation = [seen[at]["memory_bandwidth_utilisation"][0] / ACHIEVABLE for at in (9.9, 10.0, 14.9, 15.0)]
    assert utilisation == pytest.approx([0.0, 0.3, 0.3, 0.5])


def test_a_disk_that_is_not_full_answers_at_its_own_pace() -> None:
    seen = watch(with_tenants(tenant(io(50e6))), ticks([30.0])).seen[30.0]
    service_s = 128 * KIB / 100e6
    assert seen["storage_bytes_per_s"][0] == pytest.approx(50e6, rel=1e-3)
    assert seen["storage_utilisation"][0] == pytest.approx(0.5, rel=1e-3)
    assert seen["storage_await_s"][0] == pytest.approx(service_s, rel=1e-3)
    assert seen["storage_queue_depth"][0] == pytest.approx(0.5, rel=1e-3)  # requests per second × wait
    assert seen["storage_level"][0] == 0.0


def test_a_full_disk_makes_wait_by_what_is_outstanding() -> None:
    machines = with_tenants(tenant(io(200e6)), tenant(io(200e6, queue=3072 * KIB)))
    seen = watch(machines, ticks([30.0])).seen[30.0]
    requests = (1024 + 3072) / 128
    assert seen["storage_bytes_per_s"][0] == pytest.approx(100e6, rel=1e-3)
    assert seen["storage_utilisation"][0] == pytest.approx(1.0, rel=1e-3)
    assert seen["storage_queue_depth"][0] == pytest.approx(requests, rel=1e-3)
    # Little's law: 32 requests in flight at 100 MB/s ÷ 128 KiB = 763 a second.
    assert seen["storage_await_s"][0] == pytest.approx(requests * 128 * KIB / 100e6, rel=1e-2)
    assert seen["storage_level"][0] == 1.0  # 42 ms: busy


def test_a_degraded_disk_shows_in_what_it_serves_and_its_level_after_three_readings() -> None:
    (only,) = machine().nodes
    drift = Drift(
        nodes=("n",), resource=Resource.DISK, mean_normal_s=1e-3, mean_degraded_s=1e9, degraded_factor=0.05
    )
    machines = cluster(only, background=(tenant(io(50e6)),), drift=(drift,))
    seen = watch(machines, ticks([5.0, 10.0, 15.0])).seen
    for at in (5.0, 10.0, 15.0):
        assert seen[at]["storage_bytes_per_s"][0] == pytest.approx(5e6, rel=2e-2)
        assert seen[at]["storage_utilisation"][0] == pytest.approx(1.0, rel=1e-2)
    assert seen[15.0]["storage_await_s"][0] == pytest.approx(8 * 128 * KIB / 5e6, rel=2e-2)  # 210 ms
    assert [math.isnan(seen[at]["storage_level"][0]) for at in (5.0, 10.0, 15.0)] == [True, True, False]
    assert seen[15.0]["storage_level"][0] == 3.0


def test_who_waits_for_a_core_shows() -> None:
    busy = [tenant(Phase(1000.0, cpu_cores=3.0)) for _ in range(2)]
    full = watch(with_tenants(*busy), ticks([10.0])).seen[10.0]
    assert full["cpu_utilisation"][0] == pytest.approx(1.0, rel=1e-3)
    assert full["cpu_wait_share"][0] == pytest.approx(1.0)
    half = watch(with_tenants(busy[0]), ticks([10.0])).seen[10.0]
    assert half["cpu_utilisation"][0] == pytest.approx(0.75, rel=1e-3)
    assert half["cpu_wait_share"][0] == 0.0


def test_round_trips_are_those_of_the_fabric() -> None:
    fabric = Fabric(same_rack=Link(1e9, 50e-6), other_zone=Link(1e9, 1e-3))
    nodes = [node(name, zone=zone) for name, zone in (("a", "z0"), ("b", "z0"), ("c", "z0"), ("d", "z1"))]
    seen = watch(cluster(*nodes, fabric=fabric), ticks([5.0])).seen[5.0]
    assert seen["rtt_tail_s"][:4] == pytest.approx([1e-4, 1e-4, 1e-4, 2e-3])


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_looking_changes_nothing(noise: float) -> None:
    """A run in which readings are taken and looked at is the same run, byte for byte."""
    options = SimulationOptions(sensors=SensorOptions(noise=noise, loss=noise))
    run = [
        Simulation(busy_cluster(), busy_workload(3), policy, seed=5, options=options).run()
        for policy in ("srpt", Watcher())
    ]
    assert run[0].digest() == run[1].digest()


def test_nobody_measures_for_a_policy_that_does_not_look() -> None:
    simulation = Simulation(busy_cluster(), busy_workload(3), "srpt", seed=5)
    assert simulation.readings is None
    assert Simulation(busy_cluster(), busy_workload(3), Watcher(), seed=5).readings is not None


def test_it_is_one_board_and_its_numbers_are_possible() -> None:
    watcher = watch(busy_cluster(), busy_workload(3))
    assert len({id(board) for board in watcher.boards}) == 1
    known = {
        name: [one for seen in watcher.seen.values() for one in seen[name] if not math.isnan(one)]
        for name in watcher.boards[0].quantities
    }
    for share in (
        "cpu_utilisation",
        "memory_bandwidth_utilisation",
        "nic_utilisation",
        "storage_utilisation",
    ):
        assert 0.0 <= min(known[share]) < max(known[share]) <= 1.0
    assert max(known["memory_working_set_share"]) > 0.1


def test_noise_loss_and_delay_are_as_told() -> None:
    machines = with_tenants(tenant(Phase(4000.0, cpu_cores=1.0, dram_bytes_per_s=1e10)))
    times_s = [5.0 * n + 0.5 for n in range(2, 600)]
    noisy = watch(machines, ticks(times_s), SensorOptions(noise=0.1))
    told = np.array([seen["memory_bandwidth_utilisation"][0] for seen in noisy.seen.values()])
    ratio = told / (0.5 * ACHIEVABLE)
    assert np.std(np.log(ratio)) == pytest.approx(0.1, rel=0.15)
    assert np.mean(np.log(ratio)) == pytest.approx(0.0, abs=0.02)
    late = watch(machines, ticks([8.0, 12.0, 13.0]), SensorOptions(delay_s=3.0)).seen
    known = [not math.isnan(late[at]["cpu_utilisation"][0]) for at in (8.0, 12.0, 13.0)]
    assert known == [True, True, True]
    assert not math.isnan(late[8.0]["memory_bandwidth_utilisation"][0])
    never = watch(machines, ticks([30.0]), SensorOptions(loss=1.0)).seen[30.0]
    assert all(math.isnan(column[0]) for column in never.values())
    some = watch(machines, ticks(times_s), SensorOptions(loss=0.75)).seen.values()
    share = np.mean([math.isnan(seen["cpu_utilisation"][0]) for seen in some])
    # Unknown when none of the last three came (over 15 s old), or those that frame a rate are too far apart.
    assert 0.1 < share < 0.75


def test_a_node_that_fell_silent_is_not_known_until_it_is_back() -> None:
    fault = {"kind": "node-not-ready", "cause": "kernel", "nodes": ["n"], "at_s": [20], "duration_s": 60}
    watcher = Watcher()
    Simulation(
        with_tenants(tenant(Phase(4000.0, cpu_cores=1.0))),
        ticks([19.0, 30.0, 40.0, 95.0]),
        watcher,
        seed=1,
        faults=FaultPlan.parse([fault], "faults"),
    ).run()
    known = {at: not math.isnan(seen["cpu_utilisation"][0]) for at, seen in watcher.seen.items()}
    assert known[19.0]
    assert known[30.0]  # 15 s old
    assert not known[40.0]
    assert known[95.0]


@pytest.mark.parametrize(
    ("name", "value"),
    [("interval_s", 0.0), ("interval_s", 31.0), ("noise", -0.1), ("loss", 1.5), ("delay_s", math.inf)],
)
def test_options_out_of_range_are_refused(name: str, value: float) -> None:
    with pytest.raises(InvalidInput, match=f"SensorOptions.{name} is"):
        SensorOptions(**{name: value})
