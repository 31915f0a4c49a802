"""Random workflows: layered graphs whose widths, durations and demands no recording has.

They keep the policy from learning seven families by heart, and are the only ones that use GPUs: no recording
does. Shapes are fan-out and fan-in of random width, the form of nearly every scientific workflow; a task
depends on one to three tasks of the layer before, or on all of it where the layer is a single task.
"""

from __future__ import annotations

import math

import numpy as np

from stowplan.core.domain import GpuRequest, Phase, Task, Workflow, WorkProfile
from stowplan.simulate.work_rules import pod_shape

__all__ = ["FAMILY", "draw_workflow"]

FAMILY = "synthetic"
_GIB = float(1 << 30)
_MIB = float(1 << 20)
_MOST_PARENTS = 3


def draw_workflow(rng: np.random.Generator, name: str, *, most_tasks: int, uses_gpus: bool) -> Workflow:
    """Draw a workflow of at most `most_tasks` tasks; every task of a layer is of one template."""
    depth = int(rng.integers(2, 9))
    tasks: list[Task] = []
    edges: list[tuple[str, str]] = []
    above: list[str] = []
    for layer in range(depth):
        left = most_tasks - len(tasks)
        if left <= 0:
            break
        is_wide = rng.random() < 0.5
        width = min(left, int(rng.integers(2, 25)) if is_wide else int(rng.integers(1, 3)))
        layer_tasks = _draw_layer(rng, layer, width, uses_gpus=uses_gpus and rng.random() < 0.4)
        for task in layer_tasks:
            edges += [(parent, task.name) for parent in _parents(rng, above, width)]
        tasks += layer_tasks
        above = [task.name for task in layer_tasks]
    return Workflow(name, tuple(tasks), tuple(edges), family=FAMILY)


def _parents(rng: np.random.Generator, above: list[str], width: int) -> list[str]:
    if not above or width == 1:
        return above
    count = int(rng.integers(1, min(len(above), _MOST_PARENTS) + 1))
    return [above[index] for index in sorted(rng.choice(len(above), count, replace=False).tolist())]


def _draw_layer(rng: np.random.Generator, layer: int, width: int, *, uses_gpus: bool) -> list[Task]:
    """Draw tasks of one program: equal requests, durations within about 40 % of each other."""
    mean_s = math.exp(float(rng.uniform(math.log(2.0), math.log(300.0))))
    cores = int(rng.choice((1, 1, 1, 2, 2, 4)))
    busy_cores = cores * float(rng.uniform(0.5, 1.0))
    disk_share = float(rng.uniform(0.2, 0.8)) if rng.random() < 0.4 else 0.0
    disk_bytes_per_s = float(rng.uniform(10.0, 150.0)) * _MIB
    memory_bytes = math.exp(float(rng.uniform(math.log(0.25), math.log(4.0)))) * _GIB
    pcie_bytes_per_s = float(rng.uniform(0.5, 6.0)) * _GIB if uses_gpus else 0.0
    gpu = GpuRequest(count=int(rng.choice((1, 1, 2)))) if uses_gpus else None
    shape = pod_shape(1000 * cores, round(memory_bytes), gpu)
    template = f"layer-{layer}-{int(rng.integers(1 << 30)):08x}"
    tasks: list[Task] = []
    for number, length_s in enumerate((mean_s * np.exp(rng.normal(0.0, 0.3, width))).tolist()):
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
                f"{template}-{number}",
                shape,
                work,
                length_s,
                template,
                input_bytes=length_s * disk_share * disk_bytes_per_s,
            )
        )
    return tasks
