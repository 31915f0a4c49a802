"""Episodes whose times are worked out by hand in the comments."""

from dataclasses import replace
from typing import Any

import pytest

from stowplan.core.domain import Disk, Phase, Workflow, WorkProfile
from stowplan.core.physics.laws import PhysicsLaws
from stowplan.simulate.options import SimulationOptions
from stowplan.simulate.results import RunResult
from stowplan.simulate.simulator import Simulation
from tests.simulation_cases import GIB, cluster, node, task, workload

NO_LATENCY = PhysicsLaws(dram_latency_coefficient=0.0)


def times(result: RunResult) -> dict[str, tuple[float, float]]:
    rows = result.tasks.select("task", "started_s", "finished_s").iter_rows()
    return {name: (started_s, finished_s) for name, started_s, finished_s in rows}


def test_two_tasks_share_memory_bandwidth_until_the_shorter_ends() -> None:
    # One node, B = 10 GB/s. a wants 8 GB/s for 10 s (80 GB), b wants 8 GB/s for 5 s (40 GB). Together each
    # gets 5 GB/s: b needs 40/5 = 8 s. By then a has moved 40 GB; its other 40 GB at 8 GB/s take 5 s: 13 s.
    # a lost 3 s and b lost 3 s, all to bandwidth.
    both = Workflow(
        "w", (task("a", seconds=10.0, dram_bytes_per_s=8e9), task("b", seconds=5.0, dram_bytes_per_s=8e9))
    )
    run = Simulation(
        cluster(node("n0", dram_bytes_per_s=1e10)), workload(both), "round-robin", seed=0, laws=NO_LATENCY
    ).run()
    assert times(run) == {"a": pytest.approx((0.0, 13.0)), "b": pytest.approx((0.0, 8.0))}
    assert run.tasks["slow_dram_bandwidth_s"].to_list() == pytest.approx([3.0, 3.0])
    assert run.summary["makespan_s"][0] == pytest.approx(13.0)
    assert run.summary["dram_utilisation"][0] == pytest.approx(120e9 / (13.0 * 1e10))


def test_a_chain_beside_a_disk_hog_on_two_nodes() -> None:
    # Two nodes with disks of 100 MB/s and 2 cores. Round robin: a (2 cores) on n0, b (2 cores) on n1; each
    # reads at 80 MB/s for 10 s. c follows a. d, which is pending from 0, needs 1 core: no room anywhere
    # before 10 s. At 10 s both end; pending by time: d (ready 0), c (ready 10). d goes to n0, c to n1 (in
    # turn): alone again. c takes 4 s → 14 s; d takes 6 s → 16 s.
    reads: dict[str, Any] = {"disk_read_bytes_per_s": 8e7}
    w = Workflow(
        "w",
        (
            task("a", seconds=10.0, cores=2.0, **reads),
            task("b", seconds=10.0, cores=2.0, **reads),
            task("c", seconds=4.0),
            task("d", seconds=6.0),
        ),
        (("a", "c"),),
    )
    disks = (Disk(1e8, 0.0),)
    machines = cluster(node("n0", cores=2.0, disks=disks), node("n1", cores=2.0, disks=disks))
    run = Simulation(machines, workload(w), "round-robin", seed=0).run()
    assert times(run) == {
        "a": pytest.approx((0.0, 10.0)),
        "b": pytest.approx((0.0, 10.0)),
        "d": pytest.approx((10.0, 16.0)),
        "c": pytest.approx((10.0, 14.0)),
    }
    assert run.summary["backlog_peak_tasks"][0] == 1
    assert run.summary["scheduling_delay_mean_s"][0] == pytest.approx(10.0 / 4.0)


