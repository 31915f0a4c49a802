"""From the record of a run to its frames: one pass over arrays, nothing per row in Python but the names.

Columns of `tasks` that are easily confused: `ready_s` is when the attempt became pending, `placed_s` when it
got a node, `started_s` when it ran there (binding and start-up later), `finished_s` when it ended on the
machine. `alone_s` is what the whole task takes alone on the reference machine; for a finished attempt
`actual_s` = `finished_s` − `started_s` = `alone_s` + all `slow_*_s` up to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from stowplan.core.domain import TaskStatus
from stowplan.core.physics.vocabulary import Cause
from stowplan.simulate.book import EndStatus
from stowplan.simulate.ledger import AttemptStatus
from stowplan.simulate.record import RunRecord

__all__ = ["SLOWDOWN_COLUMNS", "Columns", "seconds", "tasks_frame", "text", "with_run", "workflows_frame"]

Columns = dict[str, pl.Series | NDArray[Any]]

SLOWDOWN_COLUMNS = {cause: f"slow_{cause.name.lower()}_s" for cause in Cause}
"""Column of `tasks` and `summary` with the seconds that a cause took (negative: gave)."""


def with_run(record: RunRecord, columns: Columns) -> pl.DataFrame:
    """Return `columns` as a frame that begins with the policy and seed of the run."""
    frame = pl.DataFrame(columns)
    return frame.select(
        pl.lit(record.policy).alias("policy"), pl.lit(record.seed, dtype=pl.Int64).alias("seed"), pl.all()
    )


def text(values: Sequence[str | None]) -> pl.Series:
    """Return a column of text."""
    return pl.Series(values, dtype=pl.String)


def seconds(values: NDArray[np.float64]) -> pl.Series:
    """Return a column of times, durations or shares; NaN (did not happen, does not exist) becomes null."""
    return pl.Series(values).fill_nan(None)


def tasks_frame(record: RunRecord) -> pl.DataFrame:
    """Return one row per attempt as placed, then one per task whose end no attempt tells."""
    book, ledger, demands = record.book, record.ledger, record.demands
    kernel = record.kernel
    attempts = len(ledger)
    ids = np.array(ledger.kernel_id, dtype=np.int64)
    ended = np.frombuffer(bytes(book.end_status), dtype=np.uint8)
    untold = np.flatnonzero(ended != EndStatus.OPEN)
    never = len(untold)
    tasks = np.concatenate([np.array(ledger.task, dtype=np.int64), untold])
    blank = np.full(never, math.nan)
    submitted_s = np.array([submission.time_s for submission in book.submissions])
    workflow_of = np.array(book.workflow_of, dtype=np.int64)[tasks]
    started_s = np.concatenate([kernel.started_s(ids), blank])
    finished_s = np.concatenate([np.array(ledger.ended_s), blank])
    slow = np.concatenate([kernel.slowdown_by_cause(ids), np.full((never, len(Cause)), math.nan)])
    names: list[str | None] = [record.cluster.nodes[node].name for node in ledger.node]
    statuses = [AttemptStatus(status).name.lower() for status in range(len(AttemptStatus))]
    ends = [EndStatus(status).name.lower() for status in range(len(EndStatus))]
    status = [statuses[s] for s in ledger.status] + [ends[s] for s in ended[untold].tolist()]
    ids_in_rows: list[int] = tasks.tolist()
    workflows = [submission.workflow for submission in book.submissions]
    indexes: list[int] = workflow_of.tolist()
    workflows_in_rows = [workflows[index] for index in indexes]
    return with_run(
        record,
        {
            "workflow": text([workflow.name for workflow in workflows_in_rows]),
            "family": text([workflow.family for workflow in workflows_in_rows]),
            "task": text([book.tasks[task_id].name for task_id in ids_in_rows]),
            "template": text([book.tasks[task_id].template for task_id in ids_in_rows]),
            "node": text([*names, *[None] * never]),
            "attempt": np.concatenate(
                [np.array(ledger.attempt, dtype=np.int64), np.zeros(never, dtype=np.int64)]
            ),
            "status": text(list(status)),
            "reason": text([None] * attempts + [record.refused.get(task_id) for task_id in untold.tolist()]),
            "submitted_s": submitted_s[workflow_of],
            "ready_s": seconds(np.concatenate([np.array(ledger.ready_s), blank])),
            "placed_s": seconds(np.concatenate([np.array(ledger.placed_s), blank])),
            "started_s": seconds(started_s),
            "finished_s": seconds(finished_s),
            "expected_s": np.array([task.expected_s for task in book.tasks])[tasks],
            "alone_s": demands.alone_s[tasks],
            "actual_s": seconds(finished_s - started_s),
            "cpu_request_cores": demands.cpu_request_cores[tasks],
            "memory_request_bytes": demands.memory_request_bytes[tasks],
            **{column: seconds(slow[:, cause]) for cause, column in SLOWDOWN_COLUMNS.items()},
        },
    )


def workflows_frame(record: RunRecord) -> pl.DataFrame:
    """Return one row per submission, in order of arrival."""
    book = record.book
    arrived = len(book.progress)
    count = len(book.submissions)
    attempts = np.array(book.attempts, dtype=np.int64)
    first = np.array([*book.first_id, len(book.tasks)], dtype=np.int64)
    finished_s = np.array([book.finished_s.get(index, math.nan) for index in range(count)])
    submitted_s = np.array([submission.time_s for submission in book.submissions])
    by_status = np.zeros((count, len(TaskStatus)), dtype=np.int64)
    for index, progress in enumerate(book.progress):
        by_status[index] = np.bincount(progress.status, minlength=len(TaskStatus))
    retried = np.add.reduceat(np.maximum(attempts - 1, 0), first[:-1])
    critical_s = np.array(
        [
            float(
                progress.workflow.upward_ranks([task.work.alone_s for task in progress.workflow.tasks]).max()
            )
            for progress in book.progress
        ]
        + [math.nan] * (count - arrived)
    )
    status: list[str | None] = []
    for index in range(count):
        has_failed = by_status[index, TaskStatus.FAILED] > 0
        status.append("unfinished" if math.isnan(finished_s[index]) else "failed" if has_failed else "done")
    is_done = pl.Series(status) == "done"
    completion_s = np.where(is_done.to_numpy(), finished_s - submitted_s, math.nan)
    return with_run(
        record,
        {
            "workflow": text([submission.workflow.name for submission in book.submissions]),
            "family": text([submission.workflow.family for submission in book.submissions]),
            "status": text(status),
            "submitted_s": submitted_s,
            "finished_s": seconds(finished_s),
            "completion_s": seconds(completion_s),
            "critical_path_s": seconds(critical_s),
            "tasks": np.diff(first),
            "done": by_status[:, TaskStatus.DONE],
            "failed": by_status[:, TaskStatus.FAILED],
            "skipped": by_status[:, TaskStatus.SKIPPED],
            "retried": retried,
        },
    )
