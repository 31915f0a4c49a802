"""Tasks that cannot run, lost tasks, faults, windows, horizons and interruptions."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import polars as pl
import pytest

from stowplan.core.domain import Disk, Gpu, GpuRequest, Phase, Resources, Task, Workflow, WorkProfile
from stowplan.core.physics.laws import PhysicsLaws
from stowplan.core.physics.vocabulary import Resource
from stowplan.core.policy import CycleView, Plan, make_policy
from stowplan.errors import UnknownName
from stowplan.simulate.clusters.model import BackgroundTenant, Drift
from stowplan.simulate.faults import FaultPlan
from stowplan.simulate.options import SimulationOptions
from stowplan.simulate.progress import RunProgress
from stowplan.simulate.results import RunResult
from stowplan.simulate.simulator import Simulation
from stowplan.simulate.workloads.arrivals import Poisson
from tests.simulation_cases import GIB, busy_cluster, busy_workload, cluster, node, shape, task, workload

CHECKED = SimulationOptions(validates=True)


def plan(*rules: Mapping[str, object]) -> FaultPlan:
    return FaultPlan.parse(list(rules), "faults")


def ends(result: RunResult) -> list[tuple[str, int, str, float | None]]:
    return result.tasks.select("task", "attempt", "status", "finished_s").rows()


def one(name: str, **fields: Any) -> Workflow:  # noqa: ANN401
    return Workflow(name, (task("a", **fields),))


class HoldsBack:
    """Round robin that never orders the task named "zz", the last by key, so that other indexes stay."""

    name = "holds-back"

    def __init__(self) -> None:
        self._inner = make_policy("round-robin")

    def plan(self, view: CycleView) -> Plan:
        others = [task for task in view.pending if task.task.name != "zz"]
        return self._inner.plan(replace(view, pending=others))


# ---- tasks that cannot run -----------------------------------------------------------------------


def test_a_task_larger_than_every_node_is_reported_at_once_and_the_rest_runs_on() -> None:
    w = Workflow(
        "w", (task("big", cores=64.0), task("child"), task("free", seconds=7.0)), (("big", "child"),)
    )
    run = Simulation(cluster(node("n0")), workload(w, one("x")), "round-robin", seed=0, options=CHECKED).run()
    by_task = {row["task"]: row for row in run.tasks.filter(pl.col("workflow") == "w").to_dicts()}
    assert (by_task["big"]["status"], by_task["child"]["status"]) == ("infeasible", "skipped")
    assert "NodeResourcesFit" in by_task["big"]["reason"]
    assert by_task["free"]["status"] == "done"
    assert run.workflows["status"].to_list() == ["failed", "done"]
    assert run.summary["tasks_infeasible"][0] == 1
    assert not run.is_partial


def test_a_task_that_could_run_but_never_does_is_starved_with_its_reason() -> None:
    w = Workflow("w", (task("zz"), task("child"), task("free")), (("zz", "child"),))
    run = Simulation(cluster(node("n0")), workload(w), HoldsBack(), seed=0, options=CHECKED).run()
    by_task = {row["task"]: row for row in run.tasks.to_dicts()}
    assert by_task["zz"]["status"] == "starved"
    assert "holds the task back" in by_task["zz"]["reason"]
    assert by_task["child"]["status"] == "skipped"
    assert by_task["free"]["status"] == "done"
    assert run.summary["tasks_starved"][0] == 1


def test_a_workload_of_which_nothing_fits_ends_at_once() -> None:
    run = Simulation(cluster(node("n0")), workload(one("w", cores=99.0)), "kube-scheduler", seed=0).run()
    assert ends(run) == [("a", 0, "infeasible", None)]
    assert run.summary["makespan_s"][0] == 0.0
    assert run.summary["completion_mean_s"][0] is None
    assert run.usage.height == 0


def test_unknown_policy_offers_the_nearest() -> None:
    with pytest.raises(UnknownName, match="did you mean 'round-robin'"):
        Simulation(cluster(node("n0")), workload(one("w")), "round-robbin", seed=0)


# ---- memory --------------------------------------------------------------------------------------


def test_memory_pressure_evicts_the_task_most_above_its_request_and_it_is_tried_again() -> None:
    # 4 GiB node; a asks for 1 GiB and grows to 3 GiB, b asks for 2 GiB and grows to 2 GiB: 4 GiB are passed
    # before the end.
    w = Workflow(
        "w",
        (
            task("a", memory_gib=1.0, work=WorkProfile((Phase(10.0),), anon_bytes=3.0 * GIB)),
            task("b", memory_gib=2.0, work=WorkProfile((Phase(10.0),), anon_bytes=2.0 * GIB)),
        ),
    )
    options = replace(CHECKED, retry_backoff_s=2.0)
    machines = cluster(node("n0", memory_gib=4.0))
    run = Simulation(machines, workload(w), "round-robin", seed=0, options=options).run()
    assert [row[:3] for row in ends(run)] == [("a", 1, "evicted"), ("b", 1, "done"), ("a", 2, "done")]
    # Anonymous memory grows by 0.3 and 0.2 GiB/s: 4 GiB at 8 s. Pending again 2 s later, ends at 20 s.
    assert [row[3] for row in ends(run)] == pytest.approx([8.0, 10.0, 20.0])
    assert run.tasks["ready_s"].to_list() == pytest.approx([0.0, 0.0, 10.0])


# ---- faults --------------------------------------------------------------------------------------

DOWN = {"kind": "node-not-ready", "nodes": ["n0"], "at_s": 4.0}


def test_a_kernel_fault_loses_the_tasks_when_the_node_is_back() -> None:
    # Silent from 4 to 10 s, shorter than the grace: nobody noticed; the reboot took the task. Again from 10
    # to 20 s.
    run = Simulation(
        cluster(node("n0")),
        workload(one("w")),
        "round-robin",
        seed=0,
        options=CHECKED,
        faults=plan({**DOWN, "cause": "kernel", "duration_s": 6.0}),
    ).run()
    assert ends(run) == [("a", 1, "node_lost", pytest.approx(10.0)), ("a", 2, "done", pytest.approx(20.0))]
    assert run.tasks["slow_node_s"][0] == pytest.approx(6.0)
    assert run.summary["faults"][0] == 1


def test_a_cut_off_node_runs_on_but_nobody_hears_of_it() -> None:
    # a (10 s, no network) ends at 10 s unheard; the node is back at 34 s; only then may b begin.
    w = Workflow("w", (task("a"), task("b", seconds=5.0)), (("a", "b"),))
    run = Simulation(
        cluster(node("n0")),
        workload(w),
        "round-robin",
        seed=0,
        options=CHECKED,
        faults=plan({**DOWN, "cause": "network", "duration_s": 30.0}),
    ).run()
    assert ends(run) == [("a", 1, "done", pytest.approx(10.0)), ("b", 1, "done", pytest.approx(39.0))]
    assert run.tasks["ready_s"][1] == pytest.approx(34.0)


def test_traffic_stands_still_on_a_cut_off_node_and_disks_on_a_hung_one() -> None:
    sends = one("w", nic_up_bytes_per_s=1e6)
    run = Simulation(
        cluster(node("n0", nic_up_bytes_per_s=1e9)),
        workload(sends),
        "round-robin",
        seed=0,
        options=CHECKED,
        faults=plan({**DOWN, "cause": "network", "duration_s": 30.0}),
    ).run()
    assert ends(run) == [("a", 1, "done", pytest.approx(40.0))]
    assert run.tasks["slow_network_s"][0] == pytest.approx(30.0)
    writes = one("w", disk_write_bytes_per_s=1e6)
    run = Simulation(
        cluster(node("n0", disks=(Disk(1e9, 0.0),))),
        workload(writes),
        "round-robin",
        seed=0,
        options=CHECKED,
        faults=plan({**DOWN, "cause": "storage", "duration_s": 30.0}),
    ).run()
    assert ends(run) == [("a", 1, "done", pytest.approx(40.0, abs=1e-6))]
    assert run.tasks["slow_disk_s"][0] == pytest.approx(30.0, abs=1e-6)


def test_a_long_outage_moves_the_pods_after_grace_and_toleration() -> None:
    # Silent at 4 s, noticed at 44 s, given up at 344 s; n1 takes the task over. b, submitted at 50 s,
    # avoids n0 at once.
    w, x = one("w"), one("x")
    run = Simulation(
        cluster(node("n0", cores=1.0), node("n1", cores=2.0)),
        workload(w, x, times_s=[0.0, 50.0]),
        "round-robin",
        seed=0,
        options=CHECKED,
        faults=plan({**DOWN, "duration_s": 1000.0}),
    ).run()
    rows = run.tasks.select("workflow", "node", "status", "placed_s", "finished_s").rows()
    assert rows == [
        ("w", "n0", "node_lost", 0.0, pytest.approx(344.0)),
        ("x", "n1", "done", 50.0, pytest.approx(60.0)),
        ("w", "n1", "done", pytest.approx(344.0), pytest.approx(354.0)),
    ]


def test_pending_tasks_wait_for_a_node_that_will_be_back() -> None:
    options = replace(CHECKED, node_monitor_grace_s=1.0)
    w = one("w")
    run = Simulation(
        cluster(node("n0")),
        workload(w, times_s=[6.0]),
        "round-robin",
        seed=0,
        options=options,
        faults=plan({**DOWN, "duration_s": 100.0}),
    ).run()
    assert ends(run) == [("a", 1, "done", pytest.approx(114.0))]


def test_spot_reclaim_gives_notice_takes_the_node_and_brings_it_back() -> None:
    # Notice at 4 s: no new pods (x waits). Gone at 6 s with w's task; back at 16 s: both run there.
    reclaim = {"kind": "spot-reclaim", "nodes": ["n0"], "at_s": 4.0, "notice_s": 2.0, "duration_s": 10.0}
    run = Simulation(
        cluster(node("n0")),
        workload(one("w"), one("x"), times_s=[0.0, 5.0]),
        "round-robin",
        seed=0,
        options=CHECKED,
        faults=plan(reclaim),
    ).run()
    rows = run.tasks.select("workflow", "status", "placed_s", "finished_s").rows()
    assert rows[0] == ("w", "node_lost", 0.0, pytest.approx(6.0))
    assert sorted(rows[1:]) == [
        ("w", "done", 16.0, pytest.approx(26.0)),
        ("x", "done", 16.0, pytest.approx(26.0)),
    ]


def test_a_node_that_never_returns_leaves_its_tasks_infeasible() -> None:
    run = Simulation(
        cluster(node("n0")),
        workload(one("w")),
        "round-robin",
        seed=0,
        options=CHECKED,
        faults=plan({"kind": "spot-reclaim", "nodes": ["n0"], "at_s": 4.0}),
    ).run()
    assert [row[:3] for row in ends(run)] == [("a", 1, "node_lost"), ("a", 0, "infeasible")]


def test_reclaim_during_an_outage_ends_the_outage() -> None:
    run = Simulation(
        cluster(node("n0")),
        workload(one("w")),
        "round-robin",
        seed=0,
        options=CHECKED,
        faults=plan(
            {**DOWN, "cause": "network", "duration_s": 500.0},
            {"kind": "spot-reclaim", "nodes": ["n0"], "at_s": 5.0, "duration_s": 15.0},
        ),
    ).run()
    assert ends(run) == [("a", 1, "node_lost", pytest.approx(5.0)), ("a", 2, "done", pytest.approx(30.0))]


def test_a_rack_outage_hits_every_node_of_the_rack() -> None:
    machines = cluster(node("n0", rack="r1"), node("n1", rack="r1"), node("n2", rack="r2"))
    w = Workflow("w", tuple(task(name) for name in "abc"))
    run = Simulation(
        machines,
        workload(w),
        "round-robin",
        seed=0,
        options=CHECKED,
        faults=plan({"kind": "rack-outage", "racks": ["r1"], "at_s": 3.0, "duration_s": 5.0}),
    ).run()
    lost = run.tasks.filter(pl.col("status") == "node_lost")
    assert lost["node"].to_list() == ["n0", "n1"]
    assert lost["finished_s"].to_list() == pytest.approx([8.0, 8.0])


def test_disk_stall_slows_and_overlapping_stalls_multiply() -> None:
    # 10 s of writing 100 MB/s at the disk's 100 MB/s. Half rate from 2 s, a quarter from 4 to 8 s, half
    # until 12 s, then whole. Work done: 2 + 1 + 1 + 2 = 6 at 12 s; 4 left: 16 s.
    disk = (Disk(1e8, 0.0),)
    stall = {"kind": "disk-stall", "nodes": ["n0"], "factor": 0.5}
    run = Simulation(
        cluster(node("n0", disks=disk)),
        workload(one("w", disk_write_bytes_per_s=1e8)),
        "round-robin",
        seed=0,
        options=CHECKED,
        faults=plan({**stall, "at_s": 2.0, "duration_s": 10.0}, {**stall, "at_s": 4.0, "duration_s": 4.0}),
    ).run()
    assert ends(run) == [("a", 1, "done", pytest.approx(16.0))]
    assert run.tasks["slow_disk_s"][0] == pytest.approx(6.0)


def test_pcie_link_down_stops_only_the_root_complex_that_it_hangs_off() -> None:
    gpus = (Gpu("A", "pci0"), Gpu("A", "pci1"))
    machines = cluster(node("n0", gpus=gpus, pcie_bytes_per_s=1e10))
    work = WorkProfile((Phase(10.0, pcie_bytes_per_s=1e9),))
    tasks = tuple(Task(name, replace(shape(), gpu=GpuRequest(1)), work, 10.0) for name in "ab")
    run = Simulation(
        machines,
        workload(Workflow("w", tasks)),
        "round-robin",
        seed=0,
        options=CHECKED,
        faults=plan({"kind": "pcie-link-down", "at_s": 4.0, "duration_s": 6.0, "root_complex": 1}),
    ).run()
    assert ends(run) == [("a", 1, "done", pytest.approx(10.0)), ("b", 1, "done", pytest.approx(16.0))]
    assert run.tasks["slow_pcie_s"].to_list() == pytest.approx([0.0, 6.0])


def test_a_slow_api_delays_cycles_and_bindings() -> None:
    # Submitted at 10 s; the cycle is 3 s later and the binding another 3 s: runs 16 … 26 s.
    run = Simulation(
        cluster(node("n0")),
        workload(one("w", seconds=10.0), times_s=[10.0]),
        "round-robin",
        seed=0,
        options=CHECKED,
        faults=plan({"kind": "api-slow", "at_s": 5.0, "duration_s": 100.0, "delay_s": 3.0}),
    ).run()
    row = run.tasks.to_dicts()[0]
    assert (row["placed_s"], row["started_s"], row["finished_s"]) == pytest.approx((13.0, 16.0, 26.0))


# ---- background ----------------------------------------------------------------------------------


def test_background_tenants_press_without_requests_and_skip_a_turn_that_is_not_over() -> None:
    # The tenant wants 8 of 10 GB/s for 3 s of work, every 2 s. Beside our 8 GB/s both get 5: its 24 GB take
    # 4.8 s, so the turns at 2 and 4 s are skipped, and the next begins at 6 s.
    tenant = BackgroundTenant("backup", "n0", WorkProfile((Phase(3.0, dram_bytes_per_s=8e9),)), 0.0, 2.0)
    machines = cluster(node("n0", dram_bytes_per_s=1e10), background=(tenant,))
    run = Simulation(
        machines,
        workload(one("w", dram_bytes_per_s=8e9)),
        "round-robin",
        seed=0,
        options=CHECKED,
        laws=PhysicsLaws(dram_latency_coefficient=0.0),
    ).run()
    # Ours: 24 GB by 4.8 s, 9.6 GB until 6 s (33.6), then 24 GB until 10.8 s (57.6), until 12 s 9.6 (67.2),
    # the other 12.8 at 5: 14.56.
    assert ends(run) == [("a", 1, "done", pytest.approx(14.56))]
    assert run.tasks.height == 1


def test_drift_degrades_and_recovers_by_its_own_generator() -> None:
    drift = Drift(
        nodes=("n0",), resource=Resource.DISK, mean_normal_s=20.0, mean_degraded_s=10.0, degraded_factor=0.1
    )
    steady = cluster(node("n0", disks=(Disk(1e8, 0.0),)))
    drifting = replace(steady, drift=(drift,))
    long = workload(one("w", seconds=300.0, disk_write_bytes_per_s=1e8))
    first = Simulation(drifting, long, "round-robin", seed=1).run()
    again = Simulation(drifting, long, "round-robin", seed=1).run()
    other = Simulation(drifting, long, "round-robin", seed=2).run()
    assert Simulation(steady, long, "round-robin", seed=1).run().summary["makespan_s"][0] == pytest.approx(
        300.0
    )
    assert first.digest() == again.digest()
    assert first.summary["makespan_s"][0] != other.summary["makespan_s"][0]
    # A third of the time at a tenth of the rate: 0.7 of the rate on average.
    assert first.summary["makespan_s"][0] == pytest.approx(300.0 / 0.7, rel=0.35)


# ---- running -------------------------------------------------------------------------------------


def test_the_same_seed_draws_the_same_arrivals_for_every_policy() -> None:
    runs = [
        Simulation(busy_cluster(), busy_workload(1), policy, seed=seed, arrivals=Poisson(20.0)).run()
        for policy, seed in (("round-robin", 5), ("kube-scheduler", 5), ("round-robin", 6))
    ]
    submitted = [run.workflows["submitted_s"].to_list() for run in runs]
    assert submitted[0] == submitted[1]
    assert submitted[0] != submitted[2]


def test_the_horizon_cuts_the_run_and_marks_it_partial() -> None:
    w = Workflow("w", (task("a"), task("b")), (("a", "b"),))
    options = replace(CHECKED, horizon_s=15.0)
    run = Simulation(cluster(node("n0")), workload(w), "round-robin", seed=0, options=options).run()
    assert run.is_partial
    assert ends(run) == [("a", 1, "done", pytest.approx(10.0)), ("b", 1, "running", None)]
    assert run.workflows["status"].to_list() == ["unfinished"]
    assert run.summary["makespan_s"][0] == pytest.approx(15.0)


def test_a_stop_request_keeps_what_was_reached() -> None:
    simulation = Simulation(busy_cluster(), busy_workload(2), "round-robin", seed=0)
    for _ in range(40):
        simulation.step()
    simulation.request_stop()
    run = simulation.run()
    assert run.is_partial
    assert 0 < run.summary["tasks_done"][0] < run.summary["tasks"][0]


def test_observers_see_the_run_end() -> None:
    seen: list[RunProgress] = []
    run = Simulation(busy_cluster(), busy_workload(2), "round-robin", seed=0).run(seen.append)
    assert seen[-1].ended_tasks == seen[-1].tasks == run.summary["tasks"][0]
    assert seen[-1].running_tasks == seen[-1].pending_tasks == 0


@pytest.mark.parametrize(
    "policy", ["round-robin", "kube-scheduler", "critical-path", "srpt", "tetris", "random"]
)
def test_a_busy_run_holds_all_invariants_at_every_step(policy: str) -> None:
    faults = plan(
        {
            "kind": "node-not-ready",
            "cause": "network",
            "every_s": 60.0,
            "duration_s": 50.0,
            "duration": "exponential",
        },
        {"kind": "node-not-ready", "cause": "kernel", "every_s": 90.0, "duration_s": 30.0},
        {"kind": "spot-reclaim", "every_s": 120.0, "notice_s": 10.0, "duration_s": 40.0},
        {"kind": "disk-stall", "every_s": 30.0, "duration_s": 10.0},
    )
    options = replace(CHECKED, node_monitor_grace_s=5.0, unreachable_toleration_s=20.0, retry_backoff_s=1.0)
    run = Simulation(busy_cluster(), busy_workload(3), policy, seed=4, faults=faults, options=options).run()
    assert run.summary["faults"][0] > 5
    assert run.summary["node_losses"][0] > 0
    assert not run.is_partial


@pytest.mark.parametrize("window", [1, 3, 50])
def test_a_window_ends_the_same_work(window: int) -> None:
    w = Workflow("w", (task("big", cores=99.0), *(task(f"t{i}", cores=1.0 + i % 3) for i in range(20))))
    options = replace(CHECKED, window_tasks=window)
    run = Simulation(cluster(node("n0")), workload(w), "round-robin", seed=0, options=options).run()
    assert run.summary["tasks_done"][0] == 20
    assert run.summary["tasks_infeasible"][0] == 1


def test_without_contention_nobody_slows_anybody() -> None:
    run = Simulation(busy_cluster(), busy_workload(3), "round-robin", seed=0, contention=False).run()
    done = run.tasks.filter(pl.col("status") == "done")
    assert done.height == run.summary["tasks"][0]
    assert (done["actual_s"] - done["alone_s"]).abs().max() == pytest.approx(0.0, abs=1e-6)


def test_a_task_without_work_ends_at_once_and_frees_its_children() -> None:
    empty = Task("a", shape(), WorkProfile(()), 0.0)
    w = Workflow("w", (empty, task("b", seconds=3.0)), (("a", "b"),))
    run = Simulation(cluster(node("n0")), workload(w), "round-robin", seed=0, options=CHECKED).run()
    assert [row[3] for row in ends(run)] == pytest.approx([0.0, 3.0])


def test_a_node_without_described_hardware_has_its_allocatable_cores() -> None:
    bare = replace(node("n0"), hardware=replace(node("n0").hardware, cores=0.0))
    half = replace(bare, allocatable=Resources({"cpu": 2000, "memory": 16 * GIB, "pods": 110}))
    w = Workflow("w", tuple(task(name, seconds=6.0, cores=0.5, cpu_cores=2.0) for name in "ab"))
    run = Simulation(cluster(half), workload(w), "round-robin", seed=0, options=CHECKED).run()
    assert run.summary["makespan_s"][0] == pytest.approx(12.0)
    assert math.isclose(run.summary["cpu_utilisation"][0], 1.0)
