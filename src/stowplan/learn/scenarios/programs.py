"""What a program is like beyond its recording: how it uses memory and disk, and where it is slow.

Recordings hold seconds, cores and bytes of files; what slows a program beside others they do not hold. It is
drawn for each program of a scenario, in a few kinds from "does not care" to "lives on memory": exposed
latency of up to half of the time at up to 4 GB/s a core (aligners are near the upper end: Qureshi et al.
2020, doi 10.1109/TC.2020.3041402, found 1.68 times the speed with faster memory).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from stowplan.core.domain import CPU, MEMORY, Phase, PodShape, Task, WorkProfile
from stowplan.learn.scenarios.machines import MachineType, draw_factors
from stowplan.simulate.work_rules import pod_shape

__all__ = ["Program", "draw_programs"]

_SHORTEST_S = 1e-3


@dataclass(frozen=True, slots=True)
class Program:
    """How all tasks of one template differ from their recording.

    `dram_bytes_per_core_s` and `latency_share` replace what was imputed, 0: keep it. `disk_queue` multiplies
    what is outstanding at the disk, `memory_request` the request. `estimate` is what schedulers are told over
    what is true.
    """

    dram_bytes_per_core_s: float
    latency_share: float
    disk_queue: float
    memory_request: float
    estimate: float
    machine_factors: tuple[tuple[str, float], ...]

    def applied(self, task: Task, scale: float) -> Task:
        """Return the task as this program runs it, all durations `scale` times as long."""
        phases = tuple(self._phase(phase, scale) for phase in task.work.phases)
        work: WorkProfile = replace(task.work, phases=phases, machine_factors=self.machine_factors)
        expected_s = max(work.alone_s * self.estimate, _SHORTEST_S)
        return replace(task, work=work, shape=self._shape(task.shape), expected_s=expected_s)

    def _shape(self, shape: PodShape) -> PodShape:
        if self.memory_request == 1.0:
            return shape
        requests = shape.requests
        return pod_shape(
            requests.get(CPU, 0), round(requests.get(MEMORY, 0) * self.memory_request), shape.gpu
        )

    def _phase(self, phase: Phase, scale: float) -> Phase:
        has_disk = phase.disk_read_bytes_per_s > 0.0 or phase.disk_write_bytes_per_s > 0.0
        if has_disk:
            return replace(
                phase, work_s=phase.work_s * scale, disk_queue_bytes=phase.disk_queue_bytes * self.disk_queue
            )
        if self.dram_bytes_per_core_s == 0.0:
            return replace(phase, work_s=phase.work_s * scale)
        return replace(
            phase,
            work_s=phase.work_s * scale,
            dram_bytes_per_s=self.dram_bytes_per_core_s * phase.cpu_cores,
            latency_share=self.latency_share,
        )


def draw_programs(
    rng: np.random.Generator,
    templates: tuple[str, ...],
    types: tuple[MachineType, ...],
    *,
    has_errors: bool,
) -> dict[str, Program]:
    """Draw one program for each template; `has_errors`: expected durations are off, by up to about two."""
    factors = draw_factors(rng, types, len(templates))
    programs: dict[str, Program] = {}
    for number, template in enumerate(templates):
        kind = rng.random()
        dram, share = 0.0, 0.0
        if kind > 0.7:  # lives on memory
            dram, share = float(rng.uniform(2.0e9, 4.0e9)), float(rng.uniform(0.25, 0.5))
        elif kind > 0.4:  # moves data
            dram, share = float(rng.uniform(1.0e9, 3.0e9)), float(rng.uniform(0.05, 0.3))
        programs[template] = Program(
            dram_bytes_per_core_s=dram,
            latency_share=share,
            disk_queue=float(rng.choice((0.25, 1.0, 1.0, 4.0))),
            memory_request=float(rng.choice((1.0, 1.0, 1.0, 2.0))),
            estimate=math.exp(float(rng.normal(0.0, 0.35))) if has_errors else 1.0,
            machine_factors=tuple(
                (kind.name, float(factor)) for kind, factor in zip(types, factors[number], strict=True)
            ),
        )
    return programs
