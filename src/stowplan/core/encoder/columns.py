"""The columns: what the policy sees of tasks, nodes and the cluster. `docs/ENCODER.md` is made from them.

Everything is physical: no name, label or place of a node or task is among them, so that a policy moves
between clusters. Bounds are where a number stops to matter, proposals all; those of readings are the
catalogue's.
"""

from __future__ import annotations

from typing import Final

from stowplan.core.encoder.schema import Column, FeatureGroup, Schema, Table
from stowplan.core.physics.vocabulary import Resource
from stowplan.core.semantics import quantity

__all__ = ["LOADS", "MEANS", "READINGS", "RESIDUALS", "SCHEMA"]

_MOST_BYTES: Final = 2.0**44
_AMOUNTS: Final = {
    Resource.CPU: ("cores", "cpu_cores", (0.01, 1024.0), "cores"),
    Resource.DRAM: ("B/s", "dram_bytes_per_s", (1e6, 1e12), "bytes over the memory controllers"),
    Resource.DISK: ("B/s", "disk_bytes_per_s", (1e3, 1e11), "bytes read from and written to disk"),
    Resource.DISK_OPS: ("1/s", "disk_operations_per_s", (0.1, 1e7), "disk requests"),
    Resource.NIC_UP: ("B/s", "nic_up_bytes_per_s", (1e3, 1e12), "bytes sent"),
    Resource.NIC_DOWN: ("B/s", "nic_down_bytes_per_s", (1e3, 1e12), "bytes received"),
    Resource.PCIE: ("B/s", "pcie_bytes_per_s", (1e3, 1e12), "bytes through a PCIe root complex"),
}
"""Unit, name, bounds and meaning of an amount of each resource."""
_NAMES: Final = {resource: resource.name.lower() for resource in Resource}


def _share(name: str, meaning: str, source: str, *, high: float = 1.0, low: float = 0.0) -> Column:
    return Column(name=name, unit="1", meaning=meaning, source=source, low=low, high=high)


def _known_share(
    name: str,
    meaning: str,
    source: str,
    group: FeatureGroup | None = None,
    *,
    high: float = 1.0,
    low: float = 0.0,
) -> Column:
    return Column(
        name=name, unit="1", meaning=meaning, source=source, low=low, high=high, group=group, can_miss=True
    )


def _log(  # noqa: PLR0913  (one argument per field of a column)
    name: str,
    unit: str,
    meaning: str,
    source: str,
    bounds: tuple[float, float],
    group: FeatureGroup | None = None,
    *,
    can_miss: bool = False,
) -> Column:
    low, high = bounds
    return Column(
        name=name,
        unit=unit,
        meaning=meaning,
        source=source,
        low=low,
        high=high,
        is_log=True,
        group=group,
        can_miss=can_miss,
    )


_COUNT: Final = (0.5, 1e5)
_SECONDS: Final = (0.1, 1e7)
_BYTES: Final = (2.0**10, _MOST_BYTES)

_DEMANDS: Final = tuple(
    _log(
        f"demand_{name}",
        unit,
        f"{meaning} that the task needs per second of its work, the mean of its phases",
        "work profile",
        bounds,
        FeatureGroup.HISTORY,
    )
    for unit, name, bounds, meaning in _AMOUNTS.values()
)

