"""Events per second of the simulator's kernel, contention on, and how they slow with the cluster's size.

One core, CPU time. Tasks arrive so that nine tenths of all cores are asked for on average, which by chance is
more than all on many nodes at any time. A task has four phases that press on cores, memory bandwidth and
latency, disk (with a burst bucket) and NIC. An event is a start, the end of a phase, a task's end or an edge
of a bucket or of memory; each makes the kernel solve the node, and its NIC, again. Measured in the steady
state, from one third of the arrivals to the last.
"""

import gc
from collections.abc import Sequence
from time import process_time
from typing import Final

import numpy as np

from bench.harness import Estimate, Row, median_ci95
from stowplan.simulate.kernel import (
    OWN_NIC_DOWN,
    Flow,
    KernelNodes,
    KernelProfiles,
    TaskPhase,
    TaskStarts,
    Wake,
)
from stowplan.simulate.kernel.kernel import FluidKernel

CORES: Final = 16.0
LOAD: Final = 0.9
"""Share of the cores that the tasks would use if nothing held them back."""


def phase(random: np.random.Generator) -> TaskPhase:
    """Draw a phase of a workflow task."""
    net = float(random.uniform(2e7, 3e8)) if random.random() < 0.3 else 0.0
    return TaskPhase(
        work_s=float(random.uniform(5.0, 60.0)),
        cpu_cores=float(random.choice([0.5, 1.0, 2.0, 4.0])),
        dram_bytes_per_s=float(random.uniform(2e8, 6e9)),
        dram_exposed=float(random.uniform(0.0, 0.4)),
        disk_read_bytes_per_s=float(random.uniform(0.0, 8e7)) if random.random() < 0.4 else 0.0,
        disk_queue_depth=float(random.choice([1.0, 8.0, 32.0])),
        anon_bytes=float(random.uniform(1e8, 3e9)),
        flows=(Flow(OWN_NIC_DOWN, net),) if net else (),
    )


def loaded(nodes: int, tasks: int, seed: int) -> tuple[FluidKernel, float]:
    """Make a cluster with all its arrivals; returns the kernel and the time of the last arrival."""
    random = np.random.default_rng(seed)
    kernel = FluidKernel(
        KernelNodes.of(
            nodes,
            cpu_cores=CORES,
            memory_bytes=64e9,
            dram_bytes_per_s=40e9,
            disk_bytes_per_s=500e6,
            disk_base_bytes_per_s=200e6,
            disk_bucket_bytes=20e9,
            disk_operations_per_s=16e3,
            nic_up_bytes_per_s=1.25e9,
            nic_down_bytes_per_s=1.25e9,
        )
    )
    kinds = [[phase(random) for _ in range(4)] for _ in range(64)]
    profiles = kernel.add_profiles(KernelProfiles.from_phases(kinds))
    core_s = sum(part.work_s * part.cpu_cores for parts in kinds for part in parts) / len(kinds)
    last_s = tasks * core_s / (nodes * CORES * LOAD)
    kernel.start(
        TaskStarts.of(
            np.resize(random.permutation(nodes), tasks),
            random.choice(profiles, tasks),
            start_s=np.sort(random.uniform(0.0, last_s, tasks)),
            speed=random.uniform(0.7, 1.4, tasks),
            cpu_weight=random.choice([20.0, 79.0, 200.0], tasks),
            memory_request_bytes=2e9,
            memory_limit_bytes=8e9,
        )
    )
    return kernel, last_s


def seconds_per_event(nodes: int, tasks: int, seed: int) -> tuple[float, float]:
    """Measure one run; returns CPU seconds per event and tasks per node at its end."""
    kernel, last_s = loaded(nodes, tasks, seed)
    kernel.advance(last_s / 3.0, wake=Wake.NOTHING)
    before = kernel.statistics().events
    gc.collect()
    start = process_time()
    kernel.advance(last_s, wake=Wake.NOTHING)
    spent_s = process_time() - start
    running = sum(kernel.running(row).size for row in range(0, nodes, max(1, nodes // 100)))
    return spent_s / (kernel.statistics().events - before), running / len(
        range(0, nodes, max(1, nodes // 100))
    )


def measured(sizes: Sequence[tuple[int, int]], repeats: int) -> tuple[dict[int, list[float]], float]:
    """Measure all sizes in turns, so that a busy moment of the machine meets all of them.

    Returns seconds per event by nodes, and the mean number of tasks on a node.
    """
    seconds_per_event(10, 100, 0)
    found: dict[int, list[float]] = {nodes: [] for nodes, _ in sizes}
    crowds: list[float] = []
    for repeat in range(repeats):
        for nodes, tasks in sizes:
            spent_s, on_a_node = seconds_per_event(nodes, tasks, repeat)
            found[nodes].append(spent_s)
            crowds.append(on_a_node)
    return found, sum(crowds) / len(crowds)


def run(*, quick: bool = False) -> list[Row]:
    """Measure 100, 200, 1,000 and 10,000 nodes."""
    sizes = (
        [(20, 2_000), (40, 4_000)]
        if quick
        else [(100, 30_000), (200, 30_000), (1_000, 40_000), (10_000, 300_000)]
    )
    found, on_a_node = measured(sizes, 2 if quick else 7)
    rows = [
        Row.of(
            median_ci95([1e6 * spent for spent in samples]),
            name=f"kernel/event-{nodes}",
            what=f"time per event with {nodes:,} nodes, contention on",
            unit="µs",
        )
        for nodes, samples in found.items()
    ]
    smallest, at_200, largest = sizes[0][0], sizes[1][0], sizes[-1][0]
    rates = median_ci95([1.0 / spent for spent in found[at_200]])
    rows.append(
        Row.of(
            rates,
            name=f"kernel/events-per-second-{at_200}",
            what=f"events per second with {at_200} nodes, contention on, one core",
            unit="1/s",
            note=f"{on_a_node:.1f} tasks per node at the end",
        )
    )
    growth: Estimate = median_ci95(
        [large / small for small, large in zip(found[smallest], found[largest], strict=True)]
    )
    rows.append(
        Row.of(
            growth,
            name="kernel/growth",
            what=f"time per event with {largest:,} nodes over that with {smallest}",
            unit="",
        )
    )
    return rows
