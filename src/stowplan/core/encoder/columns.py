"""The columns of the cluster, and all of them together. `docs/ENCODER.md` is made from them.

Everything is physical: no name, label or place of a node or task is among them, so that a policy moves
between clusters. Bounds are where a number stops to matter, proposals all; those of readings are the
catalogue's.
"""

from __future__ import annotations

from typing import Final

from stowplan.core.encoder.column_kinds import COUNT, MOST_BYTES, SECONDS, log, share
from stowplan.core.encoder.node_columns import LOADS, NODE, READINGS
from stowplan.core.encoder.schema import FeatureGroup, Schema, Table
from stowplan.core.encoder.task_columns import TASK

__all__ = ["MEANS", "SCHEMA"]

MEANS: Final = ("memory_bandwidth_pressure", "storage_level", "cpu_utilisation", "nic_utilisation")
"""Readings of which the cluster has the mean over its nodes."""

CLUSTER: Final = Table(
    "cluster",
    (
        log("nodes", "1", "nodes", "cluster state", COUNT),
        log("machine_types", "1", "machine types among the nodes", "cluster state", (0.5, 1e3)),
        share(
            "common_type_share", "share of the nodes that are of the commonest machine type", "cluster state"
        ),
        share("gpu_nodes_share", "share of the nodes with GPUs", "cluster state"),
        log("cores", "cores", "allocatable cores of all nodes", "cluster state", (1.0, 1e6)),
        share("free_cpu_share", "share of them that no pod requests", "cluster state", can_miss=True),
        share(
            "free_memory_share",
            "share of the allocatable memory that no pod requests",
            "cluster state",
            can_miss=True,
        ),
        log("most_free_cpu_cores", "cores", "most that a node has free", "cluster state", (0.05, 1024.0)),
        log(
            "most_free_memory_bytes",
            "B",
            "most that a node has free",
            "cluster state",
            (2.0**24, MOST_BYTES),
        ),
        *(
            share(
                name,
                f"mean of the nodes' {name}",
                "node columns",
                FeatureGroup.HISTORY,
                high=4.0,
                can_miss=True,
            )
            for name in LOADS
        ),
        *(
            share(
                f"mean_{name}",
                f"mean of the nodes' {name}",
                "node columns",
                READINGS[name],
                high=4.0,
                can_miss=True,
            )
            for name in MEANS
        ),
        log("pending_tasks", "1", "pending tasks", "pending tasks", COUNT),
        log("pending_groups", "1", "groups of pending tasks that are alike", "pending tasks", COUNT),
        log("pending_workflows", "1", "workflows with pending tasks", "pending tasks", COUNT),
        log("running_tasks", "1", "tasks that have a node", "running tasks", COUNT),
        log("oldest_waiting_s", "s", "how long the oldest task has been ready", "pending tasks", SECONDS),
        log(
            "demanded_cpu_share",
            "1",
            "cores that pending tasks request, as a share of the allocatable cores",
            "pending tasks, cluster state",
            (1e-4, 1e4),
        ),
        log(
            "remaining_s",
            "s",
            "expected seconds left of the workflows with pending tasks, per allocatable core",
            "workflows, history",
            (1e-3, 1e7),
            FeatureGroup.HISTORY,
        ),
    ),
)

SCHEMA: Final = Schema(TASK, NODE, CLUSTER, ("order", "depth", "parents", "upward_rank_share"))
"""What this version encodes."""
