"""Random workflows: graphs whose shapes, widths, durations and demands no recording has.

They keep the policy from learning seven families by heart, and are the only ones that use GPUs: no recording
does.
"""

from __future__ import annotations

import numpy as np

from stowplan.core.domain import GpuRequest, Phase, Task, Workflow, WorkProfile
from stowplan.learn.scenarios.chance import log_uniform
from stowplan.learn.scenarios.graphs import draw_graph
from stowplan.simulate.work_rules import pod_shape

__all__ = ["FAMILY", "draw_workflow"]

FAMILY = "synthetic"
_GIB = float(1 << 30)
_MIB = float(1 << 20)


def draw_workflow(rng: np.random.Generator, name: str, *, most_tasks: int, uses_gpus: bool) -> Workflow:
    """Draw a workflow of about `most_tasks` tasks at most."""
    graph = draw_graph(rng, most_tasks)
    tasks: list[Task | None] = [None] * len(graph.template)
    for template in sorted(set(graph.template)):
        places = [place for place, own in enumerate(graph.template) if own == template]
        drawn = _draw_tasks(rng, template, len(places), uses_gpus=uses_gpus and rng.random() < 0.4)
        for place, task in zip(places, drawn, strict=True):
            tasks[place] = task
    made = tuple(task for task in tasks if task is not None)
    edges = tuple((made[parent].name, made[child].name) for parent, child in graph.edges)
    return Workflow(name, made, edges, family=FAMILY)


def _draw_tasks(rng: np.random.Generator, number: int, count: int, *, uses_gpus: bool) -> list[Task]:
    """Draw tasks of one program: equal requests, durations within about 40 % of each other."""
    mean_s = log_uniform(rng, 2.0, 300.0)
    cores = int(rng.choice((1, 1, 1, 2, 2, 4)))
    busy_cores = cores * float(rng.uniform(0.5, 1.0))
    disk_share = float(rng.uniform(0.2, 0.8)) if rng.random() < 0.4 else 0.0
    disk_bytes_per_s = float(rng.uniform(10.0, 150.0)) * _MIB
    memory_bytes = log_uniform(rng, 0.25, 4.0) * _GIB
    pcie_bytes_per_s = log_uniform(rng, 0.05, 8.0) * _GIB if uses_gpus else 0.0
    gpu = GpuRequest(count=int(rng.choice((1, 1, 1, 2, 2, 4)))) if uses_gpus else None
    shape = pod_shape(1000 * cores, round(memory_bytes), gpu)
    template = f"program-{number}-{int(rng.integers(1 << 30)):08x}"
    tasks: list[Task] = []
    for place, length_s in enumerate((mean_s * np.exp(rng.normal(0.0, 0.3, count))).tolist()):
        compute = Phase(
            length_s * (1.0 - disk_share),
            cpu_cores=busy_cores,
            dram_bytes_per_s=1e9 * busy_cores,
            pcie_bytes_per_s=pcie_bytes_per_s,
            latency_share=0.1,
        )
        phases = (compute,)
        if disk_share > 0.0:
            read = Phase(length_s * disk_share, cpu_cores=0.1, disk_read_bytes_per_s=disk_bytes_per_s)
            phases = (read, compute)
        work = WorkProfile(phases, anon_bytes=0.8 * memory_bytes)
        tasks.append(
            Task(
                f"{template}-{place}",
                shape,
                work,
                length_s,
                template,
                input_bytes=length_s * disk_share * disk_bytes_per_s,
            )
        )
    return tasks
