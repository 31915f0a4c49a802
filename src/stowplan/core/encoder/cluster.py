"""The row of the cluster: its size, its mix of machines, its load, and what waits.

Means over the nodes are summed in integers, so that they are the same whatever the order of the nodes.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain import CPU_COLUMN, MEMORY_COLUMN
from stowplan.core.encoder.columns import MEANS, SCHEMA
from stowplan.core.encoder.node_columns import LOADS
from stowplan.core.encoder.nodes import NodeRows
from stowplan.core.encoder.tasks import TasksEncoded
from stowplan.core.policy.interface import CycleView

__all__ = ["encode_cluster"]

Doubles = NDArray[np.float64]

_AT: Final = SCHEMA.cluster.places
_WIDTH: Final = len(SCHEMA.cluster.columns)
_MEANS_AT: Final = np.array([_AT[name] for name in LOADS] + [_AT[f"mean_{name}"] for name in MEANS])
_NODE_COLUMNS: Final = np.array([SCHEMA.node.places[name] for name in (*LOADS, *MEANS)])
_FREE_CORES: Final = SCHEMA.node.places["free_cpu_cores"]
_FREE_MEMORY: Final = SCHEMA.node.places["free_memory_bytes"]
_GPUS: Final = SCHEMA.node.places["gpus"]
_REQUEST: Final = SCHEMA.task.places["request_cpu_cores"]
_MEMBERS: Final = SCHEMA.task.places["group_tasks"]
_HIGHEST: Final = 4.0
_STEPS: Final = 2.0**32  # of a number that is summed in integers


def encode_cluster(view: CycleView, nodes: NodeRows, tasks: TasksEncoded, groups: int) -> Doubles:
    """Return the raw row of the cluster, float64 (columns,), NaN where a number is not known.

    Args:
        view: the cycle.
        nodes: rows of the nodes, up to date.
        tasks: rows of the groups that are encoded.
        groups: how many there are, with those that are not.
    """
    row = np.full(_WIDTH, math.nan)
    size = nodes.rows.size
    allocatable = view.state.allocatable[nodes.rows].sum(axis=0)
    free = np.maximum(allocatable - view.state.requested[nodes.rows].sum(axis=0), 0)
    cores = float(allocatable[CPU_COLUMN]) / 1000.0
    wanted_cores = float((tasks.raw[:, _REQUEST] * tasks.raw[:, _MEMBERS]).sum())
    remaining_s = math.fsum(one.progress.remaining_work_s for one in tasks.workflows)
    oldest_s = view.now_s - view.pending[0].ready_s if view.pending else 0.0
    row[_MEANS_AT] = _means(nodes.raw[:, _NODE_COLUMNS])
    numbers = {
        "nodes": size,
        "machine_types": len(nodes.types),
        "common_type_share": nodes.type_counts.max(initial=0) / max(size, 1),
        "gpu_nodes_share": np.count_nonzero(nodes.raw[:, _GPUS]) / max(size, 1),
        "cores": cores,
        "free_cpu_share": _share(free[CPU_COLUMN], allocatable[CPU_COLUMN]),
        "free_memory_share": _share(free[MEMORY_COLUMN], allocatable[MEMORY_COLUMN]),
        "most_free_cpu_cores": nodes.raw[:, _FREE_CORES].max(initial=0.0),
        "most_free_memory_bytes": nodes.raw[:, _FREE_MEMORY].max(initial=0.0),
        "pending_tasks": len(view.pending),
        "pending_groups": groups,
        "pending_workflows": len(tasks.workflows),
        "running_tasks": len(view.running),
        "oldest_waiting_s": oldest_s,
        "demanded_cpu_share": wanted_cores / max(cores, 1e-3),
        "remaining_s": remaining_s / max(cores, 1e-3),
    }
    for name, number in numbers.items():
        row[_AT[name]] = number
    return row


def _share(part: np.int64, whole: np.int64) -> float:
    return float(part) / float(whole) if whole > 0 else math.nan


def _means(columns: Doubles) -> Doubles:
    """Return the mean of what is known in each column, clipped to 0 … 4; NaN where nothing is."""
    known = np.isfinite(columns)
    steps = np.clip(np.where(known, columns, 0.0), 0.0, _HIGHEST) * _STEPS
    count = known.sum(axis=0)
    sums = np.rint(steps).astype(np.int64).sum(axis=0)
    return np.where(count > 0, sums / _STEPS / np.maximum(count, 1), math.nan)
