"""Small clusters and workloads for the tests of the simulator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stowplan.core.domain import (
    RACK_LABEL,
    ZONE_LABEL,
    Disk,
    Hardware,
    Node,
    Phase,
    PodShape,
    Resources,
    Task,
    Workflow,
    WorkProfile,
)
from stowplan.simulate.clusters.model import Cluster
from stowplan.simulate.workloads.model import Submission, Workload

GIB = 1 << 30


def node(
    name: str,
    *,
    cores: float = 4.0,
    memory_gib: float = 16.0,
    rack: str = "r0",
    zone: str = "z0",
    **hardware: Any,  # noqa: ANN401
) -> Node:
    """A node with as many real cores as allocatable ones."""
    described = Hardware(cores=cores, **hardware)
    return Node(
        name,
        Resources({"cpu": int(cores * 1000), "memory": int(memory_gib * GIB), "pods": 110}),
        labels=((RACK_LABEL, rack), (ZONE_LABEL, zone)),
        hardware=described,
    )


def shape(*, cores: float = 1.0, memory_gib: float = 1.0, **fields: Any) -> PodShape:  # noqa: ANN401
    """A pod shape that asks for cores and memory."""
    requests = Resources({"cpu": int(cores * 1000), "memory": int(memory_gib * GIB)})
    return PodShape(requests=requests, **fields)


def task(
    name: str,
    *,
    seconds: float = 10.0,
    cores: float = 1.0,
    memory_gib: float = 1.0,
    work: WorkProfile | None = None,
    **phase: float,
) -> Task:
    """A task of one phase that uses the cores that it asks for, unless `phase` or `work` say otherwise."""
    if work is None:
        work = WorkProfile((Phase(seconds, **{"cpu_cores": cores, **phase}),))
    return Task(name, shape(cores=cores, memory_gib=memory_gib), work, expected_s=work.alone_s)


def workload(*workflows: Workflow, times_s: Sequence[float] | None = None) -> Workload:
    """Workflows submitted at `times_s`, else all at time 0."""
    times = times_s if times_s is not None else [0.0] * len(workflows)
    return Workload("test", tuple(Submission(t, w) for t, w in zip(times, workflows, strict=True)))


def cluster(*nodes: Node, **fields: Any) -> Cluster:  # noqa: ANN401
    """A cluster of `nodes`."""
    return Cluster("test", nodes, **fields)


def busy_cluster(count: int = 6) -> Cluster:
    """Nodes of two racks on which CPU, DRAM, disk and network can all run short."""
    return cluster(
        *(
            node(
                f"n{index}",
                cores=4.0,
                memory_gib=8.0,
                rack=f"r{index % 2}",
                dram_bytes_per_s=2e10,
                disks=(Disk(1e8, 2000.0, 2e8, 4000.0, 2e9),),
                nic_up_bytes_per_s=1e8,
                nic_down_bytes_per_s=1e8,
            )
            for index in range(count)
        )
    )


def busy_workload(seed: int, *, workflows: int = 8, tasks: int = 12) -> Workload:
    """Random workflows that press on every resource, submitted over the first two minutes."""
    rng = np.random.default_rng(seed)
    made: list[Workflow] = []
    for number in range(workflows):
        members: list[Task] = []
        edges: list[tuple[str, str]] = []
        for index in range(tasks):
            cores = float(rng.choice([0.5, 1.0, 2.0]))
            length_s = float(rng.uniform(2.0, 30.0))
            read = Phase(length_s * 0.2, cpu_cores=0.2, disk_read_bytes_per_s=float(rng.uniform(0.0, 9e7)))
            compute = Phase(
                length_s * 0.6,
                cpu_cores=cores,
                dram_bytes_per_s=float(rng.uniform(0.0, 9e9)),
                latency_share=float(rng.uniform(0.0, 0.4)),
            )
            send = Phase(length_s * 0.2, cpu_cores=0.2, nic_up_bytes_per_s=float(rng.uniform(0.0, 8e7)))
            work = WorkProfile((read, compute, send), anon_bytes=float(rng.uniform(0.1, 0.9)) * GIB)
            members.append(task(f"t{index:02}", cores=cores, work=work))
            if index >= 3:
                edges.append((f"t{int(rng.integers(index - 3, index)):02}", f"t{index:02}"))
        made.append(Workflow(f"w{number}", tuple(members), tuple(edges), family=f"f{number % 2}"))
    return workload(*made, times_s=sorted(rng.uniform(0.0, 120.0, workflows).tolist()))