def test_three_cpu_tasks_on_fewer_real_cores_than_were_promised() -> None:
    # Allocatable 4 cores, but the machine really has 2. Three tasks of 1 core, 6 s of work each, equal
    # weights: each gets 2/3 core, so all end at 9 s. 3 s lost by each to CPU; 18 core-seconds used of 2
    # cores × 9 s: 100 %.
    described = node("n0")
    short = replace(described, hardware=replace(described.hardware, cores=2.0))
    w = Workflow("w", tuple(task(name, seconds=6.0) for name in "abc"))
    run = Simulation(cluster(short), workload(w), "round-robin", seed=0).run()
    assert run.tasks["finished_s"].to_list() == pytest.approx([9.0] * 3)
    assert run.tasks["slow_cpu_s"].to_list() == pytest.approx([3.0] * 3)
    assert run.summary["cpu_utilisation"][0] == pytest.approx(1.0)
    assert run.summary["cpu_requested_core_hours"][0] == pytest.approx(27.0 / 3600.0)
    assert run.summary["cpu_waste_core_hours"][0] == pytest.approx(9.0 / 3600.0)


def test_machine_types_and_start_up() -> None:
    # The task takes 10 s on the reference machine, 25 s on type "slow" (factor 2.5), its only node. Binding
    # 1 s and start-up 2 s: runs 3 … 28 s; 15 s are the machine's.
    work = WorkProfile((Phase(10.0),), machine_factors=(("slow", 2.5),))
    w = Workflow("w", (task("a", work=work),))
    options = SimulationOptions(binding_s=1.0, pod_startup_s=2.0)
    machines = cluster(node("n0", machine_type="slow"))
    run = Simulation(machines, workload(w, times_s=[5.0]), "round-robin", seed=0, options=options).run()
    assert times(run)["a"] == pytest.approx((8.0, 33.0))
    row = run.tasks.to_dicts()[0]
    assert row["slow_machine_s"] == pytest.approx(15.0)
    assert row["actual_s"] == pytest.approx(row["alone_s"] + 15.0)
    assert run.summary["makespan_s"][0] == pytest.approx(28.0)  # from the submission at 5 s


def test_cycles_wait_for_the_scheduling_interval() -> None:
    # Interval 4 s. Submitted at 1 s: placed at 4 s, runs 4 … 7 s. The next task is ready at 7 s, placed at
    # 8 s, ends at 11 s.
    w = Workflow("w", (task("a", seconds=3.0), task("b", seconds=3.0)), (("a", "b"),))
    options = SimulationOptions(scheduling_interval_s=4.0)
    run = Simulation(
        cluster(node("n0")), workload(w, times_s=[1.0]), "round-robin", seed=0, options=options
    ).run()
    assert times(run) == {"a": pytest.approx((4.0, 7.0)), "b": pytest.approx((8.0, 11.0))}
    assert run.workflows["completion_s"][0] == pytest.approx(10.0)
    assert run.workflows["critical_path_s"][0] == pytest.approx(6.0)


def test_memory_limit_kills_where_growth_meets_it_and_retries_are_bounded() -> None:
    # Memory grows evenly to 2 GiB over the 10 s of work; the limit of 1 GiB is met at 5 s. Three attempts
    # (two retries): 0–5, 5–10, 10–15 s, then the task has failed and its child is skipped; the other
    # workflow is untouched.
    greedy = WorkProfile((Phase(10.0),), anon_bytes=2.0 * GIB, memory_limit_bytes=1.0 * GIB)
    w = Workflow("w", (task("a", work=greedy), task("b")), (("a", "b"),))
    other = Workflow("x", (task("a", seconds=4.0),))
    options = SimulationOptions(max_retries=2)
    run = Simulation(cluster(node("n0")), workload(w, other), "round-robin", seed=0, options=options).run()
    rows = run.tasks.select("workflow", "task", "attempt", "status", "started_s", "finished_s").rows()
    assert [row[:4] for row in rows] == [
        ("w", "a", 1, "oom_killed"),
        ("x", "a", 1, "done"),
        ("w", "a", 2, "oom_killed"),
        ("w", "a", 3, "oom_killed"),
        ("w", "b", 0, "skipped"),
    ]
    assert [row[5] for row in rows[:4]] == pytest.approx([5.0, 4.0, 10.0, 15.0])
    assert run.workflows["status"].to_list() == ["failed", "done"]
    assert run.workflows["retried"].to_list() == [2, 0]
    summary = run.summary.to_dicts()[0]
    assert (summary["oom_kills"], summary["retries"], summary["tasks_failed"], summary["tasks_skipped"]) == (
        3,
        2,
        1,
        1,
    )
    assert not run.is_partial
