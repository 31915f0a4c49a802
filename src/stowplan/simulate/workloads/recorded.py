"""A task as a recording of a workflow run tells it, and its translation to a task of ours.

Shared by the reader of WfFormat and by the demo's table, which holds facts of the same recordings. What is
missing is imputed by the rules of `work_rules` and counted, so that the notes can say for how many tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from stowplan.core.domain import Task
from stowplan.errors import InvalidInput
from stowplan.simulate.work_rules import (
    DRAM_NOTE,
    SHORTEST_S,
    Usage,
    imputed_memory_bytes,
    pod_shape,
    requested_cpu_milli,
    requested_memory_bytes,
    work_profile,
)

__all__ = ["RecordedTask", "notes_of"]

_MOST_BYTES: Final = 2.0**63
_MOST_CORES: Final = 4096.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTask:
    """Facts of one task. None: not recorded. `mean_cores` is the mean CPU use, `cores` what it was given."""

    name: str
    template: str
    runtime_s: float
    mean_cores: float | None = None
    cores: float | None = None
    read_bytes: float | None = None
    written_bytes: float | None = None
    memory_bytes: float | None = None
    input_bytes: float = 0.0
    output_bytes: float = 0.0

    def task(self, imputed: Counter[str], *, machine_factors: tuple[tuple[str, float], ...] = ()) -> Task:
        """Return the task; each imputation adds one to its words in `imputed`.

        Raises:
            InvalidInput: a number is negative, not finite, or beyond any machine.
        """
        if self.runtime_s < SHORTEST_S:
            imputed["a run time of 1 ms (recorded as less)"] += 1
        mean_cores = self.cores if self.mean_cores is None else self.mean_cores
        if mean_cores is None:
            imputed["one busy core"] += 1
            mean_cores = 1.0
        memory_bytes = self.memory_bytes
        if not memory_bytes:  # absent, or zero, which no process has
            imputed["peak memory (256 MiB and a quarter of the input, at most 4 GiB)"] += 1
            memory_bytes = imputed_memory_bytes(self.input_bytes)
        if self.read_bytes is None or self.written_bytes is None:
            imputed["bytes read and written (sizes of its files)"] += 1
        usage = Usage(
            runtime_s=self.runtime_s,
            mean_cores=mean_cores,
            read_bytes=self.input_bytes if self.read_bytes is None else self.read_bytes,
            written_bytes=self.output_bytes if self.written_bytes is None else self.written_bytes,
            memory_bytes=memory_bytes,
        )
        if (
            usage.mean_cores > _MOST_CORES
            or max(usage.read_bytes, usage.written_bytes, memory_bytes) > _MOST_BYTES
        ):
            raise InvalidInput(f"{usage} is beyond any machine; check its units (bytes, percent of one core)")
        cpu_milli = round(1000 * self.cores) if self.cores else requested_cpu_milli(mean_cores)
        return Task(
            name=self.name,
            shape=pod_shape(cpu_milli, requested_memory_bytes(memory_bytes)),
            work=work_profile(usage, machine_factors=machine_factors),
            expected_s=max(usage.runtime_s, SHORTEST_S),
            template=self.template,
            input_bytes=self.input_bytes,
            output_bytes=self.output_bytes,
        )


def notes_of(imputed: Counter[str], tasks: int) -> Iterable[str]:
    """Yield the notes of a workload of `tasks` recorded tasks."""
    for what, count in sorted(imputed.items()):
        yield f"imputed: {what} for {count} of {tasks} tasks"
    yield "requests by rule: whole cores of the mean use, peak memory and 20 % (the trace holds none)"
    yield DRAM_NOTE
