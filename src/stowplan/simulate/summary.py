"""One row that says how a run went, and the assembly of a run's frames.

Definitions, where a word can mean two things:
* makespan: from the first submission to the end of the last task that ended; of a partial run, so far.
* completion of a workflow: from its submission to the end of its last task; only workflows that were done
count.
* scheduling delay of an attempt: from being pending to having a node.
* backlog peak: the most tasks that a scheduling cycle left pending.
* utilisation: resource-seconds used over capacity × makespan, of nodes whose capacity is known; background
tenants
  count as use.
* CPU waste: requested core-seconds while bound, less core-seconds of work that was done, in core-hours. Work
that was
  done and lost counts as waste too.
* memory waste: (requested − peak anonymous memory, not below 0) × time bound, in GiB-hours: what a
right-sized request
  would have freed. Page cache does not count as use.
"""

from __future__ import annotations

import math

import numpy as np
import polars as pl
from numpy.typing import NDArray

from stowplan.core.physics.vocabulary import Resource
from stowplan.simulate.book import EndStatus
from stowplan.simulate.frames import SLOWDOWN_COLUMNS, seconds, tasks_frame, with_run, workflows_frame
from stowplan.simulate.ledger import AttemptStatus
from stowplan.simulate.record import RunRecord
from stowplan.simulate.results import RunResult
from stowplan.simulate.statistics import percentile
from stowplan.simulate.training_frame import training_frame
from stowplan.simulate.utilisation import RESOURCE_UNITS, capacities, node_usage_frame, usage_frame

__all__ = ["collect", "summary_frame"]

_HOUR_S = 3600.0
_GIB = float(1 << 30)


def collect(record: RunRecord) -> RunResult:
    """Compute all frames of a run, finished or not."""
    tasks, workflows = tasks_frame(record), workflows_frame(record)
    return RunResult(
        tasks=tasks,
        workflows=workflows,
        usage=usage_frame(record),
        node_usage=node_usage_frame(record),
        training=training_frame(record),
        summary=summary_frame(record, tasks, workflows),
        is_partial=record.is_partial,
    )


def summary_frame(record: RunRecord, tasks: pl.DataFrame, workflows: pl.DataFrame) -> pl.DataFrame:
    """Return the one row. Null: does not exist in this run (no workflow was done, nothing was placed)."""
    ledger, book = record.ledger, record.book
    ended_s, placed_s = np.array(ledger.ended_s), np.array(ledger.placed_s)
    delay_s = placed_s - np.array(ledger.ready_s)
    first_s = book.submissions[0].time_s
    has_ended = ~np.isnan(ended_s)
    last_s = float(ended_s[has_ended].max()) if has_ended.any() else first_s
    makespan_s = (record.now_s if record.is_partial else last_s) - first_s
    completion_s = workflows["completion_s"].drop_nulls().to_numpy()
    status = np.array(ledger.status)
    slow_s = {column: float(tasks[column].sum()) for column in SLOWDOWN_COLUMNS.values()}
    end_status = np.frombuffer(bytes(book.end_status), dtype=np.uint8)
    attempts = np.array(book.attempts)
    floats: dict[str, float] = {
        "makespan_s": makespan_s,
        "completion_mean_s": _mean(completion_s),
        "completion_p50_s": percentile(completion_s, 0.5),
        "completion_p95_s": percentile(completion_s, 0.95),
        "scheduling_delay_mean_s": _mean(delay_s),
        "scheduling_delay_p95_s": percentile(delay_s, 0.95),
        **_utilisation(record, makespan_s),
        **{f"{column.removesuffix('_s')}_total_s": amount for column, amount in slow_s.items()},
        **_waste(record),
    }
    kernel = record.kernel.statistics()
    counts: dict[str, int] = {
        "workflows": workflows.height,
        "workflows_done": int((workflows["status"] == "done").sum()),
        "workflows_failed": int((workflows["status"] == "failed").sum()),
        "tasks": len(book.tasks),
        "tasks_done": int((status == AttemptStatus.DONE).sum()),
        "tasks_failed": int(workflows["failed"].sum()),
        "tasks_skipped": int((end_status == EndStatus.SKIPPED).sum()),
        "tasks_infeasible": int((end_status == EndStatus.INFEASIBLE).sum()),
        "tasks_starved": int((end_status == EndStatus.STARVED).sum()),
        "retries": int(np.maximum(attempts - 1, 0).sum()),
        "oom_kills": int((status == AttemptStatus.OOM_KILLED).sum()),
        "evictions": int((status == AttemptStatus.EVICTED).sum()),
        "node_losses": int((status == AttemptStatus.NODE_LOST).sum()),
        "backlog_peak_tasks": record.backlog_peak,
        "placements": len(ledger),
        "cycles": record.cycles,
        "degraded_cycles": record.degraded_cycles,
        "faults": record.faults,
        "kernel_events": kernel.events,
        "kernel_unsettled": kernel.unsettled,
    }
    return with_run(
        record,
        {
            "is_partial": pl.Series([record.is_partial]),
            **{name: seconds(np.array([number])) for name, number in floats.items()},
            **{name: np.array([count], dtype=np.int64) for name, count in counts.items()},
        },
    )


def _mean(values: NDArray[np.float64]) -> float:
    return float(values.mean()) if values.size else math.nan


def _utilisation(record: RunRecord, makespan_s: float) -> dict[str, float]:
    """Return `NAME_utilisation` per resource, 0–1; NaN where no node's capacity is known."""
    capacity = capacities(record)
    used = record.kernel.utilisation()
    shares: dict[str, float] = {}
    for resource in Resource:
        known = np.isfinite(capacity[:, resource]) & (capacity[:, resource] > 0.0)
        available = float(capacity[known, resource].sum()) * makespan_s
        share = float(used[known, resource].sum()) / available if available > 0.0 else math.nan
        shares[f"{RESOURCE_UNITS[resource][0]}_utilisation"] = share
    return shares


def _waste(record: RunRecord) -> dict[str, float]:
    ledger, demands = record.ledger, record.demands
    tasks = np.array(ledger.task, dtype=np.int64)
    ended_s = np.array(ledger.ended_s)
    bound_s = np.where(np.isnan(ended_s), record.now_s, ended_s) - np.array(ledger.placed_s)
    nodes = np.array(ledger.node, dtype=np.int64)
    is_lost = np.isin(np.array(ledger.status), (AttemptStatus.RUNNING, AttemptStatus.DONE), invert=True)
    share_done = record.kernel.progress(np.array(ledger.kernel_id, dtype=np.int64))
    speed = demands.speeds[demands.factor_id[tasks], record.machines.type_of[nodes]]
    useful_core_s = np.where(is_lost, 0.0, share_done * demands.cpu_core_s[tasks] / speed)
    requested_core_s = demands.cpu_request_cores[tasks] * bound_s
    unused_bytes = np.maximum(demands.memory_request_bytes[tasks] - demands.peak_bytes[tasks], 0.0)
    return {
        "cpu_requested_core_hours": float(requested_core_s.sum()) / _HOUR_S,
        "cpu_waste_core_hours": float((requested_core_s - useful_core_s).sum()) / _HOUR_S,
        "memory_requested_gib_hours": float((demands.memory_request_bytes[tasks] * bound_s).sum())
        / _GIB
        / _HOUR_S,
        "memory_waste_gib_hours": float((unused_bytes * bound_s).sum()) / _GIB / _HOUR_S,
    }
