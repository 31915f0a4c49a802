"""Events and placements per second of the whole simulator: arrivals, cycles, physics, records.

What counts as an event is a change that the kernel carries out, with contention on: a task starts, a phase
ends, a task ends, a disk's burst bucket runs dry or fills, a capacity changes. Arrivals, scheduling cycles
and placements cost time but are not counted. A task of this workload has five phases (read, compute, read,
compute, write) that press on CPU, memory bandwidth, disk and network, hence six events; so events per second
are about six times the placements per second, and what the scheduler costs per placement decides. The kernel
alone is measured in its own module.

"In batches" means a scheduling interval of one simulated second, so that one cycle places some twenty tasks
at a time; "at once" means a cycle at every instant at which something changed. Set-up (reading the workload
into tables) is not timed, the making of the result frames is.
"""

import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from time import perf_counter, process_time
from typing import Any

import numpy as np

from bench.harness import Row, median_ci95
from stowplan.core.domain import Disk, Hardware, Node, Phase, PodShape, Resources, Task, Workflow, WorkProfile
from stowplan.simulate.clusters.model import Cluster
from stowplan.simulate.options import SimulationOptions
from stowplan.simulate.simulator import Simulation
from stowplan.simulate.workloads.model import Submission, Workload

NODES = 200
CORES = 32
TASKS_PER_WORKFLOW = 50
MEAN_TASK_S = 60.0
LOAD = 0.7  # of all cores, requested
GIB = 1 << 30
POLICIES = ("round-robin", "kube-scheduler")


def machines(count: int) -> Cluster:
    """Return `count` equal nodes of 32 cores."""
    hardware = Hardware(
        cores=CORES,
        dram_bytes_per_s=1e11,
        disks=(Disk(5e8, 20_000.0, 1e9, 50_000.0, 5e10),),
        nic_up_bytes_per_s=1.25e9,
        nic_down_bytes_per_s=1.25e9,
    )
    requests = Resources({"cpu": CORES * 1000, "memory": 128 * GIB, "pods": 110})
    return Cluster("equal", tuple(Node(f"n{i:05d}", requests, hardware=hardware) for i in range(count)))


def work(rng: np.random.Generator, cores: float, seconds: float) -> WorkProfile:
    """Return read, compute, read, compute, write."""
    reads = Phase(
        seconds * 0.05,
        cpu_cores=0.3,
        disk_read_bytes_per_s=float(rng.uniform(2e7, 2e8)),
        nic_down_bytes_per_s=2e7,
    )
    writes = Phase(seconds * 0.05, cpu_cores=0.3, disk_write_bytes_per_s=5e7, nic_up_bytes_per_s=2e7)
    computes = Phase(
        seconds * 0.425,
        cpu_cores=cores,
        dram_bytes_per_s=float(rng.uniform(1e9, 4e9)) * cores,
        latency_share=0.2,
    )
    return WorkProfile((reads, computes, reads, computes, writes), anon_bytes=0.5 * GIB)


