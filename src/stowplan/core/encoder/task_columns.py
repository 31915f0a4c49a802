"""Columns of a group of pending tasks: what it needs, what it asks for, and where it stands."""

from __future__ import annotations

from typing import Final

from stowplan.core.encoder.column_kinds import AMOUNTS, BYTES, COUNT, MOST_BYTES, SECONDS, log, share
from stowplan.core.encoder.schema import FeatureGroup, Table

__all__ = ["TASK"]

_HISTORY: Final = FeatureGroup.HISTORY
_TOPOLOGY: Final = FeatureGroup.TOPOLOGY

_DEMANDS: Final = tuple(
    log(
        f"demand_{name}",
        unit,
        f"{meaning} that the task needs per second of its work, the mean of its phases",
        "work profile",
        bounds,
        _HISTORY,
        can_miss=True,
    )
    for unit, name, bounds, meaning in AMOUNTS.values()
)

TASK: Final = Table(
    "task",
    (
        *_DEMANDS,
        share(
            "exposed_latency_share",
            "share of the task's time that waits on memory, alone on an idle machine",
            "work profile",
            _HISTORY,
        ),
        log(
            "expected_s",
            "s",
            "how long the task is expected to take on the reference machine",
            "history",
            (0.1, 1e6),
            _HISTORY,
        ),
        log(
            "best_factor",
            "1",
            "time that it takes on the machine type that suits it best, over that on the reference machine",
            "history, node",
            (0.05, 20.0),
            _HISTORY,
        ),
        log(
            "mean_factor",
            "1",
            "the same of all nodes, their geometric mean",
            "history, node",
            (0.05, 20.0),
            _HISTORY,
        ),
        log(
            "reduced_bytes_per_s",
            "B/s",
            "gradients that a training job reduces over its workers, per second of computing",
            "work profile",
            (1e3, 1e13),
            _HISTORY,
            can_miss=True,
        ),
        log(
            "anon_bytes",
            "B",
            "memory that the task is expected to hold for itself",
            "work profile",
            BYTES,
            _HISTORY,
            can_miss=True,
        ),
        log(
            "cache_bytes",
            "B",
            "page cache that the task is expected to fill",
            "work profile",
            BYTES,
            _HISTORY,
            can_miss=True,
        ),
        log(
            "input_bytes",
            "B",
            "size of the files that the task reads",
            "workflow",
            BYTES,
            _HISTORY,
            can_miss=True,
        ),
        log(
            "output_bytes",
            "B",
            "size of the files that it writes",
            "workflow",
            BYTES,
            _HISTORY,
            can_miss=True,
        ),
        log("request_cpu_cores", "cores", "cores that the pod requests", "pod", (0.01, 1024.0)),
        log("request_memory_bytes", "B", "memory that the pod requests", "pod", (2.0**20, MOST_BYTES)),
        log("request_gpus", "1", "GPUs that the pod requests, shares of one included", "pod", (0.05, 64.0)),
        log("gang_tasks", "1", "tasks that must start together with it, itself included", "workflow", COUNT),
        log("group_tasks", "1", "pending tasks that are alike and scored as one", "pending tasks", COUNT),
        log("waiting_s", "s", "how long the oldest of them has been ready", "pending tasks", SECONDS),
        log("workflow_age_s", "s", "time since the workflow was submitted", "workflow", SECONDS),
        log("workflow_open_tasks", "1", "tasks of the workflow that have not ended", "workflow", COUNT),
        share("workflow_open_share", "share of its tasks that have not ended", "workflow"),
        log("workflow_pending_tasks", "1", "those of them that are pending", "pending tasks", COUNT),
        log("workflow_running_tasks", "1", "those that run", "workflow", COUNT),
        log(
            "workflow_remaining_s",
            "s",
            "expected seconds of the workflow's tasks that have not ended, summed",
            "workflow, history",
            SECONDS,
            _HISTORY,
        ),
        share(
            "workflow_remaining_share",
            "the same as a share of the whole workflow",
            "workflow, history",
            _HISTORY,
        ),
        log(
            "critical_path_s",
            "s",
            "longest expected path through what is left of the workflow",
            "workflow, history",
            SECONDS,
            _TOPOLOGY,
            _HISTORY,
        ),
        log(
            "upward_rank_s",
            "s",
            "longest expected path from the task to an exit, itself included",
            "workflow, history",
            SECONDS,
            _TOPOLOGY,
            _HISTORY,
        ),
        log(
            "slack_s",
            "s",
            "how much later the task may end without making the critical path longer",
            "critical path − upward rank",
            SECONDS,
            _TOPOLOGY,
            _HISTORY,
        ),
        share("order_share", "place in the topological order, 0 first, 1 last", "workflow", _TOPOLOGY),
        log("depth", "1", "edges from an entry", "workflow", (0.5, 1e3), _TOPOLOGY),
        log("parents", "1", "tasks that it waited for", "workflow", COUNT, _TOPOLOGY),
        log("children", "1", "tasks that wait for it", "workflow", COUNT, _TOPOLOGY),
        log(
            "freed_children",
            "1",
            "of those, the ones that wait for nothing else",
            "workflow",
            COUNT,
            _TOPOLOGY,
        ),
        share("is_leaf", "1 when no task waits for it", "workflow", _TOPOLOGY),
    ),
)
