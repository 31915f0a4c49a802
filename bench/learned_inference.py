"""What a decision of the learned policy costs: the network alone, and whole cycles with it, on one thread.

256 groups of pending tasks that are all unlike (32 workflows of 8), on 1,000 and 5,000 nodes of five machine
types that have five known tasks each, of workflows of 50, and readings of everything. The network alone is
timed in its worst case, where every node changed: node side of all nodes, summary, task side, scores of all
groups on all nodes. A cycle also encodes what changed, filters, and computes every node anew that took a
task. Times do not depend on what was learned, so the network is one with random numbers.
"""

import gc
from time import perf_counter

import numpy as np
from torch import nn

from bench.harness import Row, median_ci95
from stowplan.core.domain import (
    BoundPod,
    ClusterState,
    Disk,
    Hardware,
    Node,
    NodeSet,
    PendingTask,
    Phase,
    PodBound,
    PodRemoved,
    PodShape,
    Resources,
    RunningTask,
    Task,
    Workflow,
    WorkflowProgress,
    WorkProfile,
)
from stowplan.core.encoder import SCHEMA, Encoder, nominal_statistics
from stowplan.core.engine import Engine
from stowplan.core.policy import CycleView
from stowplan.core.policy.learned import LearnedPolicy, Release
from stowplan.core.policy.learned.decision import Groups, Pointers, joined_keys
from stowplan.core.policy.learned.graphs import Graphs
from stowplan.core.policy.learned.sizes import NetworkShape
from stowplan.core.semantics import CATALOGUE, NODE_QUANTITIES, NodeReadings
from stowplan.learn.export import export_release, sizes_of_schema
from stowplan.learn.network import PolicyNetwork

WORKFLOWS = 32
TASKS = 8
GROUPS = WORKFLOWS * TASKS
WARM_UP = 3
GIB = 1 << 30
FACTORS = tuple((f"type-{number}", 1.0 + number / 4) for number in range(5))
SHAPE = PodShape(
    requests=Resources({"cpu": 1000, "memory": 2 * GIB}), score_cpu_milli=1000, score_memory_bytes=2 * GIB
)


def release() -> Release:
    """Return a release of a network of the size that is served."""
    network = PolicyNetwork(sizes_of_schema(NetworkShape()))
    nn.init.normal_(network.group_head.weight, std=0.1)
    statistics = nominal_statistics(SCHEMA)
    return export_release(network, name="benchmark", statistics=statistics, training="0" * 64)


def workflow(name: str, tasks: int, seconds: float) -> list[PendingTask]:
    """Return the tasks of a workflow, all ready and all unlike."""
    work = [WorkProfile((Phase(seconds + number),), machine_factors=FACTORS) for number in range(tasks)]
    made = tuple(Task(f"t{at}", SHAPE, one, seconds + at) for at, one in enumerate(work))
    progress = WorkflowProgress(name, Workflow(name, made), 0.0)
    return [PendingTask(f"{name}/t{index}", progress, index, 0.0) for index in progress.start()]


