"""Reader of WfFormat 1.5: one recorded workflow execution as JSON (WfCommons, https://wfcommons.org/format).

The specification holds the graph and the files, the execution the run time of each task and, depending on who
recorded it, mean CPU, bytes read and written and peak memory. What a recording lacks is imputed by the rules
of
`profiles` and said in the notes. Older versions keep run times and files in other places and are refused.
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
from stowplan.simulate.workloads.profiles import (
    DRAM_NOTE,
    SHORTEST_S,
    Usage,
    imputed_memory_bytes,
    pod_shape,
    requested_cpu_milli,
    requested_memory_bytes,
    work_profile,
)

__all__ = ["VERSION", "parse"]

VERSION: Final = "1.5"
_INSTANCE_SUFFIX: Final = re.compile(r"(_ID\d+|_\d+)$")
_MOST_BYTES: Final = 2.0**63
_MOST_CORES: Final = 4096.0


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
    document: object = parse_json(text, name)
    version = cast("dict[str, object]", document).get("schemaVersion") if isinstance(document, dict) else None
    if version != VERSION:
        raise InvalidFile(
            f"{name}: is WfFormat {version}, only {VERSION} is read (older versions keep run times and "
            "files elsewhere); "
            "convert it with wfcommons"
        )
    try:
        instance = msgspec.convert(document, _Instance, strict=True)
    except msgspec.ValidationError as error:
        raise InvalidFile(f"{name}: is not complete WfFormat {VERSION}: {error}") from None
    return _translate(instance, name)


def _translate(instance: _Instance, name: str) -> Workload:
    specification = instance.workflow.specification
    executed: dict[str, _ExecTask] = {}
    for task in instance.workflow.execution.tasks:
        if task.id in executed:
            raise InvalidFile(f"{name}: workflow.execution has task {task.id!r} twice; keep one")
        executed[task.id] = task
    known = {task.id for task in specification.tasks}
    for identifier in executed:
        if identifier not in known:
            raise InvalidFile(
                f"{name}: workflow.execution names task {identifier!r}, which the specification lacks"
            )
    sizes = {file.id: file.sizeInBytes for file in specification.files}
    imputed: Counter[str] = Counter()
    tasks: list[Task] = []
    edges: dict[tuple[str, str], None] = {}
    for spec in specification.tasks:
        run = executed.get(spec.id)
        if run is None:
            raise InvalidFile(
                f"{name}: task {spec.id!r} has no entry in workflow.execution, so its run time is unknown; "
                "only executed workflows can be simulated"
            )
        try:
            tasks.append(_task(spec, run, sizes, imputed))
        except InvalidInput as error:
            raise InvalidFile(f"{name}: task {spec.id!r}: {error}") from None
        for parent in spec.parents:
            edges[parent, spec.id] = None
        for child in spec.children:
            edges[spec.id, child] = None
    stem = file_stem(name)  # the name inside the file is the same for many runs of one workflow
    workflow = Workflow(name=stem, tasks=tuple(tasks), edges=tuple(edges), family=stem.split("-")[0])
    notes = [f"imputed: {what} for {count} of {len(tasks)} tasks" for what, count in sorted(imputed.items())]
    notes.append("requests by rule: whole cores of the mean use, peak memory and 20 % (the trace holds none)")
    notes.append(DRAM_NOTE)
    return Workload(
        name=stem,
        submissions=(Submission(0.0, workflow),),
        source=f"{name} (WfFormat {VERSION})",
        notes=tuple(notes),
    )


def _task(spec: _SpecTask, run: _ExecTask, sizes: dict[str, float], imputed: Counter[str]) -> Task:
    input_bytes = _sum_sizes(spec.inputFiles, sizes, imputed)
    output_bytes = _sum_sizes(spec.outputFiles, sizes, imputed)
    if run.runtimeInSeconds < SHORTEST_S:
        imputed["a run time of 1 ms (recorded as less)"] += 1
    mean_cores = run.avgCPU / 100.0 if run.avgCPU is not None else run.coreCount
    if mean_cores is None:
        imputed["one busy core"] += 1
        mean_cores = 1.0
    memory_bytes = run.memoryInBytes
    if not memory_bytes:  # absent, or zero, which no process has
        imputed["peak memory (256 MiB and a quarter of the input, at most 4 GiB)"] += 1
        memory_bytes = imputed_memory_bytes(input_bytes)
    read_bytes, written_bytes = run.readBytes, run.writtenBytes
    if read_bytes is None or written_bytes is None:
        imputed["bytes read and written (sizes of its files)"] += 1
    usage = Usage(
        runtime_s=run.runtimeInSeconds,
        mean_cores=mean_cores,
        read_bytes=input_bytes if read_bytes is None else read_bytes,
        written_bytes=output_bytes if written_bytes is None else written_bytes,
        memory_bytes=memory_bytes,
    )
    if (
        usage.mean_cores > _MOST_CORES
        or max(usage.read_bytes, usage.written_bytes, memory_bytes) > _MOST_BYTES
    ):
        raise InvalidInput(f"{usage} is beyond any machine; check its units (bytes, percent of one core)")
    cpu_milli = round(1000 * run.coreCount) if run.coreCount else requested_cpu_milli(mean_cores)
    return Task(
        name=spec.id,
        shape=pod_shape(cpu_milli, requested_memory_bytes(memory_bytes)),
        work=work_profile(usage),
        expected_s=max(usage.runtime_s, SHORTEST_S),
        template=_INSTANCE_SUFFIX.sub("", spec.name),
        input_bytes=input_bytes,
        output_bytes=output_bytes,
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
