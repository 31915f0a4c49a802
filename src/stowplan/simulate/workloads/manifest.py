"""Reader of Stowplan's own workload files: `apiVersion: stowplan/v1`, `kind: Workload` (docs/FORMATS.md).

A workload lists workflows; each gives its tasks, or is taken `from` another file of any supported format, any
number of times. Everything is checked: unknown keys, units, signs, absurd amounts, the graph; messages name
the field by its path.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal, ParamSpec, TypeVar

import msgspec

from stowplan.core.domain import (
    CPU,
    MEMORY,
    Gang,
    GpuRequest,
    Operator,
    PodShape,
    Requirement,
    Resources,
    Task,
    Toleration,
    TolerationOperator,
    Workflow,
    freeze_labels,
)
from stowplan.errors import InvalidFile, InvalidInput, InvalidWorkflow
from stowplan.simulate.fields import (
    MOST_BYTES,
    MOST_CORES,
    Quantity,
    Strict,
    amount,
    convert,
    effect,
    seconds,
)
from stowplan.simulate.files import parse_yaml
from stowplan.simulate.work_rules import requested_cpu_milli, requested_memory_bytes
from stowplan.simulate.workfields import WorkFields, work_of
from stowplan.simulate.workloads.arrivals import Arrivals, parse_arrivals
from stowplan.simulate.workloads.model import Submission, Workload

__all__ = ["parse"]

_P = ParamSpec("_P")
_T = TypeVar("_T")
_MOST_TASKS: Final = 1_000_000
_WHOLE_GPU: Final = 1000


class _Gpu(Strict):
    count: int = 1
    milli: int = _WHOLE_GPU
    models: tuple[str, ...] = ()


class _Toleration(Strict):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str | None = None


class _Task(Strict):
    name: str
    work: WorkFields
    count: int = 1
    after: tuple[str, ...] = ()
    template: str | None = None
    requests: dict[str, Quantity] = msgspec.field(default_factory=dict[str, Quantity])
    limits: dict[str, Quantity] = msgspec.field(default_factory=dict[str, Quantity])
    gpu: _Gpu | None = None
    gang: str = ""
    labels: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    node_selector: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    tolerations: tuple[_Toleration, ...] = ()
    priority: int = 0
    expected: Quantity | None = None
    input: Quantity = 0
    output: Quantity = 0


class _Workflow(Strict):
    name: str | None = None
    family: str = ""
    at: Quantity | None = None
    copies: int = 1
    tasks: list[_Task] | None = None
    source: str | None = msgspec.field(default=None, name="from")
    instance: int = 0


class _Metadata(Strict):
    name: str


class _Spec(Strict):
    workflows: list[_Workflow]
    arrivals: str | None = None


class _Manifest(Strict):
    api_version: Literal["stowplan/v1"]
    kind: Literal["Workload"]
    metadata: _Metadata
    spec: _Spec


def parse(text: str, path: Path, load: Callable[[Path, int], Workload]) -> Workload:
    """Return the workload of a file; `load` reads what a workflow is taken `from` (a path and an instance).

    Raises:
        InvalidFile, InvalidQuantity, InvalidWorkflow: something in it is unusable; the message names file and
        field.
    """
    documents = parse_yaml(text, str(path))
    if len(documents) > 1:
        raise InvalidFile(f"{path}: holds {len(documents)} documents; put one workload in a file")
    manifest = convert(documents[0], _Manifest, str(path))
    arrivals: Arrivals | None = None
    if manifest.spec.arrivals is not None:
        arrivals = _within(f"{path}: spec.arrivals", parse_arrivals, manifest.spec.arrivals)
    submissions: list[Submission] = []
    notes: list[str] = []
    for index, fields in enumerate(manifest.spec.workflows):
        where = f"{path}: spec.workflows[{index}]"
        if fields.copies < 1:
            raise InvalidFile(f"{where}.copies: is {fields.copies}; give at least 1")
        if (fields.source is None) == (fields.tasks is None):
            raise InvalidFile(f"{where}: must give either tasks or from; give one of the two")
        at_s = 0.0 if fields.at is None else seconds(fields.at, f"{where}.at")
        if fields.source is None:
            part = Workload("", (Submission(at_s, _workflow(fields, fields.tasks or [], where)),))
        else:
            part = _taken(fields, path.parent / fields.source, at_s, where, load)
        part = part.replicated(fields.copies)
        submissions += part.submissions
        notes += part.notes
    if not submissions:
        raise InvalidWorkflow(f"{path}: spec.workflows is empty; give at least one workflow")
    workload = Workload(
        manifest.metadata.name, tuple(submissions), source=str(path), notes=tuple(dict.fromkeys(notes))
    )
    return replace(workload, arrivals=arrivals)


def _taken(
    fields: _Workflow, source: Path, at_s: float, where: str, load: Callable[[Path, int], Workload]
) -> Workload:
    loaded = _within(f"{where}.from", load, source, fields.instance)
    if loaded.arrivals is not None:
        raise InvalidFile(
            f"{where}.from: {source} has arrivals of its own; take its workflows from their own files"
        )
    submissions = tuple(Submission(at_s + item.time_s, item.workflow) for item in loaded.submissions)
    if fields.name is not None:
        only = len(submissions) == 1
        submissions = tuple(
            Submission(item.time_s, replace(item.workflow, name=fields.name))
            if only
            else item.prefixed(fields.name)
            for item in submissions
        )
    return replace(loaded, submissions=submissions)


def _workflow(fields: _Workflow, tasks: list[_Task], where: str) -> Workflow:
    if fields.name is None:
        raise InvalidFile(f"{where}: has tasks but no name; name the workflow")
    if fields.instance:
        raise InvalidFile(f"{where}.instance: belongs to from, but tasks are given")
    if sum(max(task.count, 0) for task in tasks) > _MOST_TASKS:
        raise InvalidFile(f"{where}.tasks: are more than {_MOST_TASKS} in all; lower the counts")
    names_of: dict[str, list[str]] = {}
    built: list[Task] = []
    gang_of = _gangs(tasks)
    for index, task in enumerate(tasks):
        at = f"{where}.tasks[{index}]"
        if task.count < 1:
            raise InvalidFile(f"{at}.count: is {task.count}; give at least 1")
        if task.name in names_of:
            raise InvalidWorkflow(f"{at}: task {task.name!r} occurs twice; names must be unique")
        names = [task.name] if task.count == 1 else [f"{task.name}-{number}" for number in range(task.count)]
        names_of[task.name] = names
        model = replace(_within(at, _task, task, at), gang=gang_of[task.gang])
        built += (replace(model, name=name) for name in names)
    edges: list[tuple[str, str]] = []
    for index, task in enumerate(tasks):
        for parent in task.after:
            if parent not in names_of:
                raise InvalidWorkflow(
                    f"{where}.tasks[{index}].after: {task.name!r} comes after the unknown task {parent!r}; "
                    "add the task or remove the name"
                )
            edges += ((above, below) for above in names_of[parent] for below in names_of[task.name])
    return _within(where, Workflow, fields.name, tuple(built), tuple(edges), fields.family)


def _gangs(tasks: Sequence[_Task]) -> dict[str, Gang | None]:
    """Return the gang by each name that tasks give, with as many tasks as name it; none by the empty one."""
    sizes = Counter[str]()
    for task in tasks:
        sizes[task.gang] += task.count
    return {name: Gang(name, max(size, 1)) if name else None for name, size in sizes.items()}


def _task(fields: _Task, where: str) -> Task:
    limits = _resources(fields.limits, f"{where}.limits")
    work = work_of(
        fields.work,
        f"{where}.work",
        cpu_limit_cores=limits[CPU] / 1000 if CPU in limits else None,
        memory_limit_bytes=float(limits[MEMORY]) if MEMORY in limits else None,
    )
    # What the API does too: a limit without a request is the request.
    requests = limits.replaced(_resources(fields.requests, f"{where}.requests"))
    by_rule = {
        CPU: requested_cpu_milli(max(phase.cpu_cores for phase in work.phases)),
        MEMORY: requested_memory_bytes(work.anon_bytes),
    }
    requests = Resources(by_rule).replaced(requests)
    expected_s = work.alone_s if fields.expected is None else seconds(fields.expected, f"{where}.expected")
    return Task(
        name=fields.name,
        shape=PodShape(
            labels=freeze_labels(fields.labels),
            requests=requests,
            score_cpu_milli=requests[CPU],
            score_memory_bytes=requests[MEMORY],
            gpu=_gpu(fields.gpu, f"{where}.gpu"),
            node_selector=tuple(
                Requirement(key, Operator.IN, (label,)) for key, label in sorted(fields.node_selector.items())
            ),
            tolerations=tuple(
                _toleration(item, f"{where}.tolerations[{index}]")
                for index, item in enumerate(fields.tolerations)
            ),
            priority=fields.priority,
        ),
        work=work,
        expected_s=expected_s,
        template=fields.name if fields.template is None else fields.template,
        input_bytes=amount(fields.input, f"{where}.input", most=MOST_BYTES),
        output_bytes=amount(fields.output, f"{where}.output", most=MOST_BYTES),
    )


def _resources(quantities: dict[str, Quantity], where: str) -> Resources:
    for name, quantity in quantities.items():
        if (
            name not in {CPU, MEMORY, "ephemeral-storage"}
            and "/" not in name
            and not name.startswith("hugepages-")
        ):
            raise InvalidFile(
                f"{where}: {name!r} is no resource; write cpu, memory, or an extended one like nvidia.com/gpu"
            )
        amount(quantity, f"{where}.{name}", most=MOST_CORES if name == CPU else MOST_BYTES)
    return _within(where, Resources.from_quantities, quantities)


def _gpu(fields: _Gpu | None, where: str) -> GpuRequest | None:
    if fields is None:
        return None
    if (
        fields.count < 1
        or not 0 < fields.milli <= _WHOLE_GPU
        or (fields.count > 1 and fields.milli != _WHOLE_GPU)
    ):
        raise InvalidFile(
            f"{where}: asks for {fields.milli} thousandths of {fields.count} GPUs; it must be 1 … 1000 of "
            "one, or 1000 of more"
        )
    return GpuRequest(fields.count, fields.milli, tuple(fields.models))


def _toleration(fields: _Toleration, where: str) -> Toleration:
    try:
        operator = TolerationOperator(fields.operator)
    except ValueError:
        known = ", ".join(item.value for item in TolerationOperator)
        raise InvalidFile(f"{where}.operator: is {fields.operator!r}; it must be one of {known}") from None
    found = None if fields.effect is None else effect(fields.effect, f"{where}.effect")
    return Toleration(fields.key, operator, fields.value, found)


def _within(where: str, make: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Call `make`, and put `where` before the message of an input error that does not begin with it."""
    try:
        return make(*args, **kwargs)
    except InvalidInput as error:
        if where.split(":", 1)[0] in str(error):
            raise
        raise type(error)(f"{where}: {error}") from None
