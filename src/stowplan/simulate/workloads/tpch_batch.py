"""Reader of TPC-H batches: jobs present at time zero that share one resource.

JSON: `capacity`, and `instances` with `jobs` ("20g/8": query 8 at 20 GB), `tasks` as [duration_ms, executors]
and
`edges` as [parent, child] task indexes. One executor is one core here, so every rule that weighs CPU applies
as it stands; a batch is a workload and its one-node cluster (`capacity`). The jobs are the weakly connected
parts of the graph, in the order of `jobs`.
"""

from __future__ import annotations

from typing import Final

import msgspec

from stowplan.core.domain import Phase, Task, Workflow, WorkProfile
from stowplan.errors import InvalidFile, InvalidInput, InvalidWorkflow
from stowplan.simulate.files import file_stem, parse_json
from stowplan.simulate.work_rules import pod_shape
from stowplan.simulate.workloads.model import Submission, Workload

__all__ = ["capacity_cores", "parse"]

_FIELDS: Final = ["duration_ms", "executors"]
_LARGEST_CAPACITY: Final = 10_000_000


class _Instance(msgspec.Struct, forbid_unknown_fields=True):
    jobs: list[str]
    tasks: list[tuple[float, int]]
    edges: list[tuple[int, int]]


class _Batch(msgspec.Struct, forbid_unknown_fields=True):
    capacity: int
    task_fields: list[str]
    edge: str
    instances: list[_Instance]


def parse(text: str, name: str) -> tuple[Workload, ...]:
    """Return one workload per instance; `name` is the file in messages.

    Raises:
        InvalidFile: not JSON, not of this form, or an unusable number.
        InvalidWorkflow: a job is no DAG.
    """
    batch = _decode(text, name)
    return tuple(
        _workload(instance, f"{file_stem(name)}-{index}", f"{name}, instance {index}", batch.capacity)
        for index, instance in enumerate(batch.instances)
    )


def capacity_cores(text: str, name: str) -> int:
    """Return the capacity that the instances of a batch share, in executors (cores).

    Raises:
        InvalidFile: not JSON or not of this form.
    """
    return _decode(text, name).capacity


def _decode(text: str, name: str) -> _Batch:
    try:
        batch = msgspec.convert(parse_json(text, name), _Batch, strict=True)
    except msgspec.ValidationError as error:
        raise InvalidFile(f"{name}: is not a TPC-H batch: {error}") from None
    if batch.task_fields != _FIELDS:
        raise InvalidFile(f"{name}: task_fields are {batch.task_fields}; only {_FIELDS} is read")
    if not 0 < batch.capacity <= _LARGEST_CAPACITY:
        raise InvalidFile(
            f"{name}: capacity is {batch.capacity}; it must lie between 1 and {_LARGEST_CAPACITY}"
        )
    if not batch.instances:
        raise InvalidFile(f"{name}: has no instances; give a file with content")
    return batch


def _workload(instance: _Instance, workload_name: str, source: str, capacity: int) -> Workload:
    count = len(instance.tasks)
    for parent, child in instance.edges:
        if not (0 <= parent < count and 0 <= child < count):
            raise InvalidWorkflow(f"{source}: edge [{parent}, {child}] names a task outside 0 … {count - 1}")
    parts = _parts(count, instance.edges)
    if len(parts) != len(instance.jobs):
        raise InvalidWorkflow(
            f"{source}: {len(instance.jobs)} jobs are named but the graph has {len(parts)} connected parts; "
            "each job must be one"
        )
    edges_of: dict[int, list[tuple[str, str]]] = {part[0]: [] for part in parts}
    first_of = {index: part[0] for part in parts for index in part}
    for parent, child in instance.edges:
        edges_of[first_of[parent]].append((str(parent), str(child)))
    submissions: list[Submission] = []
    for number, (job, part) in enumerate(zip(instance.jobs, parts, strict=True)):
        tasks: list[Task] = []
        for index in part:
            duration_ms, executors = instance.tasks[index]
            if not 0 < executors <= _LARGEST_CAPACITY:
                raise InvalidFile(
                    f"{source}: task {index} asks for {executors} executors; it must be at least 1"
                )
            try:
                work = WorkProfile((Phase(work_s=duration_ms / 1000, cpu_cores=executors),))
            except InvalidInput as error:
                raise InvalidFile(f"{source}: task {index}: {error}") from None
            shape = pod_shape(1000 * executors, 0)
            tasks.append(
                Task(str(index), shape, work, duration_ms / 1000, template=f"{job}/{index - part[0]}")
            )
        workflow = Workflow(f"{number:03d}-{job}", tuple(tasks), tuple(edges_of[part[0]]), family=job)
        submissions.append(Submission(0.0, workflow))
    notes = (f"one executor is one core of the batch's capacity of {capacity}; no memory, no contention",)
    return Workload(workload_name, tuple(submissions), source=source, notes=notes)


def _parts(count: int, edges: list[tuple[int, int]]) -> list[list[int]]:
    """Return the weakly connected parts, each ascending, in order of their first task."""
    above = list(range(count))

    def root(index: int) -> int:
        while above[index] != index:
            above[index] = above[above[index]]
            index = above[index]
        return index

    for parent, child in edges:
        low, high = sorted((root(parent), root(child)))
        above[high] = low
    parts: dict[int, list[int]] = {}
    for index in range(count):
        parts.setdefault(root(index), []).append(index)
    return list(parts.values())
