"""Reader of TPC-H stages on Spark: 22 queries at 7 scales, measured task durations by number of executors.

JSON: scale ("2g" …) → query → `adjacency` (stage × stage, 1: row before column), `stage_to_node`, and for
each stage `first_wave`, `rest_wave` and `fresh_durations`, each from the number of executors to a list of
task durations in milliseconds. A first wave on executors just started is slower: those are the fresh
durations.

A stage becomes one pod that gangs `min(tasks, executors)` executors of one core each. Its time is that of its
waves at the measured number of executors nearest to what it got: the mean first wave, then the mean later
wave for each further one. More executors than tasks of a stage help nothing, and durations grow with
executors, as measured.
"""

from __future__ import annotations

import math
from typing import Final

import msgspec

from stowplan.core.domain import Phase, Task, Workflow, WorkProfile
from stowplan.errors import InvalidFile, InvalidInput
from stowplan.simulate.files import file_stem, parse_json
from stowplan.simulate.work_rules import pod_shape
from stowplan.simulate.workloads.model import Submission, Workload

__all__ = ["DEFAULT_EXECUTORS", "Query", "Stage", "parse", "read_queries"]

DEFAULT_EXECUTORS: Final = 8
_EXECUTOR_MEMORY_BYTES: Final = 1 << 30


class Stage(msgspec.Struct):
    """Measured task durations of a stage in milliseconds, by wave, then by number of executors."""

    first_wave: dict[str, list[float]]
    rest_wave: dict[str, list[float]]
    fresh_durations: dict[str, list[float]]


class Query(msgspec.Struct):
    """The stages of a query: which come before which (row before column), and their durations by number."""

    adjacency: list[list[float]]
    task_durations: dict[str, Stage]


def read_queries(text: str, name: str) -> dict[str, dict[str, Query]]:
    """Return the queries of each scale, in the order of the file; `name` is the file in messages.

    Raises:
        InvalidFile: not JSON, not of this form, or a query without durations of each of its stages.
    """
    try:
        scales = msgspec.convert(parse_json(text, name), dict[str, dict[str, Query]], strict=True)
    except msgspec.ValidationError as error:
        raise InvalidFile(f"{name}: is not a collection of TPC-H stages: {error}") from None
    for scale, queries in scales.items():
        for number, query in queries.items():
            size = len(query.adjacency)
            if sorted(query.task_durations, key=_stage_number) != [str(stage) for stage in range(size)]:
                raise InvalidFile(
                    f"{name}: tpch-{scale}-q{number} has {size} stages but durations of "
                    f"{len(query.task_durations)}"
                )
            for row in query.adjacency:
                if len(row) != size:
                    raise InvalidFile(
                        f"{name}: tpch-{scale}-q{number} has an adjacency row of {len(row)} for {size} stages"
                    )
    return scales


def parse(text: str, name: str, *, executors: int = DEFAULT_EXECUTORS) -> Workload:
    """Return every query at every scale as a workflow, with at most `executors` executors a stage.

    Raises:
        InvalidFile: not JSON, not of this form, or a stage without a measured task.
        InvalidWorkflow: the stages of a query are no DAG.
        InvalidInput: `executors` is less than 1.
    """
    if executors < 1:
        raise InvalidInput(f"{executors} executors; ask for at least 1")
    submissions: list[Submission] = []
    for scale, queries in read_queries(text, name).items():
        for number, query in queries.items():
            submissions.append(Submission(0.0, _workflow(f"tpch-{scale}-q{number}", query, executors, name)))
    notes = (
        f"a stage is one pod of at most {executors} executors, one core and 1 GiB each (no memory recorded)",
        "stages of no recorded bytes: durations as measured, no contention for disk or memory bandwidth",
    )
    return Workload(file_stem(name), tuple(submissions), source=name, notes=notes)


def _workflow(workflow_name: str, query: Query, executors: int, name: str) -> Workflow:
    tasks: list[Task] = []
    for stage in range(len(query.adjacency)):
        gang, seconds = _gang(
            query.task_durations[str(stage)], executors, f"{name}: {workflow_name} stage {stage}"
        )
        shape = pod_shape(1000 * gang, gang * _EXECUTOR_MEMORY_BYTES)
        try:
            work = WorkProfile(
                (Phase(seconds, float(gang)),), anon_bytes=float(gang * _EXECUTOR_MEMORY_BYTES)
            )
        except InvalidInput as error:
            raise InvalidFile(f"{name}: {workflow_name} stage {stage}: {error}") from None
        tasks.append(Task(f"stage-{stage}", shape, work, seconds, template=f"{workflow_name}/stage-{stage}"))
    edges: list[tuple[str, str]] = []
    for parent, row in enumerate(query.adjacency):
        edges.extend((f"stage-{parent}", f"stage-{child}") for child, there in enumerate(row) if there)
    return Workflow(workflow_name, tuple(tasks), tuple(edges), family=workflow_name.rsplit("-", 1)[-1])


def _stage_number(key: str) -> int:
    return int(key) if key.isdecimal() else -1


def _gang(stage: Stage, executors: int, where: str) -> tuple[int, float]:
    """Return the executors that a stage uses and its seconds on them."""
    levels = sorted(int(level) for level in stage.first_wave if stage.first_wave[level])
    if not levels:
        raise InvalidFile(f"{where}: has no measured task; remove the query")
    # The number of tasks differs a little between measurements of a few stages; the lowest level is the most
    # complete.
    total = len(stage.first_wave[str(levels[0])]) + len(stage.rest_wave.get(str(levels[0]), []))
    gang = min(total, executors)
    level = min(levels, key=lambda measured: (abs(math.log(measured / gang)), measured))
    first = stage.first_wave[str(level)]
    rest = stage.rest_wave.get(str(level)) or first
    waves = math.ceil(total / gang)
    milliseconds = math.fsum(first) / len(first) + (waves - 1) * math.fsum(rest) / len(rest)
    return gang, milliseconds / 1000