_TASK: Final = Table(
    "task",
    (
        *_DEMANDS,
        Column(
            name="exposed_latency_share",
            unit="1",
            meaning="share of the task's time that waits on memory, alone on an idle machine",
            source="work profile",
            low=0.0,
            high=1.0,
            group=FeatureGroup.HISTORY,
        ),
        _log(
            "expected_s",
            "s",
            "how long the task is expected to take on the reference machine",
            "history",
            (0.1, 1e6),
            FeatureGroup.HISTORY,
        ),
        _log(
            "best_factor",
            "1",
            "time that it takes on the machine type that suits it best, over that on the reference machine",
            "history, node",
            (0.05, 20.0),
            FeatureGroup.HISTORY,
        ),
        _log(
            "mean_factor",
            "1",
            "the same of all nodes, their geometric mean",
            "history, node",
            (0.05, 20.0),
            FeatureGroup.HISTORY,
        ),
        _log(
            "anon_bytes",
            "B",
            "memory that the task is expected to hold for itself",
            "work profile",
            _BYTES,
            FeatureGroup.HISTORY,
            can_miss=True,
        ),
        _log(
            "cache_bytes",
            "B",
            "page cache that the task is expected to fill",
            "work profile",
            _BYTES,
            FeatureGroup.HISTORY,
            can_miss=True,
        ),
        _log(
            "input_bytes",
            "B",
            "size of the files that the task reads",
            "workflow",
            _BYTES,
            FeatureGroup.HISTORY,
            can_miss=True,
        ),
        _log(
            "output_bytes",
            "B",
            "size of the files that it writes",
            "workflow",
            _BYTES,
            FeatureGroup.HISTORY,
            can_miss=True,
        ),
        _log("request_cpu_cores", "cores", "cores that the pod requests", "pod", (0.01, 1024.0)),
        _log("request_memory_bytes", "B", "memory that the pod requests", "pod", (2.0**20, _MOST_BYTES)),
        _log("request_gpus", "1", "GPUs that the pod requests, shares of one included", "pod", (0.05, 64.0)),
        _log("group_tasks", "1", "pending tasks that are alike and scored as one", "pending tasks", _COUNT),
        _log("waiting_s", "s", "how long the oldest of them has been ready", "pending tasks", _SECONDS),
        _log("workflow_age_s", "s", "time since the workflow was submitted", "workflow", _SECONDS),
        _log("workflow_open_tasks", "1", "tasks of the workflow that have not ended", "workflow", _COUNT),
        _share("workflow_open_share", "share of its tasks that have not ended", "workflow"),
        _log("workflow_pending_tasks", "1", "those of them that are pending", "pending tasks", _COUNT),
        _log("workflow_running_tasks", "1", "those that run", "workflow", _COUNT),
        _log(
            "workflow_remaining_s",
            "s",
            "expected seconds of the workflow's tasks that have not ended, summed",
            "workflow, history",
            _SECONDS,
            FeatureGroup.HISTORY,
        ),
        Column(
            name="workflow_remaining_share",
            unit="1",
            meaning="the same as a share of the whole workflow",
            source="workflow, history",
            low=0.0,
            high=1.0,
            group=FeatureGroup.HISTORY,
        ),
        _log(
            "critical_path_s",
            "s",
            "longest expected path through what is left of the workflow",
            "workflow, history",
            _SECONDS,
            FeatureGroup.TOPOLOGY,
        ),
        _log(
            "upward_rank_s",
            "s",
            "longest expected path from the task to an exit, itself included",
            "workflow, history",
            _SECONDS,
            FeatureGroup.TOPOLOGY,
        ),
        _log(
            "slack_s",
            "s",
            "how much later the task may end without making the critical path longer",
            "critical path − upward rank",
            _SECONDS,
            FeatureGroup.TOPOLOGY,
        ),
        Column(
            name="order_share",
            unit="1",
            meaning="place in the topological order, 0 first, 1 last",
            source="workflow",
            low=0.0,
            high=1.0,
            group=FeatureGroup.TOPOLOGY,
        ),
        _log("depth", "1", "edges from an entry", "workflow", (0.5, 1e3), FeatureGroup.TOPOLOGY),
        _log("parents", "1", "tasks that it waited for", "workflow", _COUNT, FeatureGroup.TOPOLOGY),
        _log("children", "1", "tasks that wait for it", "workflow", _COUNT, FeatureGroup.TOPOLOGY),
        _log(
            "freed_children",
            "1",
            "of those, the ones that wait for nothing else",
            "workflow",
            _COUNT,
            FeatureGroup.TOPOLOGY,
        ),
        Column(
            name="is_leaf",
            unit="1",
            meaning="1 when no task waits for it",
            source="workflow",
            low=0.0,
            high=1.0,
            group=FeatureGroup.TOPOLOGY,
        ),
    ),
)

LOADS: Final = tuple(f"load_{name}" for name in _NAMES.values())
"""Columns of a node that say how much of each resource its pods are expected to take, in order."""

READINGS: Final = {
    "memory_bandwidth_utilisation": FeatureGroup.MBPI,
    "memory_bandwidth_pressure": FeatureGroup.MBPI,
    "storage_await_s": FeatureGroup.STORAGE,
    "storage_queue_depth": FeatureGroup.STORAGE,
    "storage_utilisation": FeatureGroup.STORAGE,
    "storage_bytes_per_s": FeatureGroup.STORAGE,
    "storage_level": FeatureGroup.STORAGE,
    "memory_working_set_share": FeatureGroup.MEMORY,
    "memory_cache_share": FeatureGroup.MEMORY,
    "cpu_utilisation": FeatureGroup.USAGE,
    "cpu_wait_share": FeatureGroup.USAGE,
    "nic_utilisation": FeatureGroup.USAGE,
    "rtt_tail_s": FeatureGroup.RTT,
    "pcie_link_share": FeatureGroup.PCIE,
}
"""Quantities on the board of readings that are columns of a node, with the group of each."""


def _reading(name: str, group: FeatureGroup) -> Column:
    about = quantity(name)
    return Column(
        name=name,
        unit=about.unit,
        meaning=about.meaning,
        source="readings",
        low=about.score_low,
        high=about.score_high,
        is_log=about.is_log,
        group=group,
        can_miss=True,
    )


RESIDUALS: Final = {
    "unexplained_cpu": ("cpu_utilisation", FeatureGroup.USAGE),
    "unexplained_dram": ("memory_bandwidth_utilisation", FeatureGroup.MBPI),
    "unexplained_disk": ("storage_bytes_per_s", FeatureGroup.STORAGE),
    "unexplained_nic": ("nic_utilisation", FeatureGroup.USAGE),
}
"""Columns of a node that hold a reading less what its known pods explain: the reading and its group."""

