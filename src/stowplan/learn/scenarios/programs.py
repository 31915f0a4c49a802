"""What a program is like beyond its recording: how it uses the machine, and where it is slow.

Recordings hold seconds, cores and bytes of files of a few programs on a few machines. So some programs of a
scenario keep theirs, with what recordings lack drawn: how they use memory and disk, in a few kinds from "does
not care" to "lives on memory" (exposed latency of up to half of the time at up to 4 GB/s a core; aligners are
near the upper end: Qureshi et al. 2020, doi 10.1109/TC.2020.3041402, found 1.68 times the speed with faster
memory). The others keep only their place in the graph and how durations spread; what they need is drawn
whole (`demands`).

Tasks of a fan-out differ in a recording by what chance did on that day. Who plans by the history of a
template, as schedulers do, knows one duration and one profile for all: so the tasks of some programs are made
equal.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from stowplan.core.domain import CPU, MEMORY, Phase, PodShape, Task, Workflow, WorkProfile
from stowplan.learn.scenarios.chance import log_uniform
from stowplan.learn.scenarios.demands import Demands, draw_demands, task_of
from stowplan.learn.scenarios.machines import MachineType, draw_factors
from stowplan.learn.scenarios.ranges import Ranges
from stowplan.simulate.work_rules import pod_shape

__all__ = ["Program", "draw_programs", "programmed"]

_SHORTEST_S: Final = 1e-3
_SHORTEST_MEAN_S: Final = 1.0  # of a program: what starts a pod for less starts few
_RATIOS: Final = (0.05, 20.0)  # of a task's duration to the mean of its program


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """How all tasks of one template differ from their recording.

    Attributes:
        demands: what they need, None: as recorded but for what follows.
        dram_bytes_per_core_s, latency_share: replace what was imputed, 0: keep it.
        disk_queue: multiplies what is outstanding at the disk.
        memory_request: multiplies the request.
        scale: multiplies recorded durations.
        mean_s: of the recorded durations, above 0.
        model: whose work, pod and files all of them have; None: each has its own.
        estimate: what schedulers are told over what is true.
        machine_factors: time factor by machine type.
    """

    demands: Demands | None
    dram_bytes_per_core_s: float
    latency_share: float
    disk_queue: float
    memory_request: float
    scale: float
    mean_s: float
    model: Task | None
    estimate: float
    machine_factors: tuple[tuple[str, float], ...]

    def paced(self, factor: float) -> Program:
        """Return the program with all durations `factor` times as long."""
        demands = self.demands
        slower = None if demands is None else replace(demands, mean_s=demands.mean_s * factor)
        return replace(self, demands=slower, scale=self.scale * factor)

    def applied(self, task: Task) -> Task:
        """Return the task as this program runs it."""
        if self.demands is not None:
            ratio = task.work.alone_s / self.mean_s
            made = task_of(self.demands, task, min(max(ratio, _RATIOS[0]), _RATIOS[1]))
        else:
            phases = tuple(self._phase(phase) for phase in task.work.phases)
            made = replace(task, work=replace(task.work, phases=phases), shape=self._shape(task.shape))
        work: WorkProfile = replace(made.work, machine_factors=self.machine_factors)
        return replace(made, work=work, expected_s=max(work.alone_s * self.estimate, _SHORTEST_S))

    def _shape(self, shape: PodShape) -> PodShape:
        if self.memory_request == 1.0:
            return shape
        requests = shape.requests
        return pod_shape(
            requests.get(CPU, 0), round(requests.get(MEMORY, 0) * self.memory_request), shape.gpu
        )

    def _phase(self, phase: Phase) -> Phase:
        work_s = phase.work_s * self.scale
        has_disk = phase.disk_read_bytes_per_s > 0.0 or phase.disk_write_bytes_per_s > 0.0
        if has_disk:
            return replace(phase, work_s=work_s, disk_queue_bytes=phase.disk_queue_bytes * self.disk_queue)
        if self.dram_bytes_per_core_s == 0.0:
            return replace(phase, work_s=work_s)
        return replace(
            phase,
            work_s=work_s,
            dram_bytes_per_s=self.dram_bytes_per_core_s * phase.cpu_cores,
            latency_share=self.latency_share,
        )


def programmed(workflows: Sequence[Workflow], programs: dict[str, Program]) -> list[Workflow]:
    """Return workflows as their programs run them; tasks of a program with a model are equal."""
    models = {
        template: program.applied(program.model)
        for template, program in programs.items()
        if program.model is not None
    }

    def changed(task: Task) -> Task:
        model = models.get(task.template)
        return (
            programs[task.template].applied(task)
            if model is None
            else replace(model, name=task.name, gang=task.gang)
        )

    return [replace(workflow, tasks=tuple(map(changed, workflow.tasks))) for workflow in workflows]


def draw_programs(
    rng: np.random.Generator,
    ranges: Ranges,
    workflows: Sequence[Workflow],
    types: tuple[MachineType, ...],
) -> dict[str, Program]:
    """Draw one program for each template of `workflows`.

    Estimates are off in some scenarios, by a spread that is the scenario's: from a tenth to more than double.
    """
    tasks_of: dict[str, list[Task]] = defaultdict(list)
    for workflow in workflows:
        for task in workflow.tasks:
            tasks_of[task.template].append(task)
    templates = sorted(tasks_of)
    scale = log_uniform(rng, *ranges.task_scale)
    off = float(rng.uniform(0.1, 0.8)) if rng.random() < ranges.estimate_error_share else 0.0
    factors = draw_factors(rng, types, len(templates))
    with_gpus = tuple(kind for kind in types if kind.hardware.gpus)
    programs: dict[str, Program] = {}
    for number, template in enumerate(templates):
        tasks = tasks_of[template]
        mean_s = math.fsum(task.work.alone_s for task in tasks) / len(tasks)
        kind = rng.random()
        dram, share = 0.0, 0.0
        if kind > 0.7:  # lives on memory
            dram, share = float(rng.uniform(2.0e9, 4.0e9)), float(rng.uniform(0.25, 0.5))
        elif kind > 0.4:  # moves data
            dram, share = float(rng.uniform(1.0e9, 3.0e9)), float(rng.uniform(0.05, 0.3))
        uses_gpus = any(task.shape.gpu is not None for task in tasks)
        is_redrawn = rng.random() < ranges.redrawn_share
        has_model = rng.random() < ranges.equal_share
        programs[template] = Program(
            demands=draw_demands(rng, with_gpus if uses_gpus else types) if is_redrawn else None,
            dram_bytes_per_core_s=dram,
            latency_share=share,
            disk_queue=float(rng.choice((0.25, 1.0, 1.0, 4.0))),
            memory_request=float(rng.choice((1.0, 1.0, 1.0, 2.0))),
            scale=max(scale, _SHORTEST_MEAN_S / mean_s),
            mean_s=mean_s,
            model=tasks[int(rng.integers(len(tasks)))] if has_model else None,
            estimate=math.exp(float(rng.normal(0.0, off))) if off else 1.0,
            machine_factors=tuple(
                (kind.name, float(factor)) for kind, factor in zip(types, factors[number], strict=True)
            ),
        )
    return programs
