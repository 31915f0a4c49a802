"""How well durations were foretold, run by run: median absolute relative error.

Only executions count that did their work to the end and had something foretold when they were placed.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from stowplan.observe.history.class_fit import SHORTEST_S
from stowplan.observe.history.expected import Source
from stowplan.observe.history.records import Execution, ExecutionStatus, WorkflowRun
from stowplan.observe.history.store import HistoryStore

__all__ = ["RunAccuracy", "accuracy_of", "accuracy_of_runs", "relative_error"]

_OWN = (Source.ITEM.value, Source.CLASS.value)


@dataclass(frozen=True, slots=True)
class RunAccuracy:
    """How well the tasks of one workflow run were foretold.

    Attributes:
        workflow: namespace and name.
        workflow_uid, origin: which run, and of what.
        tasks: how many were foretold and ended well.
        from_own_runs: of them, those foretold from earlier runs of the same class.
        median_error: median absolute relative error.
    """

    workflow: str
    workflow_uid: str
    origin: str
    tasks: int
    from_own_runs: int
    median_error: float


def relative_error(expected_s: float, real_s: float) -> float:
    """Return by how much of the truth a prediction was off, ≥ 0.

    Times of pods have whole seconds: what took less than half a second counts as that, as in the model.
    """
    real_s = max(real_s, SHORTEST_S)
    return abs(expected_s - real_s) / real_s


def accuracy_of(run: WorkflowRun, executions: Iterable[Execution]) -> RunAccuracy | None:
    """Return how well the executions of a run were foretold, None where nothing can be said."""
    errors: list[float] = []
    own = 0
    for one in executions:
        if one.status is not ExecutionStatus.DONE or one.expected_s is None:
            continue
        if one.started_s is not None and one.finished_s is not None:
            errors.append(relative_error(one.expected_s, one.finished_s - one.started_s))
            own += one.expected_source in _OWN
    if not errors:
        return None
    return RunAccuracy(
        workflow=f"{run.namespace}/{run.workflow}",
        workflow_uid=run.workflow_uid,
        origin=run.origin,
        tasks=len(errors),
        from_own_runs=own,
        median_error=statistics.median(errors),
    )


def accuracy_of_runs(store: HistoryStore, *, most: int = 20) -> list[RunAccuracy]:
    """Return how well the tasks of the newest workflow runs were foretold, the newest first.

    Args:
        store: the history.
        most: how many runs are looked at.

    Raises:
        HistoryError: the database fails.
    """
    found = (
        accuracy_of(run, store.executions_of_workflow(run.workflow_uid))
        for run in store.newest_workflows(most)
    )
    return [accuracy for accuracy in found if accuracy is not None]
