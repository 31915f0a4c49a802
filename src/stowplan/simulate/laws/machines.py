"""Machine law: how much slower or faster each task runs on each machine type, from Lotaru's measurements.

CSV, one row per execution: `Workflow`, `Label` and `NumberSequences` (which input), `Task`, `Machine`,
`Realtime` in milliseconds, CPU, memory and bytes. An execution is matched with the same task on the same
input on the reference machine; the factor of a task on a machine is the median of the ratios of run times (2:
twice as slow there). A single factor per machine is wrong: on one machine the tasks' factors differ by more
than the machines do.

Pairs whose reference run is shorter than a second are left out: start-up and rounding drown the machine.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from stowplan.errors import InvalidFile, UnknownName
from stowplan.simulate.files import parse_csv

__all__ = ["REFERENCE_MACHINE", "MachineFactor", "MachineLaw", "Run", "parse_runs"]

REFERENCE_MACHINE: Final = "local"
_SHORTEST_REFERENCE_S: Final = 1.0
_NEEDS: Final = (
    "Machine", "Task", "Realtime", "TaskInputSize", "Label", "Workflow", "NumberSequences", "%cpu", "cpus",
    "memory", "peak_rss", "read_bytes", "write_bytes",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One execution of a task on a machine."""

    machine: str
    workflow: str
    task: str
    label: str
    sequences: int
    input_bytes: float
    runtime_s: float
    mean_cores: float
    requested_cores: float
    requested_memory_bytes: float
    peak_memory_bytes: float
    read_bytes: float
    written_bytes: float

    @property
    def template(self) -> str:
        """Kind of task, `WORKFLOW/TASK`: workflows share task names, but not their work."""
        return f"{self.workflow}/{self.task}"

    @property
    def matching_key(self) -> tuple[str, str, str, int, float]:
        """What two executions of the same work on two machines have in common."""
        return (self.workflow, self.task, self.label, self.sequences, self.input_bytes)


@dataclass(frozen=True, slots=True)
class MachineFactor:
    """Time factor of a task on a machine: median and 10–90 % range over `pairs` matched runs."""

    median: float
    low: float
    high: float
    pairs: int


@dataclass(frozen=True, slots=True)
class MachineLaw:
    """Factors by template and machine, against `reference` (which has none: it is 1)."""

    reference: str
    factors: Mapping[str, Mapping[str, MachineFactor]]

    @classmethod
    def of(cls, runs: Iterable[Run], *, reference: str = REFERENCE_MACHINE) -> MachineLaw:
        """Match executions across machines and take medians.

        Raises:
            UnknownName: no execution is on the reference machine.
        """
        by_machine: dict[str, dict[tuple[str, str, str, int, float], list[Run]]] = {}
        for run in runs:
            by_machine.setdefault(run.machine, {}).setdefault(run.matching_key, []).append(run)
        if reference not in by_machine:
            raise UnknownName("reference machine", reference, by_machine)
        ratios: dict[str, dict[str, list[float]]] = {}
        for key, runs_there in by_machine[reference].items():
            reference_s = statistics.median(run.runtime_s for run in runs_there)
            if reference_s < _SHORTEST_REFERENCE_S:
                continue
            for machine, keyed in by_machine.items():
                if machine != reference and key in keyed:
                    ratio = statistics.median(run.runtime_s for run in keyed[key]) / reference_s
                    ratios.setdefault(runs_there[0].template, {}).setdefault(machine, []).append(ratio)
        factors = {
            template: {machine: _factor(found) for machine, found in sorted(by.items())}
            for template, by in sorted(ratios.items())
        }
        return cls(reference, factors)

    @property
    def machines(self) -> tuple[str, ...]:
        """Machine types with at least one factor, sorted."""
        return tuple(sorted({machine for by in self.factors.values() for machine in by}))

    def machine_factors(self, template: str) -> tuple[tuple[str, float], ...]:
        """Return (machine type, factor) pairs of a template, as `WorkProfile.machine_factors` takes them.

        A machine on which the template was not measured (or only in runs below a second) gets the median over
        all templates there.
        """
        by = self.factors.get(template, {})
        return tuple(
            (machine, by[machine].median if machine in by else self.typical(machine))
            for machine in self.machines
        )

    def typical(self, machine: str) -> float:
        """Return the median factor over the templates measured on a machine.

        Raises:
            UnknownName: nothing was measured there.
        """
        found = [by[machine].median for by in self.factors.values() if machine in by]
        if not found:
            raise UnknownName("machine type", machine, self.machines)
        return statistics.median(found)


def _factor(ratios: list[float]) -> MachineFactor:
    ordered = sorted(ratios)
    last = len(ordered) - 1
    return MachineFactor(
        statistics.median(ordered), ordered[round(0.1 * last)], ordered[round(0.9 * last)], len(ordered)
    )


def parse_runs(text: str, name: str) -> tuple[Run, ...]:
    """Return the executions of a Lotaru report; `name` is the file in messages.

    Raises:
        InvalidFile: a column is missing, or a number is unusable.
    """
    runs: list[Run] = []
    for line, row in enumerate(parse_csv(text, name, needs=_NEEDS), start=2):

        def number(column: str, row: dict[str, str] = row, line: int = line) -> float:
            return _number(row[column], column, f"{name}: line {line}")

        runs.append(
            Run(
                machine=row["Machine"],
                workflow=row["Workflow"],
                task=row["Task"],
                label=row["Label"],
                sequences=int(number("NumberSequences")),
                input_bytes=number("TaskInputSize"),
                runtime_s=number("Realtime") / 1000,
                mean_cores=number("%cpu") / 100,
                requested_cores=number("cpus"),
                requested_memory_bytes=number("memory"),
                peak_memory_bytes=number("peak_rss"),
                read_bytes=number("read_bytes"),
                written_bytes=number("write_bytes"),
            )
        )
    return tuple(runs)


def _number(text: str, column: str, where: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number >= 0.0):
        raise InvalidFile(f"{where}: {column} is {text!r}; it must be a finite number ≥ 0")
    return number