class Scene:
    """A busy cluster with readings, and tasks that wait."""

    def __init__(self, nodes: int) -> None:
        """Put five known tasks on each of so many nodes."""
        rng = np.random.default_rng(3)
        self.state = state = ClusterState()
        for number in range(nodes):
            hardware = Hardware(
                cores=64.0,
                dram_bytes_per_s=2e11,
                disks=(Disk(1e9, 1e5),),
                machine_type=FACTORS[number % len(FACTORS)][0],
            )
            room = Resources({"cpu": 64_000, "memory": 256 * GIB, "pods": 110})
            state.apply(NodeSet(Node(f"node-{number:05d}", room, hardware=hardware)))
        self.running: dict[str, RunningTask] = {}
        old = (workflow(f"old-{at}", 50, float(rng.integers(10, 1000))) for at in range(nodes // 10))
        for number, task in enumerate(task for tasks in old for task in tasks):
            state.apply(PodBound(BoundPod(task.key, SHAPE), f"node-{number % nodes:05d}"))
            self.running[task.key] = RunningTask(task, number % nodes, 0.0, 600.0)
        self.readings = NodeReadings(state.capacity)
        low = np.array([CATALOGUE[name].score_low for name in NODE_QUANTITIES])
        high = np.array([CATALOGUE[name].score_high for name in NODE_QUANTITIES])
        values = low + (high - low) * rng.uniform(0.05, 0.5, (state.capacity, low.size))
        self.readings.put_rows(np.arange(state.capacity), values, np.zeros(values.shape))
        self.pending = [
            task for number in range(WORKFLOWS) for task in workflow(f"w{number}", TASKS, 10.0 + number)
        ]

    def view(self) -> CycleView:
        """Return the cycle in which all that waits is to be placed."""
        rng = np.random.default_rng(0)
        return CycleView(self.state, 1.0, self.pending, rng, self.running, readings=self.readings)


def network_ms(scene: Scene, released: Release, repeats: int) -> list[float]:
    """Time the network alone, with every node anew."""
    graphs = Graphs(released)
    encoded = Encoder(statistics=released.manifest.statistics).encode(scene.view())
    if len(encoded.members) != GROUPS:
        raise RuntimeError(f"{len(encoded.members)} groups are encoded; {GROUPS} are to be timed")

    durations: list[float] = []
    for _ in range(repeats + WARM_UP):
        start_s = perf_counter()
        rows = graphs.node_rows(encoded.node_features)
        said, _ = graphs.group_rows(
            encoded.task_features, encoded.position, encoded.cluster_features, graphs.pooled(rows)
        )
        points = Pointers(Groups(graphs.sizes, said))
        points.of(joined_keys(graphs.sizes, rows), encoded.log_prior())
        durations.append((perf_counter() - start_s) * 1000.0)
    return durations[WARM_UP:]


def cycles_ms(scene: Scene, released: Release, pods: int, repeats: int) -> list[float]:
    """Time whole cycles that place `pods` tasks; they are gone again after each."""
    engine = Engine(scene.state, LearnedPolicy(released), rng=np.random.default_rng(0))
    durations: list[float] = []
    for _ in range(repeats + WARM_UP):
        start_s = perf_counter()
        report = engine.cycle(1.0, scene.pending[:pods], scene.running, readings=scene.readings)
        durations.append((perf_counter() - start_s) * 1000.0)
        if len(report.placed) < pods:
            raise RuntimeError(f"only {len(report.placed)} of {pods} pods were placed; they must fit")
        for task, _ in report.placed:
            scene.state.apply(PodRemoved(task.key))
    return durations[WARM_UP:]


def p99(durations_ms: list[float], *, name: str, what: str) -> Row:
    """Return the row of a 99th percentile."""
    note = f"median {np.median(durations_ms):.3f} ms of {len(durations_ms)}"
    value = float(np.percentile(durations_ms, 99))
    return Row.exact(value, name=f"learned/{name}", what=what, unit="ms", note=note)


def run(*, quick: bool) -> list[Row]:
    """Measure the network and whole cycles at both sizes; `quick` measures few of each."""
    released = release()
    rows: list[Row] = []
    for nodes in (1000, 5000):
        scene = Scene(nodes)
        gc.freeze()  # as a driver does once its cluster is loaded
        where = f"{nodes} nodes"
        durations = network_ms(scene, released, 10 if quick else 300)
        what = f"the network alone, 99th percentile: {GROUPS} groups, {where}, all of them anew"
        rows.append(p99(durations, name=f"network-{nodes}-p99", what=what))
        durations = cycles_ms(scene, released, 1, 20 if quick else 1000)
        what = f"a cycle with one pod alone, 99th percentile; {where}, one of them changed"
        rows.append(p99(durations, name=f"alone-{nodes}-p99", what=what))
        batch = cycles_ms(scene, released, GROUPS, 3 if quick else 30)
        what = f"a cycle that places {GROUPS} pods that are all unlike; {where}"
        rows.append(Row.of(median_ci95(batch), name=f"learned/cycle-{nodes}", what=what, unit="ms"))
    return rows
