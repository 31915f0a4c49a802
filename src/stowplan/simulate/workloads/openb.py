"""Reader of the openb GPU cluster trace: a pod list as single-task workflows, a node list as a cluster.

Pods: `name,cpu_milli,memory_mib,num_gpu,gpu_milli` and, except in the multi-GPU variants, `gpu_spec` (models
joined by `|`), `creation_time`, `deletion_time` and `scheduled_time` in seconds. Nodes:
`sn,cpu_milli,memory_mib,gpu,model`. A pod runs from being scheduled to its deletion; a pod that never was has
only its life time, and a list without times holds pods that stay.
"""

from __future__ import annotations

from typing import Final

from stowplan.core.domain import (
    CPU,
    MACHINE_TYPE_LABEL,
    MEMORY,
    PODS,
    Gpu,
    GpuRequest,
    Hardware,
    Node,
    Phase,
    Resources,
    Task,
    Workflow,
    WorkProfile,
)
from stowplan.errors import InvalidFile, InvalidQuantity
from stowplan.simulate.files import file_stem, parse_csv
from stowplan.simulate.work_rules import pod_shape
from stowplan.simulate.workloads.model import Submission, Workload

__all__ = ["STAYS_S", "parse_nodes", "parse_pods"]

_POD_COLUMNS: Final = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
_NODE_COLUMNS: Final = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
STAYS_S: Final = 365 * 86400.0
"""Run time given to a pod of which no time is known: longer than the whole trace (149 days), so it never
leaves."""

_MIB: Final = 1024 * 1024
_PODS_PER_NODE: Final = 110
_WHOLE_GPU: Final = 1000
_MOST: Final = 10**12


def parse_pods(text: str, name: str) -> Workload:
    """Return one single-task workflow per pod, submitted at its creation; `name` is the file in messages.

    Raises:
        InvalidFile: a column is missing, or a number is unusable.
    """
    rows = parse_csv(text, name, needs=_POD_COLUMNS)
    has_times = "creation_time" in rows[0]
    submissions: list[Submission] = []
    pending = 0
    for line, row in enumerate(rows, start=2):
        where = f"{name}: line {line}"
        created = _whole(row, "creation_time", where) if has_times else 0
        seconds, was_scheduled = _seconds(row, created, where) if has_times else (STAYS_S, True)
        pending += not was_scheduled
        task = _task(row, seconds, where)
        submissions.append(Submission(float(created), Workflow(row["name"], (task,), family="openb")))
    notes = [] if has_times else ["the list holds no times: every pod is there at time zero and stays"]
    if pending:
        notes.append(
            f"{pending} pods were never scheduled: their run time is their life from creation to deletion"
        )
    return Workload(file_stem(name), tuple(submissions), source=name, notes=tuple(notes))


def _seconds(row: dict[str, str], created: int, where: str) -> tuple[float, bool]:
    deleted = _whole(row, "deletion_time", where)
    scheduled = row.get("scheduled_time", "")
    began = _whole(row, "scheduled_time", where) if scheduled else created
    if deleted < began:
        raise InvalidFile(f"{where}: pod {row['name']!r} is deleted at {deleted}, before it began at {began}")
    return float(deleted - began), bool(scheduled)


def _task(row: dict[str, str], seconds: float, where: str) -> Task:
    cpu_milli = _whole(row, "cpu_milli", where)
    memory_bytes = _whole(row, "memory_mib", where) * _MIB
    count, milli = _whole(row, "num_gpu", where), _whole(row, "gpu_milli", where)
    gpu: GpuRequest | None = None
    if count:
        if not 0 < milli <= _WHOLE_GPU or (count > 1 and milli != _WHOLE_GPU):
            raise InvalidFile(
                f"{where}: pod {row['name']!r} asks for {milli} thousandths of each of {count} GPUs; "
                "it must be 1 … 1000 of one, or 1000 of several"
            )
        gpu = GpuRequest(count, milli, tuple(model for model in row.get("gpu_spec", "").split("|") if model))
    work = WorkProfile((Phase(seconds, cpu_milli / 1000),), anon_bytes=float(memory_bytes))
    return Task(
        name="pod",
        shape=pod_shape(cpu_milli, memory_bytes, gpu),
        work=work,
        expected_s=seconds,
        template=row.get("qos", ""),
    )


def parse_nodes(text: str, name: str) -> tuple[Node, ...]:
    """Return the nodes of a node list; `name` is the file in messages.

    A node takes 110 pods (the kubelet's default), which the trace does not hold; its GPUs have one PCIe root
    complex for each four, also by assumption.

    Raises:
        InvalidFile: a column is missing, a number is unusable, or a node occurs twice.
    """
    nodes: list[Node] = []
    seen: set[str] = set()
    for line, row in enumerate(parse_csv(text, name, needs=_NODE_COLUMNS), start=2):
        where = f"{name}: line {line}"
        if row["sn"] in seen:
            raise InvalidFile(f"{where}: node {row['sn']!r} occurs twice; keep one")
        seen.add(row["sn"])
        cpu_milli, gpus = _whole(row, "cpu_milli", where), _whole(row, "gpu", where)
        if gpus and not row["model"]:
            raise InvalidFile(f"{where}: node {row['sn']!r} has {gpus} GPUs of no model; name the model")
        allocatable = Resources(
            {CPU: cpu_milli, MEMORY: _whole(row, "memory_mib", where) * _MIB, PODS: _PODS_PER_NODE}
        )
        machine_type = f"{cpu_milli // 1000}c-{gpus}x{row['model']}" if gpus else f"{cpu_milli // 1000}c"
        labels = ((MACHINE_TYPE_LABEL, machine_type),)
        hardware = Hardware(
            cores=cpu_milli / 1000,
            gpus=tuple(Gpu(row["model"], f"root-{index // 4}") for index in range(gpus)),
            machine_type=machine_type,
        )
        nodes.append(Node(row["sn"], allocatable, labels=labels, hardware=hardware))
    return tuple(nodes)


def _whole(row: dict[str, str], column: str, where: str) -> int:
    text = row.get(column, "")
    try:
        number = int(text)
    except ValueError:
        raise InvalidFile(f"{where}: {column} is {text!r}; it must be a whole number") from None
    if not 0 <= number <= _MOST:
        raise InvalidQuantity(f"{where}: {column} is {number}; it must lie between 0 and {_MOST}")
    return number
