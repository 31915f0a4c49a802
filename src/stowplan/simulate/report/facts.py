"""The inputs of a run in words: what it ran on, what ran, how, and with which versions."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import metadata

import stowplan
from stowplan.core.domain import MEMORY
from stowplan.simulate.clusters.model import Cluster
from stowplan.simulate.report.tables import amount, counted, describe_duration
from stowplan.simulate.workloads.model import Workload

__all__ = ["cluster_facts", "version_facts", "workload_facts"]

_GIB = 1 << 30
_SHOWN = 12
_LIBRARIES = ("numpy", "numba", "polars", "plotly")


def cluster_facts(cluster: Cluster) -> list[tuple[str, str]]:
    """Return the name, size, machines, disturbances and origin of a cluster."""
    memory_gib = sum(node.allocatable.get(MEMORY, 0) for node in cluster.nodes) / _GIB
    gpus = Counter(gpu.model for node in cluster.nodes for gpu in node.hardware.gpus)
    machines = Counter(node.hardware.machine_type or "unnamed" for node in cluster.nodes)
    nodes = counted(len(cluster), "node")
    facts = [
        ("Name", cluster.name),
        (
            "Size",
            f"{nodes}, {amount(cluster.cores)} cores, {amount(memory_gib)} GiB memory",
        ),
        ("Machine types", _counted(machines)),
    ]
    if gpus:
        facts.append(("GPUs", _counted(gpus)))
    if cluster.background:
        tenants = Counter(item.name for item in cluster.background)
        on_nodes = (f"{name} on {counted(count, 'node')}" for name, count in tenants.items())
        facts.append(("Background tenants", ", ".join(on_nodes)))
    if cluster.drift:
        drifting = (f"{item.resource.name.lower()} of {len(item.nodes)} nodes" for item in cluster.drift)
        facts.append(("Drift", ", ".join(drifting)))
    return facts + _origin(cluster.source, cluster.notes)


def workload_facts(workload: Workload) -> list[tuple[str, str]]:
    """Return the name, size, families, origin and assumptions of a workload."""
    families = Counter(submission.workflow.family or "no family" for submission in workload.submissions)
    tasks = f"{counted(len(workload), 'workflow')}, {counted(workload.task_count, 'task')}"
    facts = [
        ("Name", workload.name),
        ("Size", f"{tasks}, {describe_duration(workload.alone_s)} of undisturbed work in all"),
        ("Families", _counted(families)),
    ]
    return facts + _origin(workload.source, workload.notes)


def version_facts(libraries: Sequence[str] = _LIBRARIES) -> list[tuple[str, str]]:
    """Return the versions of Stowplan, Python and the libraries that results depend on."""
    return [
        ("Stowplan", stowplan.__version__),
        ("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        *((name, metadata.version(name)) for name in libraries),
    ]


def _origin(source: str, notes: Sequence[str]) -> list[tuple[str, str]]:
    return [*([("Origin", source)] if source else []), *(("Note", note) for note in notes)]


def _counted(counts: Mapping[str, int]) -> str:
    most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    listed = ", ".join(f"{count:,} × {name}" for name, count in most[:_SHOWN])
    return f"{listed} and {len(most) - _SHOWN} more kinds" if len(most) > _SHOWN else listed