def arrivals(nodes: int, tasks: int, seed: int) -> Workload:
    """Return workflows of 50 tasks, ten of them side by side, so that `LOAD` of the cores are requested."""
    rng = np.random.default_rng(seed)
    sizes: list[tuple[float, int]] = [
        (0.5, 1),
        (1.0, 2),
        (1.0, 4),
        (2.0, 2),
        (2.0, 4),
        (2.0, 8),
        (4.0, 4),
        (4.0, 8),
    ]
    shapes = [PodShape(requests=Resources({"cpu": int(c * 1000), "memory": m * GIB})) for c, m in sizes]
    rate = LOAD * nodes * CORES / (MEAN_TASK_S * sum(cores for cores, _ in sizes) / len(sizes))
    submissions: list[Submission] = []
    time_s = 0.0
    for number in range(max(1, tasks // TASKS_PER_WORKFLOW)):
        members: list[Task] = []
        for index in range(TASKS_PER_WORKFLOW):
            kind = int(rng.integers(len(sizes)))
            seconds = float(rng.lognormal(math.log(MEAN_TASK_S) - 0.125, 0.5))
            made = work(rng, sizes[kind][0], seconds)
            members.append(Task(f"t{index}", shapes[kind], made, seconds))
        edges = tuple((f"t{index - 10}", f"t{index}") for index in range(10, TASKS_PER_WORKFLOW))
        submissions.append(Submission(time_s, Workflow(f"w{number}", tuple(members), edges)))
        time_s += float(rng.exponential(TASKS_PER_WORKFLOW / rate))
    return Workload("poisson", tuple(submissions))


def simulation(cluster: Cluster, workload: Workload, policy: str, interval_s: float) -> Simulation:
    """Set up one run."""
    options = SimulationOptions(scheduling_interval_s=interval_s)
    return Simulation(cluster, workload, policy, seed=1, options=options)


def timed_run(made: Simulation) -> tuple[float, int, int]:
    """Return processor seconds, kernel events and placements of one run."""
    start_s = process_time()
    result = made.run()
    return process_time() - start_s, result.summary["kernel_events"][0], result.summary["placements"][0]


@contextmanager
def clocked(owner: Any, name: str, spent: dict[str, float]) -> Generator[None]:  # noqa: ANN401
    """Add up in `spent[name]` the seconds inside the method `name` of `owner`."""
    inner: Callable[..., Any] = getattr(owner, name)

    def outer(*arguments: Any, **named: Any) -> Any:  # noqa: ANN401
        start_s = perf_counter()
        try:
            return inner(*arguments, **named)
        finally:
            spent[name] = spent.get(name, 0.0) + perf_counter() - start_s

    setattr(owner, name, outer)
    try:
        yield
    finally:
        delattr(owner, name)


def shares(made: Simulation) -> dict[str, float]:
    """Return which share of a run's time is spent in the kernel's loop, its starts, and the core's cycle."""
    spent: dict[str, float] = {}
    start_s = perf_counter()
    with (
        clocked(made.site.kernel, "advance", spent),
        clocked(made.site.kernel, "start", spent),
        clocked(made.engine, "cycle", spent),
        clocked(made.site.state, "apply", spent),
    ):
        made.run()
    whole_s = perf_counter() - start_s
    return {name: seconds / whole_s for name, seconds in spent.items()}


def rates(policy: str, interval_s: float, *, tasks: int, repeats: int) -> list[Row]:
    """Measure one policy on 200 nodes."""
    cluster, workload = machines(NODES), arrivals(NODES, tasks, seed=1)
    runs = [timed_run(simulation(cluster, workload, policy, interval_s)) for _ in range(repeats)]
    split = shares(simulation(cluster, workload, policy, interval_s))
    how, suffix = ("in batches", "batches") if interval_s > 0.0 else ("at once", "at-once")
    name = f"simulator/{policy}-{suffix}"
    note = (
        f"{tasks:,} tasks; time: cycle {split['cycle']:.0%}, kernel's loop {split['advance']:.0%}, "
        f"its starts {split['start']:.0%}, cluster state {split['apply']:.0%} (in part inside the cycle)"
    )
    events = median_ci95([count / seconds for seconds, count, _ in runs])
    placements = median_ci95([count / seconds for seconds, _, count in runs])
    what = f"whole simulator, {NODES} nodes, {policy} {how}"
    return [
        Row.of(events, name=f"{name}-events", what=f"{what}: events", unit="1/s", note=note),
        Row.of(placements, name=f"{name}-placements", what=f"{what}: placements", unit="1/s"),
    ]


def growth(policy: str, *, tasks_per_node: int, repeats: int) -> Row:
    """Measure by how much the time per event grows from 100 to 10,000 nodes at equal load and batches."""
    ratios: list[float] = []
    for repeat in range(repeats):
        per_event: list[float] = []
        for nodes, runs in ((100, 5), (10_000, 1)):
            cluster, seconds, events = machines(nodes), 0.0, 0
            for part in range(runs):
                workload = arrivals(nodes, tasks_per_node * nodes, seed=repeat * runs + part)
                made = timed_run(simulation(cluster, workload, policy, 100.0 / nodes))
                seconds, events = seconds + made[0], events + made[1]
            per_event.append(seconds / events)
        ratios.append(per_event[1] / per_event[0])
    return Row.of(
        median_ci95(ratios),
        name=f"simulator/{policy}-growth",
        what=f"time per event of the whole simulator, {policy}, 10,000 nodes over 100",
        unit="x",
        note="as many tasks per node and per cycle; a placement looks at every node, the kernel does not",
    )


def run(*, quick: bool = False) -> list[Row]:
    """Measure both policies, at once and in batches, and how time per event grows with the cluster."""
    tasks, repeats = (1000, 1) if quick else (20_000, 6)
    timed_run(simulation(machines(4), arrivals(4, 100, seed=0), "kube-scheduler", 0.0))  # compiles
    rows: list[Row] = []
    for policy in POLICIES:
        for interval_s in (0.0, 1.0):
            rows += rates(policy, interval_s, tasks=tasks, repeats=repeats)
    per_node, repeats = (1, 1) if quick else (20, 2)
    rows += [growth(policy, tasks_per_node=per_node, repeats=repeats) for policy in POLICIES]
    return rows
