"""What a file is, seen from its content: every format that Stowplan reads, and what each can be used as.

Names of files are never trusted: a trace is often renamed, and a truncated download keeps its name.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntFlag
from typing import Final, cast

from stowplan.errors import InvalidFile
from stowplan.simulate.files import parse_json, parse_yaml

__all__ = ["FORMATS", "Format", "Use", "recognise"]


class Use(IntFlag):
    """What a file of a format can be."""

    NOTHING = 0
    WORKLOAD = 1
    CLUSTER = 2
    LAW = 4


@dataclass(frozen=True, slots=True)
class Format:
    """A format: what a file of it holds, what it can be used as, and advice to who asks for another use."""

    name: str
    holds: str
    use: Use
    advice: str


FORMATS: Final[dict[str, Format]] = {
    item.name: item
    for item in (
        Format(
            "stowplan-workload", "Stowplan's own YAML, kind Workload", Use.WORKLOAD, "pass it as --workload"
        ),
        Format("stowplan-cluster", "Stowplan's own YAML, kind Cluster", Use.CLUSTER, "pass it as --cluster"),
        Format(
            "wfformat",
            "a recorded workflow execution (WfFormat 1.5 JSON)",
            Use.WORKLOAD,
            "pass it as --workload",
        ),
        Format(
            "nextflow-trace",
            "a Nextflow execution trace (CSV)",
            Use.WORKLOAD | Use.CLUSTER,
            "pass it as --workload; with host names in it also as --cluster",
        ),
        Format(
            "nextflow-dag",
            "the process graph of a Nextflow run (HTML)",
            Use.NOTHING,
            "it holds no run times: pass the trace CSV beside it, which finds this graph by itself",
        ),
        Format("tpch-stages", "TPC-H stages on Spark (JSON)", Use.WORKLOAD, "pass it as --workload"),
        Format(
            "tpch-batch",
            "batches of TPC-H jobs with one shared resource (JSON)",
            Use.WORKLOAD | Use.CLUSTER,
            "pass it as --workload and as --cluster",
        ),
        Format("openb-pods", "pods of the openb GPU cluster (CSV)", Use.WORKLOAD, "pass it as --workload"),
        Format("openb-nodes", "nodes of the openb GPU cluster (CSV)", Use.CLUSTER, "pass it as --cluster"),
        Format(
            "lotaru",
            "tasks measured on several machine types (CSV)",
            Use.WORKLOAD | Use.LAW,
            "pass it as --workload, or load its machine factors with stowplan.simulate.laws",
        ),
        Format(
            "sia",
            "a placement law: step times of a training job by GPUs and nodes (CSV)",
            Use.LAW,
            "it describes how speed depends on placement, not what runs; load it with stowplan.simulate.laws",
        ),
        Format(
            "gavel",
            "a throughput law: training jobs alone and in pairs, by GPU model (JSON)",
            Use.LAW,
            "it describes how fast jobs run, not what runs; load it with stowplan.simulate.laws",
        ),
        Format(
            "lucid",
            "a co-location law: pairs of training jobs on one GPU (CSV)",
            Use.LAW,
            "it describes who slows whom on one GPU, not what runs; load it with stowplan.simulate.laws",
        ),
        Format(
            "azure-vm-noise",
            "a drift law: one benchmark repeated over months (CSV)",
            Use.LAW,
            "it describes how a resource drifts, not what runs; name it under drift in a cluster file",
        ),
        Format(
            "kubernetes",
            "Kubernetes objects (YAML)",
            Use.CLUSTER,
            "Nodes in it make a cluster; for pods that wait use `stowplan feasible`",
        ),
        Format(
            "argo",
            "an Argo Workflows manifest (YAML)",
            Use.NOTHING,
            "it says what to run but not for how long; write the tasks and their work as kind Workload "
            "(docs/FORMATS.md)",
        ),
    )
}

_ARGO_GROUP: Final = "argoproj.io/"
_OWN_VERSION: Final = "stowplan/v1"
_HEADERS: Final[tuple[tuple[str, Sequence[str]], ...]] = (
    ("nextflow-trace", ("task_id", "process", "status", "realtime")),
    ("openb-pods", ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")),
    ("openb-nodes", ("sn", "cpu_milli", "memory_mib", "gpu", "model")),
    ("lotaru", ("Machine", "Task", "Realtime", "TaskInputSize")),
    ("sia", ("placement", "local_bsz", "step_time", "sync_time")),
    ("lucid", ("model1", "speed1", "model2", "speed2", "gpu_util")),
    ("azure-vm-noise", ("value", "runtime", "starttime", "VM_id")),
)


def recognise(text: str, name: str) -> Format:
    """Return the format of a file from its text; `name` is the file in messages.

    Raises:
        InvalidFile: no known format, or JSON or YAML that cannot be parsed.
    """
    start = text.lstrip()[:1]
    if start in {"{", "["}:
        found = _recognise_json(parse_json(text, name))
    elif start == "<":
        found = "nextflow-dag" if "cytoscape" in text and "elements:" in text else None
    else:
        found = _recognise_table(text) or _recognise_yaml(text, name)
    if found is None:
        known = "; ".join(f"{item.name}: {item.holds}" for item in FORMATS.values())
        raise InvalidFile(f"{name}: its content is of no known format. Known are {known}")
    return FORMATS[found]


def _recognise_json(document: object) -> str | None:
    keys = _keys(document)
    if "workflow" in keys and ("schemaVersion" in keys or "runtimeSystem" in keys):
        return "wfformat"
    if {"capacity", "instances"} <= keys.keys():
        return "tpch-batch"
    second = _keys(_first(keys))
    third = _keys(_first(second))
    if {"adjacency", "task_durations"} <= third.keys():
        return "tpch-stages"
    if "null" in third:
        return "gavel"
    return _recognise_object(document)


def _keys(document: object) -> dict[str, object]:
    return cast("dict[str, object]", document) if isinstance(document, dict) else {}


def _first(document: dict[str, object]) -> object:
    return next(iter(document.values()), None)


def _recognise_table(text: str) -> str | None:
    line = text.lstrip().split("\n", 1)[0].rstrip("\r")
    for delimiter in (",", ";", "\t"):
        columns = {column for row in csv.reader(io.StringIO(line), delimiter=delimiter) for column in row}
        for format_name, needs in _HEADERS:
            if columns.issuperset(needs):
                return format_name
    return None


def _recognise_yaml(text: str, name: str) -> str | None:
    if ":" not in text:
        return None
    documents = parse_yaml(text, name)
    if not all(isinstance(document, dict) for document in documents):
        return None
    return next((found for document in documents if (found := _recognise_object(document)) is not None), None)


def _recognise_object(document: object) -> str | None:
    keys = _keys(document)
    version, kind = keys.get("apiVersion"), keys.get("kind")
    if not isinstance(version, str) or not isinstance(kind, str):
        return None
    if version.startswith("stowplan/"):
        if version != _OWN_VERSION:
            raise InvalidFile(f"apiVersion {version!r} is not known; this Stowplan reads {_OWN_VERSION}")
        return {"Workload": "stowplan-workload", "Cluster": "stowplan-cluster"}.get(kind)
    return "argo" if version.startswith(_ARGO_GROUP) else "kubernetes"
