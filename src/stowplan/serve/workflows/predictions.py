"""How well the workflow runs of late were foretold, as it becomes known; the history has the same for all."""

from __future__ import annotations

import statistics
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from stowplan.observe.history.accuracy import RunAccuracy, relative_error
from stowplan.observe.history.expected import ExpectedDuration, Source

__all__ = ["PredictionLedger"]

_KEPT: Final = 1000  # workflow runs


@dataclass(slots=True)
class _Run:
    workflow: str
    origin: str
    errors: list[float] = field(default_factory=list[float])
    own: int = 0


class PredictionLedger:
    """The errors of the runs of late, bounded in number."""

    def __init__(self) -> None:
        """Start empty."""
        self._runs: OrderedDict[str, _Run] = OrderedDict()

    def add(
        self, workflow_uid: str, workflow: str, origin: str, expected: ExpectedDuration, real_s: float
    ) -> float:
        """Note a task that ended well; return its relative error."""
        run = self._runs.get(workflow_uid)
        if run is None:
            run = self._runs[workflow_uid] = _Run(workflow, origin)
            if len(self._runs) > _KEPT:
                self._runs.popitem(last=False)
        error = relative_error(expected.expected_s, real_s)
        run.errors.append(error)
        run.own += expected.source in (Source.ITEM, Source.CLASS)
        return error

    def runs(self, most: int = _KEPT) -> Sequence[RunAccuracy]:
        """Return the newest runs, the newest first."""
        newest = list(self._runs.items())[::-1][:most]
        return [
            RunAccuracy(
                workflow=run.workflow,
                workflow_uid=uid,
                origin=run.origin,
                tasks=len(run.errors),
                from_own_runs=run.own,
                median_error=statistics.median(run.errors),
            )
            for uid, run in newest
        ]
