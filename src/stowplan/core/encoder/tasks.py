"""Rows of tasks: what follows from the task itself is kept by group, the rest is read in every cycle."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain import CPU, MEMORY, Task, TaskStatus
from stowplan.core.encoder.columns import SCHEMA
from stowplan.core.encoder.factors import usable_factor
from stowplan.core.encoder.groups import Grouped, TaskGroup
from stowplan.core.encoder.workflows import Places, ProgressFacts, Workflows
from stowplan.core.policy.nodes.predicted import demand_of_task

__all__ = ["TasksEncoded", "encode_tasks", "gpus_requested"]

Doubles = NDArray[np.float64]

_WIDTH: Final = len(SCHEMA.task.columns)
_AT: Final = SCHEMA.task.places
_OF_GROUP: Final = (
    "group_tasks",
    "waiting_s",
    "upward_rank_s",
    "slack_s",
    "order_share",
    "freed_children",
)
_OF_WORKFLOW: Final = (
    "workflow_age_s",
    "workflow_open_tasks",
    "workflow_open_share",
    "workflow_pending_tasks",
    "workflow_running_tasks",
    "workflow_remaining_s",
    "workflow_remaining_share",
    "critical_path_s",
)
_GROUP_COLUMNS: Final = np.array([_AT[name] for name in _OF_GROUP])
_WORKFLOW_COLUMNS: Final = np.array([_AT[name] for name in _OF_WORKFLOW])
_BEST_FACTOR, _MEAN_FACTOR = _AT["best_factor"], _AT["mean_factor"]
_RUNNING: Final = int(TaskStatus.RUNNING)
_GPU_SUFFIX: Final = "/gpu"  # of extended resources: nvidia.com/gpu, amd.com/gpu …


@dataclass(frozen=True, slots=True)
class TasksEncoded:
    """Task rows of a cycle: G groups of W workflows, T machine types.

    Attributes:
        raw: float64 (G, columns).
        position: float64 (G, 4); see `Encoded.position`.
        log_factors: float64 (G, T).
        workflows: the workflows.
    """

    raw: Doubles
    position: Doubles
    log_factors: Doubles
    workflows: list[ProgressFacts]


def encode_tasks(
    grouped: Grouped,
    workflows: Workflows,
    types: tuple[str, ...],
    type_counts: NDArray[np.int64],
    now_s: float,
) -> TasksEncoded:
    """Return the rows of the groups of a cycle.

    Args:
        grouped: the groups.
        workflows: what is known of workflows.
        types: names of the machine types.
        type_counts: how many nodes are of each.
        now_s: time of the cycle.
    """
    groups = grouped.groups
    facts_of: dict[int, int] = {}
    facts: list[ProgressFacts] = []
    of_workflow: list[int] = []
    of_group: list[float] = []  # a row after the other
    position: list[float] = []
    pending_of: list[int] = []
    for group in groups:
        progress, index = group.progress, group.first.index
        at = facts_of.get(id(progress))
        if at is None:
            at = facts_of[id(progress)] = len(facts)
            facts.append(workflows.of(progress))
            pending_of.append(0)
        of_workflow.append(at)
        known = facts[at]
        places, members = known.places, len(group.members)
        pending_of[at] += members
        if group.own is None:
            group.own = _own_row(group.task, places, index)
        rank_s, order = progress.upward_rank_s.item(index), places.order.item(index)
        of_group += (
            members,
            now_s - group.first.ready_s,
            rank_s,
            max(known.critical_path_s - rank_s, 0.0),
            order / max(places.order.size - 1, 1),
            _freed(group, index),
        )
        position += (
            order,
            places.depth.item(index),
            places.parents.item(index),
            rank_s / known.longest_s if known.longest_s > 0.0 else 0.0,
        )
    raw = np.array([group.own for group in groups], dtype=np.float64).reshape(len(groups), _WIDTH)
    raw[:, _GROUP_COLUMNS] = np.array(of_group).reshape(len(groups), len(_OF_GROUP))
    rows = [_workflow_row(one, count, now_s) for one, count in zip(facts, pending_of, strict=True)]
    of_each = np.array(rows, dtype=np.float64).reshape(len(rows), len(_OF_WORKFLOW))
    raw[:, _WORKFLOW_COLUMNS] = of_each[np.array(of_workflow, dtype=np.intp)]
    rows_of_types = [_log_factors(group, types) for group in groups]
    log_factors = np.array(rows_of_types, dtype=np.float64).reshape(len(groups), len(types))
    if types:
        raw[:, _BEST_FACTOR] = np.exp(log_factors.min(axis=1))
        raw[:, _MEAN_FACTOR] = np.exp((log_factors * type_counts).sum(axis=1) / type_counts.sum())
    return TasksEncoded(
        raw, np.array(position).reshape(len(groups), len(SCHEMA.position)), log_factors, facts
    )


def gpus_requested(amounts: Mapping[str, int]) -> int:
    """Return the GPUs among amounts of resources, by the names of the device plugins."""
    return sum(amount for name, amount in amounts.items() if name.endswith(_GPU_SUFFIX))


def _own_row(task: Task, places: Places, index: int) -> Doubles:
    """Return what follows from the task and its place alone, the rest NaN."""
    row = np.full(_WIDTH, math.nan)
    demand, work, shape = demand_of_task(task), task.work, task.shape
    row[: demand.per_s.size] = demand.per_s
    gpus = 0.0 if shape.gpu is None else shape.gpu.count * shape.gpu.milli / 1000
    children, job = places.children.item(index), work.training
    own = {
        "exposed_latency_share": demand.exposed,
        "reduced_bytes_per_s": math.nan if job is None else job.gradient_bytes / job.compute_s,
        "gang_tasks": 1 if task.gang is None else task.gang.size,
        "expected_s": task.expected_s,
        "anon_bytes": work.anon_bytes or math.nan,
        "cache_bytes": work.cache_bytes or math.nan,
        "input_bytes": task.input_bytes or math.nan,
        "output_bytes": task.output_bytes or math.nan,
        "request_cpu_cores": shape.requests.get(CPU, 0) / 1000,
        "request_memory_bytes": shape.requests.get(MEMORY, 0),
        "request_gpus": gpus + gpus_requested(shape.requests),
        "depth": places.depth.item(index),
        "parents": places.parents.item(index),
        "children": children,
        "is_leaf": float(children == 0),
    }
    for name, number in own.items():
        row[_AT[name]] = number
    return row


def _workflow_row(facts: ProgressFacts, pending: int, now_s: float) -> tuple[float, ...]:
    progress, places = facts.progress, facts.places
    remaining_s = progress.remaining_work_s
    return (
        now_s - progress.submitted_s,
        progress.open_tasks,
        progress.open_tasks / places.order.size,
        pending,
        int(np.count_nonzero(progress.status == _RUNNING)),
        remaining_s,
        remaining_s / places.total_s if places.total_s > 0.0 else 0.0,
        facts.critical_path_s,
    )


def _freed(group: TaskGroup, index: int) -> float:
    """Return how many children wait for nothing but the first of a group."""
    progress = group.progress
    as_of = (index, progress.open_tasks)  # parents are only counted down when a task ends
    if group.freed[1] != as_of:
        children = progress.workflow.children[index]
        freed = np.count_nonzero(progress.unfinished_parents[list(children)] == 1) if children else 0
        group.freed = (float(freed), as_of)
    return group.freed[0]


def _log_factors(group: TaskGroup, types: tuple[str, ...]) -> Doubles:
    if group.factors is None or group.factors[1] is not types:
        factor_of = dict(group.task.work.machine_factors)
        factors = [usable_factor(factor_of.get(name, 1.0)) for name in types]
        group.factors = (np.log(np.array(factors, dtype=np.float64)), types)
    return group.factors[0]
