"""Makespan of TPC-H batches under published list heuristics, and planned offline.

Ten fixed test instances each of 50 and 100 TPC-H jobs, all present at t = 0, on one resource of 6,000
executors. A task holds its executors for its duration. Published: R. Wang et al., "A Bi-Level Framework for
Learning to Solve Combinatorial Optimization on Graphs", NeurIPS 2021, table 2 (and its repository). The
published Tetris ranks by alignment alone, so ours runs with `remaining_weight` 0; how ties were broken is not
published.

The tasks run through the simulator: engine, constraints, policy and decoder on one node, a cycle whenever
tasks ended. Plans run there too. How the planner searches, and how long, was settled on the training sets;
no instance is in both, though the first ten training instances of 50 jobs have the queries of these at other
scales. Its time is processor time on one core, without compiling.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from time import process_time

import numpy as np

from bench.harness import Row
from stowplan.core.domain import CPU
from stowplan.core.policy import Policy, make_policy
from stowplan.simulate.clusters import Cluster, load_cluster
from stowplan.simulate.planning import Batch, BatchPlan, plan_batch
from stowplan.simulate.simulator import Simulation
from stowplan.simulate.workloads import Workload, load_workloads

DATA = Path(os.environ.get("STOWPLAN_DATA", Path(__file__).parent.parent.parent / "shared" / "data"))
SETS = (50, 100)
PUBLISHED_MS = {
    "sjf": {50: 12818.0, 100: 19503.0},
    "tetris": {50: 12113.0, 100: 18291.0},
    "critical-path": {50: 9821.0, 100: 16914.0},
}
BEST_PUBLISHED_MS = {50: 8906.0, 100: 15193.0}  # PPO-BiHyb, same source
PASSES = {50: 30_000, 100: 12_000}
SEED = 1
OPTIONS: dict[str, dict[str, object]] = {"tetris": {"remaining_weight": 0.0}}


def bound_s(workload: Workload, cluster: Cluster) -> float:
    """Return the larger of work over capacity and the longest critical path: no schedule is shorter."""
    capacity_milli = sum(node.allocatable[CPU] for node in cluster.nodes)
    workflows = [submission.workflow for submission in workload.submissions]
    held = [
        np.array([task.shape.requests[CPU] for task in workflow.tasks]) * workflow.expected_s
        for workflow in workflows
    ]
    area_s = sum(float(one.sum()) for one in held) / capacity_milli
    return max(area_s, *(workflow.critical_path()[1] for workflow in workflows))


def makespan_s(workload: Workload, cluster: Cluster, policy: Policy) -> float:
    """Run one instance and return when its last task ends."""
    simulation = Simulation(cluster, workload, policy, seed=0, contention=False)
    simulation.run()
    return simulation.now_s


def made(name: str) -> Policy:
    """Make a policy as it was published."""
    return make_policy(name, **OPTIONS.get(name, {}))


def planned(batches: Sequence[Workload], cluster: Cluster, *, jobs: int, passes: int) -> list[Row]:
    """Plan every instance and run the plans."""
    of = f"TPC-H, {jobs} jobs, mean of {len(batches)} instances"
    plans: list[BatchPlan] = []
    seconds: list[float] = []
    plan_batch(Batch.of(cluster, batches[0]), seed=SEED, passes=0)  # compiles
    for workload in batches:
        begun_s = process_time()
        plans.append(plan_batch(Batch.of(cluster, workload), seed=SEED, passes=passes))
        seconds.append(process_time() - begun_s)
    measured_s = mean(
        makespan_s(one, cluster, plan.policy()) for one, plan in zip(batches, plans, strict=True)
    )
    bound_s = mean(plan.bounds.best_s for plan in plans)
    return [
        Row.exact(
            1000 * measured_s,
            name=f"tpch-batch/{jobs}-planned",
            what=f"{of}: makespan of planned, {passes:,} schedules searched",
            unit="ms",
            note=f"best published: {BEST_PUBLISHED_MS[jobs]:.0f} ms (PPO-BiHyb)",
        ),
        Row.exact(
            100 * (measured_s / bound_s - 1),
            name=f"tpch-batch/{jobs}-planned-gap",
            what=f"{of}: makespan of planned, above the bound by energy",
            unit="%",
            note=f"that bound: {1000 * bound_s:.0f} ms",
        ),
        Row.exact(
            max(seconds),
            name=f"tpch-batch/{jobs}-planned-seconds",
            what=f"TPC-H, {jobs} jobs: processor time to plan one, longest of {len(batches)} instances",
            unit="s",
            note=f"mean: {mean(seconds):.1f} s",
        ),
    ]


def run(*, quick: bool) -> list[Row]:
    """Measure the mean makespans and the bounds; `quick` takes two instances of the smaller set."""
    rows: list[Row] = []
    for jobs in SETS[:1] if quick else SETS:
        file = DATA / "tpch-batch" / f"tpch-{jobs}-test.json.gz"
        cluster, batches = load_cluster(file), load_workloads(file)[: 2 if quick else None]
        of = f"TPC-H, {jobs} jobs, mean of {len(batches)} instances"
        bound_ms = round(1000 * mean(bound_s(batch, cluster) for batch in batches))
        bound = f"{of}: lower bound, max(area, critical path)"
        rows.append(Row.exact(bound_ms, name=f"tpch-batch/{jobs}-bound", what=bound, unit="ms"))
        for name, published in PUBLISHED_MS.items():
            measured_ms = 1000 * mean(makespan_s(batch, cluster, made(name)) for batch in batches)
            rows += [
                Row.exact(
                    measured_ms,
                    name=f"tpch-batch/{jobs}-{name}",
                    what=f"{of}: makespan of {name}",
                    unit="ms",
                    note=f"published: {published[jobs]:.0f} ms",
                ),
                Row.exact(
                    100 * abs(measured_ms / published[jobs] - 1),
                    name=f"tpch-batch/{jobs}-{name}-off",
                    what=f"{of}: makespan of {name}, distance from the published",
                    unit="%",
                ),
            ]
        rows += planned(batches, cluster, jobs=jobs, passes=PASSES[jobs] // (30 if quick else 1))
    return rows
