"""What must hold in every run, whatever the workload, cluster and policy."""

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from stowplan.core.domain import Phase, Workflow, WorkProfile
from stowplan.core.physics.vocabulary import Cause, Resource
from stowplan.simulate.clusters.model import Cluster
from stowplan.simulate.faults import FaultPlan
from stowplan.simulate.options import SimulationOptions
from stowplan.simulate.results import RunResult
from stowplan.simulate.simulator import Simulation
from stowplan.simulate.workloads.model import Workload
from tests.simulation_cases import busy_cluster, busy_workload, cluster, node, task, workload

POLICIES = st.sampled_from(["round-robin", "kube-scheduler", "critical-path", "random"])
SEEDS = st.integers(0, 1000)


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    flows: list[Workflow] = []
    for number in range(draw(st.integers(1, 3))):
        count = draw(st.integers(1, 8))
        tasks = tuple(
            task(
                f"t{index}",
                seconds=draw(st.floats(0.0, 50.0)),
                cores=draw(st.sampled_from([0.25, 1.0, 2.0, 4.0])),
                dram_bytes_per_s=draw(st.sampled_from([0.0, 4e9])),
                disk_read_bytes_per_s=draw(st.sampled_from([0.0, 6e7])),
            )
            for index in range(count)
        )
        edges = tuple(
            (f"t{draw(st.integers(0, index - 1))}", f"t{index}")
            for index in range(1, count)
            if draw(st.booleans())
        )
        flows.append(Workflow(f"w{number}", tasks, edges))
    times_s = [draw(st.floats(0.0, 100.0)) for _ in flows]
    return workload(*flows, times_s=times_s)


def require_no_overcommit(result: RunResult, machines: Cluster) -> None:
    """The requests of attempts that hold a node at one time never exceed what it has."""
    for name, rows in result.tasks.drop_nulls("placed_s").group_by("node"):
        columns = ("cpu_request_cores", "memory_request_bytes")
        begun = [(at_s, 1, cores, size) for at_s, cores, size in rows.select("placed_s", *columns).rows()]
        ended = [
            (at_s, 0, -cores, -size)
            for at_s, cores, size in rows.select("finished_s", *columns).drop_nulls().rows()
        ]
        steps = sorted(begun + ended)
        held = np.cumsum([step[2:] for step in steps], axis=0)
        described = next(one for one in machines.nodes if one.name == name[0])
        assert held[:, 0].max() <= described.allocatable["cpu"] / 1000 + 1e-9
        assert held[:, 1].max() <= described.allocatable["memory"] + 1e-3


@settings(max_examples=20)
@given(given_workload=workloads(), policy=POLICIES, seed=SEEDS)
def test_every_task_ends_once_and_no_node_is_overcommitted(
    given_workload: Workload, policy: str, seed: int
) -> None:
    machines = busy_cluster(3)
    run = Simulation(
        machines, given_workload, policy, seed=seed, options=SimulationOptions(validates=True)
    ).run()
    done = run.tasks.filter(pl.col("status") == "done")
    assert done.select("workflow", "task").is_duplicated().sum() == 0
    assert done.height == given_workload.task_count
    require_no_overcommit(run, machines)


@settings(max_examples=25)
@given(given_workload=workloads(), policy=POLICIES, seed=SEEDS)
def test_precedence_and_lower_bounds_hold(given_workload: Workload, policy: str, seed: int) -> None:
    run = Simulation(busy_cluster(3), given_workload, policy, seed=seed).run()
    at = {
        (w, t): (p, s, f)
        for w, t, p, s, f in run.tasks.select(
            "workflow", "task", "placed_s", "started_s", "finished_s"
        ).rows()
    }
    for submission in given_workload.submissions:
        flow = submission.workflow
        for parent, child in flow.edges:
            assert at[flow.name, parent][2] <= at[flow.name, child][0]
        assert all(at[flow.name, one.name][0] >= submission.time_s for one in flow.tasks)
    # Makespan ≥ the longest path of any workflow and ≥ requested core-seconds over cores.
    first_s = given_workload.submissions[0].time_s
    paths = [s.time_s - first_s + s.workflow.critical_path()[1] for s in given_workload.submissions]
    area_s = (
        sum(
            t.work.alone_s * t.shape.requests["cpu"] / 1000
            for s in given_workload.submissions
            for t in s.workflow.tasks
        )
        / 12.0
    )
    makespan_s = run.summary["makespan_s"][0]
    assert makespan_s >= max(*paths, area_s) * (1.0 - 1e-9) - 1e-9


