"""Rows of tasks: what follows from the task itself is kept by group, the rest is read in every cycle."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain import CPU, MEMORY, Task, TaskStatus, WorkflowProgress
from stowplan.core.encoder.columns import SCHEMA
from stowplan.core.encoder.demands import Demands
from stowplan.core.encoder.factors import usable_amounts, usable_factor
from stowplan.core.encoder.groups import Grouped
from stowplan.core.encoder.workflows import Places, ProgressFacts, Workflows
from stowplan.core.physics.vocabulary import RESOURCE_COUNT, Resource
from stowplan.core.policy.demand import TaskDemand

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
_LEAST_QUOTA: Final = 1e-3
_GPU_SUFFIX: Final = "/gpu"  # of extended resources: nvidia.com/gpu, amd.com/gpu …


@dataclass(frozen=True, slots=True)
class TasksEncoded:
    """Task rows of a cycle: G groups of W workflows, T machine types.

    Attributes:
        raw: float64 (G, columns).
        position: float64 (G, 4); see `Encoded.position`.
        log_factors: float64 (G, T).
        asked: float32 (G, RESOURCE_COUNT + 2); `asked_per_s`, `exposed` and `quota` of `Encoded`.
        workflows: the workflows.
    """

    raw: Doubles
    position: Doubles
    log_factors: Doubles
    asked: NDArray[np.float32]
    workflows: list[ProgressFacts]


def encode_tasks(
    grouped: Grouped,
    workflows: Workflows,
    demands: Demands,
    types: tuple[str, ...],
    type_counts: NDArray[np.int64],
    now_s: float,
) -> TasksEncoded:
    """Return the rows of the groups of a cycle.

    Args:
        grouped: the groups.
        workflows: what is known of workflows.
        demands: what is known of tasks.
        types: names of the machine types.
        type_counts: how many nodes are of each.
        now_s: time of the cycle.
    """
    groups, size = grouped.groups, len(grouped.groups)
    place_of: dict[int, int] = {}
    facts: list[ProgressFacts] = []
    pending_of: list[int] = []
    found: list[float] = []  # of each group, one after the other
    for group in groups:
        progress, first = group.progress, group.first
        at = place_of.get(id(progress))
        if at is None:
            at = place_of[id(progress)] = len(facts)
            facts.append(workflows.of(progress))
            pending_of.append(0)
        places, members = facts[at].places, len(group.members)
        pending_of[at] += members
        if group.own is None:
            demand = demands.of(group.task)
            group.own = _own_row(group.task, demand, places, first.index)
            group.asked = _asked(demand)
        if group.types is not types:
            group.log_factors, group.types = _log_factors(group.task, types), types
        as_of = (first.index, progress.open_tasks)  # parents are only counted down when a task ends
        if group.freed_as_of != as_of:
            group.freed, group.freed_as_of = _freed(progress, first.index), as_of
        found += (at, members, first.ready_s, group.rank_s, places.order.item(first.index), group.freed)
    at, members, ready_s, rank_s, order, freed = np.array(found, dtype=np.float64).reshape(size, 6).T
    rows = [_workflow_row(one, count, now_s) for one, count in zip(facts, pending_of, strict=True)]
    of_workflows = np.array(rows, dtype=np.float64).reshape(len(rows), len(_OF_WORKFLOW) + 2)
    of_workflow = of_workflows[at.astype(np.intp)]
    longest_s, tasks = of_workflow[:, -2], of_workflow[:, -1]
    raw = np.array([group.own for group in groups], dtype=np.float64).reshape(size, _WIDTH)
    raw[:, _WORKFLOW_COLUMNS] = of_workflow[:, :-2]
    slack_s = np.maximum(raw[:, _AT["critical_path_s"]] - rank_s, 0.0)
    shares = order / np.maximum(tasks - 1.0, 1.0)
    raw[:, _GROUP_COLUMNS] = np.stack([members, now_s - ready_s, rank_s, slack_s, shares, freed], axis=1)
    log_factors = np.array([group.log_factors for group in groups], dtype=np.float64)
    log_factors = log_factors.reshape(size, len(types))
    if types:
        raw[:, _BEST_FACTOR] = np.exp(log_factors.min(axis=1))
        raw[:, _MEAN_FACTOR] = np.exp((log_factors * type_counts).sum(axis=1) / type_counts.sum())
    rank_share = np.divide(rank_s, longest_s, out=np.zeros(size), where=longest_s > 0.0)
    position = np.stack([order, raw[:, _AT["depth"]], raw[:, _AT["parents"]], rank_share], axis=1)
    asked = np.array([group.asked for group in groups], dtype=np.float32).reshape(size, RESOURCE_COUNT + 2)
    return TasksEncoded(raw, position, log_factors, asked, facts)


def gpus_requested(amounts: Mapping[str, int]) -> int:
    """Return the GPUs among amounts of resources, by the names of the device plugins."""
    return sum(amount for name, amount in amounts.items() if name.endswith(_GPU_SUFFIX))


def _own_row(task: Task, demand: TaskDemand, places: Places, index: int) -> Doubles:
    """Return what follows from the task and its place alone, the rest NaN.

    A profile that says nothing of a resource holds 0 there: whether the task needs none is not known.
    """
    row = np.full(_WIDTH, math.nan)
    work, shape = task.work, task.shape
    row[: demand.per_s.size] = np.where(demand.per_s > 0.0, demand.per_s, math.nan)
    gpus = 0.0 if shape.gpu is None else shape.gpu.count * shape.gpu.milli / 1000
    children, job = places.children.item(index), work.training
    own = {
        "exposed_latency_share": demand.exposed if demand.per_s[Resource.DRAM] > 0.0 else math.nan,
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


def _asked(demand: TaskDemand) -> NDArray[np.float32]:
    """Return what a task asks for, its exposed share and its quota, kept within what can be reckoned with."""
    row = np.array([*demand.per_s, demand.exposed, demand.quota])
    row[:-2] = usable_amounts(row[:-2])
    row[-2:] = np.clip(np.nan_to_num(row[-2:]), (0.0, _LEAST_QUOTA), 1.0)
    return row.astype(np.float32)


def _workflow_row(facts: ProgressFacts, pending: int, now_s: float) -> tuple[float, ...]:
    """Return the columns `_OF_WORKFLOW`, then the longest way through the workflow and its size in tasks."""
    progress, places = facts.progress, facts.places
    remaining_s, tasks = progress.remaining_work_s, places.order.size
    return (
        now_s - progress.submitted_s,
        progress.open_tasks,
        progress.open_tasks / tasks,
        pending,
        int(np.count_nonzero(progress.status == _RUNNING)),
        remaining_s,
        remaining_s / places.total_s if places.total_s > 0.0 else 0.0,
        facts.critical_path_s,
        facts.longest_s,
        tasks,
    )


def _freed(progress: WorkflowProgress, index: int) -> int:
    """Return how many children wait for nothing but the task `index`."""
    children = progress.workflow.children[index]
    return int(np.count_nonzero(progress.unfinished_parents[list(children)] == 1)) if children else 0


def _log_factors(task: Task, types: tuple[str, ...]) -> Doubles:
    factor_of = dict(task.work.machine_factors)
    factors = [usable_factor(factor_of.get(name, 1.0)) for name in types]
    return np.log(np.array(factors, dtype=np.float64))
