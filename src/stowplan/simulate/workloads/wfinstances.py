"""Reader of WfFormat 1.5: one recorded workflow execution as JSON (WfCommons, https://wfcommons.org/format).

The specification holds the graph and the files, the execution the run time of each task and, depending on who
recorded it, mean CPU, bytes read and written and peak memory. What a recording lacks is imputed by the rules
of
`work_rules` and said in the notes. Older versions keep run times and files in other places and are refused.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final, cast

import msgspec

from stowplan.core.domain import Task, Workflow
from stowplan.errors import InvalidFile, InvalidInput
from stowplan.simulate.files import file_stem, parse_json
from stowplan.simulate.workloads.model import Submission, Workload
from stowplan.simulate.workloads.recorded import RecordedTask, notes_of

__all__ = ["VERSION", "parse", "parse_recording"]

VERSION: Final = "1.5"
_INSTANCE_SUFFIX: Final = re.compile(r"(_ID\d+|_\d+)$")
_MOST_BYTES: Final = 2.0**63


class _SpecTask(msgspec.Struct):
    name: str
    id: str
    parents: list[str] = []
    children: list[str] = []
    inputFiles: list[str] = []  # noqa: N815  (the format's own names)
    outputFiles: list[str] = []  # noqa: N815


class _File(msgspec.Struct):
    id: str
    sizeInBytes: float  # noqa: N815


class _Specification(msgspec.Struct):
    tasks: list[_SpecTask]
    files: list[_File] = []


class _ExecTask(msgspec.Struct):
    id: str
    runtimeInSeconds: float  # noqa: N815
    avgCPU: float | None = None  # noqa: N815
    coreCount: float | None = None  # noqa: N815
    readBytes: float | None = None  # noqa: N815
    writtenBytes: float | None = None  # noqa: N815
    memoryInBytes: float | None = None  # noqa: N815


class _Execution(msgspec.Struct):
    tasks: list[_ExecTask]


class _Workflow(msgspec.Struct):
    specification: _Specification
    execution: _Execution


class _Instance(msgspec.Struct):
    name: str
    workflow: _Workflow


def parse(text: str, name: str) -> Workload:
    """Return the workload of one execution, submitted at time zero; `name` is the file in messages.

    Raises:
        InvalidFile: not JSON, not WfFormat 1.5, a task without run time, or an unusable number.
        InvalidWorkflow: the graph has a cycle, a dangling edge or no tasks.
    """
    recorded, edges, imputed = parse_recording(text, name)
    tasks: list[Task] = []
    for item in recorded:
        try:
            tasks.append(item.task(imputed))
        except InvalidInput as error:
            raise InvalidFile(f"{name}: task {item.name!r}: {error}") from None
    stem = file_stem(name)  # the name inside the file is the same for many runs of one workflow
    workflow = Workflow(name=stem, tasks=tuple(tasks), edges=edges, family=stem.split("-")[0])
    return Workload(
        name=stem,
        submissions=(Submission(0.0, workflow),),
        source=f"{name} (WfFormat {VERSION})",
        notes=tuple(notes_of(imputed, len(tasks))),
    )


def parse_recording(
    text: str, name: str
) -> tuple[tuple[RecordedTask, ...], tuple[tuple[str, str], ...], Counter[str]]:
    """Return the facts of an execution: tasks, (parent, child) names, and what had to be assumed about files.

    Raises:
        InvalidFile: not JSON, not WfFormat 1.5, a task without run time, or an unusable number.
    """
    instance = _decode(text, name)
    specification = instance.workflow.specification
    executed: dict[str, _ExecTask] = {}
    for task in instance.workflow.execution.tasks:
        if task.id in executed:
            raise InvalidFile(f"{name}: workflow.execution has task {task.id!r} twice; keep one")
        executed[task.id] = task
    known = {task.id for task in specification.tasks}
    unknown = next((identifier for identifier in executed if identifier not in known), None)
    if unknown is not None:
        raise InvalidFile(
            f"{name}: workflow.execution names task {unknown!r}, which is not in the specification"
        )
    sizes = {file.id: file.sizeInBytes for file in specification.files}
    imputed: Counter[str] = Counter()
    tasks: list[RecordedTask] = []
    edges: dict[
        tuple[str, str], None
    ] = {}  # a set that keeps its order: parents and children say the same twice
    for spec in specification.tasks:
        run = executed.get(spec.id)
        if run is None:
            raise InvalidFile(
                f"{name}: task {spec.id!r} has no entry in workflow.execution, so its run time is unknown; "
                "only executed workflows can be simulated"
            )
        try:
            tasks.append(_recorded(spec, run, sizes, imputed))
        except InvalidInput as error:
            raise InvalidFile(f"{name}: task {spec.id!r}: {error}") from None
        edges.update(((parent, spec.id), None) for parent in spec.parents)
        edges.update(((spec.id, child), None) for child in spec.children)
    return tuple(tasks), tuple(edges), imputed


def _decode(text: str, name: str) -> _Instance:
    document: object = parse_json(text, name)
    version = cast("dict[str, object]", document).get("schemaVersion") if isinstance(document, dict) else None
    if version != VERSION:
        raise InvalidFile(
            f"{name}: is WfFormat {version}, only {VERSION} is read (others keep run times and files "
            "elsewhere); "
            "convert it with wfcommons"
        )
    try:
        return msgspec.convert(document, _Instance, strict=True)
    except msgspec.ValidationError as error:
        raise InvalidFile(f"{name}: is not complete WfFormat {VERSION}: {error}") from None


def _recorded(
    spec: _SpecTask, run: _ExecTask, sizes: dict[str, float], imputed: Counter[str]
) -> RecordedTask:
    return RecordedTask(
        name=spec.id,
        template=_INSTANCE_SUFFIX.sub("", spec.name),
        runtime_s=run.runtimeInSeconds,
        mean_cores=None if run.avgCPU is None else run.avgCPU / 100.0,
        cores=run.coreCount,
        read_bytes=run.readBytes,
        written_bytes=run.writtenBytes,
        memory_bytes=run.memoryInBytes,
        input_bytes=_sum_sizes(spec.inputFiles, sizes, imputed),
        output_bytes=_sum_sizes(spec.outputFiles, sizes, imputed),
    )


def _sum_sizes(files: list[str], sizes: dict[str, float], imputed: Counter[str]) -> float:
    total = 0.0
    for file in files:
        size = sizes.get(file)
        if size is None:
            imputed["a file of size 0 (specification.files lacks it)"] += 1
        elif not 0.0 <= size <= _MOST_BYTES:
            raise InvalidInput(f"file {file!r} has a size of {size}; it must be a number of bytes")
        else:
            total += size
    return total
