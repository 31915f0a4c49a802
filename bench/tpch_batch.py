"""Makespan of TPC-H batches under published list heuristics.

Ten fixed test instances each of 50 and 100 TPC-H jobs, all present at t = 0, on one resource of 6,000
executors. A task holds its executors for its duration. Published: R. Wang et al., "A Bi-Level Framework for
Learning to Solve Combinatorial Optimization on Graphs", NeurIPS 2021, table 2 (and its repository). The
published Tetris ranks by alignment alone, so ours runs with `remaining_weight` 0; the rest of its
tie-breaking is not said in the paper.

The tasks run through the engine, constraints, policy and decoder, on one node, one cycle per moment at which
a task ended.
"""

import gzip
import heapq
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import numpy as np

from bench.harness import Row
from stowplan.core.domain import (
    ClusterState,
    Node,
    NodeSet,
    PendingTask,
    Phase,
    PodRemoved,
    PodShape,
    Resources,
    Task,
    Workflow,
    WorkflowProgress,
    WorkProfile,
)
from stowplan.core.engine import Engine
from stowplan.core.policy import Policy, make_policy

DATA = Path(os.environ.get("STOWPLAN_DATA", Path(__file__).parent.parent.parent / "shared" / "data"))
SETS = (50, 100)
PUBLISHED_MS = {
    "sjf": {50: 12818.0, 100: 19503.0},
    "tetris": {50: 12113.0, 100: 18291.0},
    "critical-path": {50: 9821.0, 100: 16914.0},
}
OPTIONS: dict[str, dict[str, object]] = {"tetris": {"remaining_weight": 0.0}}


@dataclass(frozen=True, slots=True)
class Batch:
    """One instance: all its jobs as one workflow, and the executors that there are."""

    workflow: Workflow
    capacity: int

    def bound_ms(self) -> float:
        """Return the larger of work over capacity and critical path: no schedule is shorter."""
        executors = np.array([task.shape.requests["cpu"] for task in self.workflow.tasks]) / 1000
        area_s = float((self.workflow.expected_s * executors).sum()) / self.capacity
        return max(area_s, self.workflow.critical_path()[1]) * 1000


def read_batches(jobs: int) -> list[Batch]:
    """Read the test instances of `jobs` jobs.

    Raises:
        FileNotFoundError: the shared data are not there.
    """
    with gzip.open(DATA / "tpch-batch" / f"tpch-{jobs}-test.json.gz", "rt", encoding="utf-8") as file:
        content = json.load(file)
    return [batch_of(content["capacity"], number, one) for number, one in enumerate(content["instances"])]


def batch_of(capacity: int, number: int, instance: dict[str, list[list[float]]]) -> Batch:
    """Make one instance; equal demands share their shape."""
    shapes: dict[float, PodShape] = {}
    tasks: list[Task] = []
    for index, (duration_ms, executors) in enumerate(instance["tasks"]):
        shape = shapes.get(executors)
        if shape is None:
            milli = round(executors * 1000)
            shape = shapes[executors] = PodShape(requests=Resources({"cpu": milli}), score_cpu_milli=milli)
        work = WorkProfile((Phase(duration_ms / 1000, cpu_cores=executors),))
        tasks.append(Task(f"{index:05d}", shape, work, duration_ms / 1000))
    edges = tuple((f"{int(parent):05d}", f"{int(child):05d}") for parent, child in instance["edges"])
    return Batch(Workflow(f"batch-{number}", tuple(tasks), edges), capacity)


def makespan_s(batch: Batch, policy: Policy) -> float:
    """Run the batch through the engine on one node; tasks take what they are expected to."""
    state = ClusterState()
    allocatable = Resources({"cpu": batch.capacity * 1000, "memory": 1 << 50, "pods": 1_000_000})
    state.apply(NodeSet(Node("executors", allocatable)))
    engine = Engine(state, policy, rng=np.random.default_rng(0))
    progress = WorkflowProgress("batch", batch.workflow, 0.0)

    def released(indexes: Sequence[int], now_s: float) -> list[PendingTask]:
        return [PendingTask(batch.workflow.tasks[i].name, progress, i, now_s) for i in sorted(indexes)]

    pending = released(progress.start(), 0.0)
    running: list[tuple[float, int]] = []
    now_s = 0.0
    while pending or running:
        report = engine.cycle(now_s, pending)
        for task, _ in report.placed:
            progress.running(task.index)
            heapq.heappush(running, (now_s + task.task.expected_s, task.index))
        pending = sorted((task for task, _ in report.waiting), key=lambda task: (task.ready_s, task.key))
        now_s = running[0][0]
        ended: list[int] = []
        while running and running[0][0] == now_s:
            _, index = heapq.heappop(running)
            state.apply(PodRemoved(batch.workflow.tasks[index].name))
            ended += progress.done(index)
        pending += released(ended, now_s)
    return now_s


def run(*, quick: bool) -> list[Row]:
    """Measure the mean makespans and the bounds; `quick` takes two instances of the smaller set."""
    rows: list[Row] = []
    for jobs in SETS[:1] if quick else SETS:
        batches = read_batches(jobs)[: 2 if quick else None]
        of = f"TPC-H, {jobs} jobs, mean of {len(batches)} instances"
        bound_ms = round(mean(batch.bound_ms() for batch in batches))
        bound = f"{of}: lower bound, max(area, critical path)"
        rows.append(Row.exact(bound_ms, name=f"tpch-batch/{jobs}-bound", what=bound, unit="ms"))
        for name, published in PUBLISHED_MS.items():
            policy = make_policy(name, **OPTIONS.get(name, {}))
            measured_ms = mean(makespan_s(batch, policy) * 1000 for batch in batches)
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
    return rows
