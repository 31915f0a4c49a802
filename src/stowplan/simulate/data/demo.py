"""What `stowplan demo` runs: real workflow executions on an unequal cloud cluster.

The table beside this module holds facts of thirteen recorded runs (ORIGIN.md says whose). Each arrives twice,
in an order and at times drawn from the generator. How much slower or faster a machine type runs a kind of
task is drawn too, once per template: log-normal with the quartiles that the Lotaru measurements show over
about 1,000 matched executions a machine (c2: 0.70, 0.82, 0.93; a1: 1.33, 1.55, 1.81 times the reference's run
time).
"""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Final

import numpy as np

from stowplan.core.domain import Task, Workflow
from stowplan.simulate.clusters import Cluster, load_cluster
from stowplan.simulate.files import parse_csv, read_text
from stowplan.simulate.workloads import Poisson, Submission, Workload
from stowplan.simulate.workloads.recorded import RecordedTask, notes_of

__all__ = [
    "COPIES",
    "MACHINE_QUARTILES",
    "MEAN_GAP_S",
    "load_demo_cluster",
    "load_demo_recordings",
    "load_demo_workload",
]

MACHINE_QUARTILES: Final = {"fast": (0.70, 0.82, 0.93), "older": (1.33, 1.55, 1.81)}
"""Quartiles of the time factor of a task on a machine type; the type `standard` is the reference."""
COPIES: Final = 2
"""How often each run arrives."""
MEAN_GAP_S: Final = 40.0
"""Mean seconds between the arrivals of two workflows."""

_FOLDER: Final = Path(__file__).parent
_TABLE: Final = "demo_workflows.csv.gz"
_CLUSTER: Final = "demo_cluster.yaml"
_NORMAL_QUARTILE: Final = 0.6744897501960817


def load_demo_cluster() -> Cluster:
    """Return the demo's cluster: three machine types, two zones, disks with burst and drift."""
    return load_cluster(_FOLDER / _CLUSTER)


def load_demo_workload(rng: np.random.Generator) -> Workload:
    """Return every run twice, in random order, with Poisson arrivals and machine factors."""
    recorded = load_demo_recordings()
    templates = sorted({task.template for tasks, _ in recorded.values() for task in tasks})
    factors_of = _machine_factors(templates, rng)
    imputed: Counter[str] = Counter()
    names = [str(name) for name in rng.permutation([*recorded] * COPIES)]
    times_s = Poisson(MEAN_GAP_S).times_s([0.0] * len(names), rng)
    submissions: list[Submission] = []
    seen: Counter[str] = Counter()
    for name, time_s in zip(names, times_s, strict=True):
        tasks, edges = recorded[name]
        seen[name] += 1
        built: list[Task] = [task.task(imputed, machine_factors=factors_of[task.template]) for task in tasks]
        workflow = Workflow(f"{name}/{seen[name]}", tuple(built), edges, family=name.split("-")[0])
        submissions.append(Submission(float(time_s), workflow))
    count = sum(len(submission.workflow) for submission in submissions)
    notes = (
        *notes_of(imputed, count),
        "machine factors drawn per template from the quartiles that Lotaru measured",
    )
    return Workload("demo", tuple(submissions), source="WfInstances, see ORIGIN.md", notes=notes)


def load_demo_recordings() -> dict[str, tuple[list[RecordedTask], tuple[tuple[str, str], ...]]]:
    """Return tasks and edges (parent, child) of each run of the table by name, in the order of the table."""
    rows = parse_csv(
        read_text(_FOLDER / _TABLE), _TABLE, needs=("workflow", "template", "parents", "seconds")
    )
    runs: dict[str, tuple[list[RecordedTask], list[tuple[str, str]]]] = {}
    for row in rows:
        tasks, edges = runs.setdefault(row["workflow"], ([], []))
        name = f"{row['template']}-{len(tasks)}"
        tasks.append(
            RecordedTask(
                name=name,
                template=row["template"],
                runtime_s=float(row["seconds"]),
                mean_cores=_number(row["mean_cores"]),
                cores=_number(row["cores"]),
                read_bytes=_number(row["read_bytes"]),
                written_bytes=_number(row["written_bytes"]),
                memory_bytes=_number(row["memory_bytes"]),
                input_bytes=float(row["input_bytes"]),
                output_bytes=float(row["output_bytes"]),
            )
        )
        edges.append((row["parents"], name))
    return {run: (tasks, _named(tasks, edges)) for run, (tasks, edges) in runs.items()}


def _named(tasks: list[RecordedTask], edges: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    return tuple((tasks[int(parent)].name, child) for parents, child in edges for parent in parents.split())


def _number(text: str) -> float | None:
    return float(text) if text else None


def _machine_factors(
    templates: list[str], rng: np.random.Generator
) -> dict[str, tuple[tuple[str, float], ...]]:
    """Draw (machine type, factor) pairs for each template."""
    drawn: dict[str, dict[str, float]] = {template: {} for template in templates}
    for machine, (low, median, high) in MACHINE_QUARTILES.items():
        spread = math.log(high / low) / (2 * _NORMAL_QUARTILE)
        for template, factor in zip(
            templates, median * np.exp(rng.normal(0.0, spread, len(templates))), strict=True
        ):
            drawn[template][machine] = float(factor)
    return {template: tuple(sorted(factors.items())) for template, factors in drawn.items()}
