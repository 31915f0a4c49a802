"""GPU allocation of a production GPU cluster at 130 % demand, by packing policy.

Protocol of Q. Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation
Gradient Descent", USENIX ATC 2023, section 6, and its repository: the 1,213 GPU nodes (6,212 GPUs) of the
openb trace, every pod of the default list in random order, then pods drawn again from the list until 130 % of
the GPUs are asked for. The nodes are in random order too, which is what decides between nodes of equal score.
Pods come one at a time, never leave, and one that fits nowhere is dropped. The figure is the share of GPU
allocated, averaged over the arrivals at which the demand rounds to 130 %. Ten seeds, 42 to 51; ours draw
other numbers than Go's generator.

Each pod goes through the engine: all constraints, the policy, the decoder.
"""

import csv
import gzip
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import numpy as np

from bench.harness import Row, median_ci95
from stowplan.core.domain import (
    ClusterState,
    Gpu,
    GpuRequest,
    Hardware,
    Node,
    NodeSet,
    PendingTask,
    Phase,
    PodShape,
    Resources,
    Task,
    Workflow,
    WorkflowProgress,
    WorkProfile,
)
from stowplan.core.engine import Engine
from stowplan.core.policy import make_policy
from stowplan.core.policy.nodes.fragmentation import target_workload

DATA = Path(os.environ.get("STOWPLAN_DATA", Path(__file__).parent.parent.parent / "shared" / "data"))
DEMAND = 1.3
SEEDS = range(42, 52)
PUBLISHED_PERCENT = {
    "random": 87.47,
    "dot-product": 90.85,
    "gpu-clustering": 91.88,
    "gpu-packing": 92.00,
    "best-fit": 93.08,
    "fgd": 95.39,
}
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Trace:
    """Nodes, and the pods as one workflow without edges: a task per pod of the list."""

    nodes: tuple[Node, ...]
    pods: Workflow

    def gpu_milli(self, index: int) -> int:
        """Return the thousandths of GPU that a pod asks for."""
        gpu = self.pods.tasks[index].shape.gpu
        return gpu.count * gpu.milli if gpu is not None else 0

    def capacity_milli(self) -> int:
        """Return the thousandths of GPU of the cluster."""
        return sum(len(node.hardware.gpus) for node in self.nodes) * 1000


def rows_of(name: str) -> Iterator[dict[str, str]]:
    """Read a file of the shared `openb` folder."""
    with gzip.open(DATA / "openb" / f"{name}.csv.gz", "rt", encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def read_trace() -> Trace:
    """Read the GPU nodes and the default pods."""
    nodes = tuple(
        Node(
            row["sn"],
            Resources({"cpu": int(row["cpu_milli"]), "memory": int(row["memory_mib"]) * MIB, "pods": 1001}),
            hardware=Hardware(gpus=tuple(Gpu(row["model"]) for _ in range(int(row["gpu"])))),
        )
        for row in rows_of("openb_node_list_gpu_node")
    )
    work = WorkProfile((Phase(1.0),))
    shapes: dict[PodShape, PodShape] = {}
    tasks: list[Task] = []
    for row in rows_of("openb_pod_list_default"):
        cpu_milli, memory_bytes = int(row["cpu_milli"]), int(row["memory_mib"]) * MIB
        gpu = None
        if int(row["num_gpu"]) > 0:
            models = tuple(model for model in row["gpu_spec"].split("|") if model)
            gpu = GpuRequest(int(row["num_gpu"]), int(row["gpu_milli"]), models)
        shape = PodShape(
            requests=Resources({"cpu": cpu_milli, "memory": memory_bytes}),
            score_cpu_milli=cpu_milli,
            score_memory_bytes=memory_bytes,
            gpu=gpu,
        )
        tasks.append(Task(row["name"], shapes.setdefault(shape, shape), work, 1.0))
    return Trace(nodes, Workflow("openb", tuple(tasks)))


def arrivals(trace: Trace, seed: int) -> list[int]:
    """Return the pods in order of arrival: all once, shuffled, then redrawn up to the demand."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(trace.pods)).tolist()
    asked_milli = sum(trace.gpu_milli(index) for index in order)
    while True:
        index = int(rng.integers(len(trace.pods)))
        gpu = trace.pods.tasks[index].shape.gpu
        if asked_milli + (gpu.milli if gpu is not None else 0) > DEMAND * trace.capacity_milli():
            return order
        asked_milli += trace.gpu_milli(index)
        order.append(index)


def allocation_percent(trace: Trace, policy_name: str, seed: int) -> float:
    """Place the arrivals of `seed` and return the mean percentage of GPU allocated at the demand."""
    state = ClusterState()
    order: list[int] = np.random.default_rng([seed, 1]).permutation(len(trace.nodes)).tolist()
    for position in order:
        state.apply(NodeSet(trace.nodes[position]))
    options: dict[str, object] = {}
    if policy_name == "fgd":
        options["workload"] = target_workload(task.shape for task in trace.pods.tasks)
    engine = Engine(state, make_policy(policy_name, **options), rng=np.random.default_rng(seed))
    progress = WorkflowProgress("openb", trace.pods, 0.0)
    capacity_milli = trace.capacity_milli()
    asked_milli = allocated_milli = 0
    at_demand: list[float] = []
    for number, index in enumerate(arrivals(trace, seed)):
        asked_milli += trace.gpu_milli(index)
        report = engine.cycle(float(number), [PendingTask(f"pod-{number}", progress, index, float(number))])
        if report.placed:
            allocated_milli += trace.gpu_milli(index)
        if round(100 * asked_milli / capacity_milli) == round(100 * DEMAND):
            at_demand.append(100 * allocated_milli / capacity_milli)
    return mean(at_demand)


def run(*, quick: bool) -> list[Row]:
    """Measure every policy over the seeds; `quick` takes one seed of three policies."""
    trace = read_trace()
    rows: list[Row] = []
    for name, published in PUBLISHED_PERCENT.items():
        if quick and name not in {"random", "best-fit", "gpu-packing"}:
            continue
        percents = [allocation_percent(trace, name, seed) for seed in (SEEDS[:1] if quick else SEEDS)]
        spread = median_ci95(percents)
        what = f"openb default pods at 130 % demand, {name}"
        rows += [
            Row(
                name=f"openb/{name}",
                what=f"{what}: GPU allocated, mean over seeds (interval: of the median seed)",
                unit="%",
                median=mean(percents),
                ci95_low=spread.low,
                ci95_high=spread.high,
                samples=len(percents),
                note=f"published: {published:.2f} %",
            ),
            Row.exact(
                abs(mean(percents) - published),
                name=f"openb/{name}-off",
                what=f"{what}: distance from the published",
                unit="points",
            ),
        ]
    return rows