_NODE: Final = Table(
    "node",
    (
        *(
            _log(
                f"capacity_{name}",
                unit,
                f"{meaning} that the node can do at most",
                "node",
                bounds,
                can_miss=True,
            )
            for unit, name, bounds, meaning in _AMOUNTS.values()
        ),
        _log("allocatable_memory_bytes", "B", "memory for pods", "node", (2.0**28, _MOST_BYTES)),
        _log("memory_per_core_bytes", "B", "memory for pods per core", "node", (2.0**26, 2.0**40)),
        _log("gpus", "1", "GPUs of the node", "node", (0.5, 64.0)),
        _known_share(
            "free_cpu_share", "share of the allocatable cores that no pod requests", "cluster state"
        ),
        _known_share(
            "free_memory_share", "share of the allocatable memory that no pod requests", "cluster state"
        ),
        _known_share(
            "free_pods_share",
            "share of the pods that the node takes which it could still take",
            "cluster state",
        ),
        _known_share("free_gpu_share", "share of the GPUs that is free", "cluster state"),
        _log(
            "free_cpu_cores",
            "cores",
            "allocatable cores that no pod requests",
            "cluster state",
            (0.05, 1024.0),
        ),
        _log(
            "free_memory_bytes",
            "B",
            "allocatable memory that no pod requests",
            "cluster state",
            (2.0**24, _MOST_BYTES),
        ),
        _log("pods", "1", "pods on the node", "cluster state", _COUNT),
        _known_share(
            "known_pods_share",
            "share of them that are tasks of which the work is known",
            "cluster state, running tasks",
        ),
        *(
            _known_share(
                name,
                f"{_AMOUNTS[resource][3]} that the node's pods should take, as a share of what it can do",
                "work profiles of running tasks; requests of other pods",
                high=4.0,
            )
            for resource, name in zip(Resource, LOADS, strict=True)
        ),
        Column(
            name="exposed_tasks",
            unit="1",
            meaning="exposed latency shares of the node's tasks, summed: who is hurt by load on memory",
            source="work profiles of running tasks",
            low=0.0,
            high=16.0,
        ),
        _known_share(
            "exposed_cpu_share",
            "the same, each by the cores that the task takes, as a share of the cores",
            "work profiles of running tasks",
            high=4.0,
        ),
        *(_reading(name, group) for name, group in READINGS.items()),
        *(
            _known_share(
                name,
                f"{reading} (as a share of what the node can do) less what its pods explain",
                "readings, loads",
                group,
                low=-1.0,
            )
            for name, (reading, group) in RESIDUALS.items()
        ),
    ),
)

MEANS: Final = ("memory_bandwidth_pressure", "storage_level", "cpu_utilisation", "nic_utilisation")
"""Readings of which the cluster has the mean over its nodes."""

_CLUSTER: Final = Table(
    "cluster",
    (
        _log("nodes", "1", "nodes", "cluster state", _COUNT),
        _log("machine_types", "1", "machine types among the nodes", "cluster state", (0.5, 1e3)),
        _share(
            "common_type_share", "share of the nodes that are of the commonest machine type", "cluster state"
        ),
        _share("gpu_nodes_share", "share of the nodes with GPUs", "cluster state"),
        _log("cores", "cores", "allocatable cores of all nodes", "cluster state", (1.0, 1e6)),
        _known_share("free_cpu_share", "share of them that no pod requests", "cluster state"),
        _known_share(
            "free_memory_share", "share of the allocatable memory that no pod requests", "cluster state"
        ),
        _log("most_free_cpu_cores", "cores", "most that a node has free", "cluster state", (0.05, 1024.0)),
        _log(
            "most_free_memory_bytes",
            "B",
            "most that a node has free",
            "cluster state",
            (2.0**24, _MOST_BYTES),
        ),
        *(_known_share(name, f"mean of the nodes' {name}", "node columns", high=4.0) for name in LOADS),
        *(
            _known_share(
                f"mean_{name}", f"mean of the nodes' {name}", "node columns", READINGS[name], high=4.0
            )
            for name in MEANS
        ),
        _log("pending_tasks", "1", "pending tasks", "pending tasks", _COUNT),
        _log("pending_groups", "1", "groups of pending tasks that are alike", "pending tasks", _COUNT),
        _log("pending_workflows", "1", "workflows with pending tasks", "pending tasks", _COUNT),
        _log("running_tasks", "1", "tasks that have a node", "running tasks", _COUNT),
        _log("oldest_waiting_s", "s", "how long the oldest task has been ready", "pending tasks", _SECONDS),
        _log(
            "demanded_cpu_share",
            "1",
            "cores that pending tasks request, as a share of the allocatable cores",
            "pending tasks, cluster state",
            (1e-4, 1e4),
        ),
        _log(
            "remaining_s",
            "s",
            "expected seconds left of the workflows with pending tasks, per allocatable core",
            "workflows, history",
            (1e-3, 1e7),
            FeatureGroup.HISTORY,
        ),
    ),
)

SCHEMA: Final = Schema(_TASK, _NODE, _CLUSTER, ("order", "depth", "parents", "upward_rank_share"))
"""What this version encodes."""