@settings(max_examples=25)
@given(given_workload=workloads(), policy=POLICIES)
def test_time_lost_adds_up_and_use_is_conserved(given_workload: Workload, policy: str) -> None:
    run = Simulation(busy_cluster(3), given_workload, policy, seed=0).run()
    done = run.tasks.filter(pl.col("status") == "done")
    lost = sum(done[f"slow_{cause.name.lower()}_s"].to_numpy() for cause in Cause)
    assert np.allclose(done["actual_s"].to_numpy(), done["alone_s"].to_numpy() + lost, rtol=1e-9, atol=1e-6)
    phases = [(t.work.phases[0], t) for s in given_workload.submissions for t in s.workflow.tasks]
    dram_bytes = math.fsum(p.work_s * p.dram_bytes_per_s for p, _ in phases)
    used = (
        run.usage.filter(pl.col("resource") == "dram")
        .select((pl.col("used") * pl.col("length_s")).sum())
        .item()
    )
    assert math.isclose(used, dram_bytes, rel_tol=1e-6, abs_tol=1.0)
    requested = (
        run.usage.filter(pl.col("resource") == "cpu")
        .select((pl.col("requested") * pl.col("length_s")).sum())
        .item()
    )
    held = run.tasks.select(
        (pl.col("cpu_request_cores") * (pl.col("finished_s") - pl.col("placed_s"))).sum()
    ).item()
    assert math.isclose(requested, held, rel_tol=1e-6, abs_tol=1e-6)


@settings(max_examples=25)
@given(given_workload=workloads(), seed=SEEDS)
def test_one_task_at_a_time_is_never_slower_for_more_hardware(given_workload: Workload, seed: int) -> None:
    # With one task running at a time there are no scheduling anomalies: more bandwidth cannot hurt.
    def chained(one: Workload) -> Workload:
        names = [t.name for t in one.submissions[0].workflow.tasks]
        flow = replace(one.submissions[0].workflow, edges=tuple(pairwise(names)))
        return workload(flow)

    del seed
    slow = cluster(node("n0", dram_bytes_per_s=2e9))
    fast = cluster(node("n0", dram_bytes_per_s=4e9))
    spans = [
        Simulation(machines, chained(given_workload), "round-robin", seed=0).run().summary["makespan_s"][0]
        for machines in (slow, fast)
    ]
    assert spans[1] <= spans[0] * (1.0 + 1e-12)


@settings(max_examples=8)
@given(seed=SEEDS, policy=POLICIES)
def test_faults_lose_no_task(seed: int, policy: str) -> None:
    faults = FaultPlan.parse(
        [
            {
                "kind": "node-not-ready",
                "cause": cause,
                "every_s": 80.0,
                "duration_s": 40.0,
                "duration": "exponential",
            }
            for cause in ("kernel", "network", "storage")
        ]
        + [
            {
                "kind": "spot-reclaim",
                "every_s": 80.0,
                "notice_s": 5.0,
                "duration_s": 20.0,
                "duration": "exponential",
            },
            {"kind": "rack-outage", "every_s": 200.0, "duration_s": 15.0},
        ],
        "faults",
    )
    options = SimulationOptions(
        validates=True,
        node_monitor_grace_s=5.0,
        unreachable_toleration_s=15.0,
        retry_backoff_s=3.0,
        max_retries=2,
    )
    machines, given_workload = busy_cluster(4), busy_workload(seed, workflows=2, tasks=8)
    run = Simulation(machines, given_workload, policy, seed=seed, faults=faults, options=options).run()
    assert not run.is_partial
    last = run.tasks.group_by("workflow", "task", maintain_order=True).last()
    assert last.height == given_workload.task_count
    # A task that failed for good used up its attempts; what followed it was skipped.
    for row in last.iter_rows(named=True):
        assert row["status"] in {"done", "skipped"} or row["attempt"] == 3
    require_no_overcommit(run, machines)


def test_work_is_conserved_on_a_saturated_node() -> None:
    # While tasks wait, a saturated node is never idle: the makespan is the area.
    w = Workflow("w", tuple(task(f"t{i}", seconds=5.0, work=WorkProfile((Phase(5.0),))) for i in range(16)))
    run = Simulation(cluster(node("n0")), workload(w), "round-robin", seed=0).run()
    assert run.summary["makespan_s"][0] == 20.0
    assert run.summary["cpu_utilisation"][0] == 1.0
    assert Resource.CPU == 0
