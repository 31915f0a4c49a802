"""What the book of workflows counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry

from stowplan.observe.history.expected import ExpectedDuration
from stowplan.serve.metrics import Collectors

__all__ = ["WorkflowMetrics"]

_ERRORS: Final = (0.02, 0.05, 0.1, 0.15, 0.25, 0.5, 1.0, 2.0, 5.0)


class WorkflowMetrics:
    """The collectors of one book."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        """Register them in `registry`, in one of their own by default."""
        make = Collectors(registry or CollectorRegistry())
        self._errors = make.histogram(
            "prediction_relative_error",
            "By how much of its real duration a task was off what was foretold when it was placed.",
            _ERRORS,
            "source",
        )
        self._workflows = make.gauge("workflows", "Live workflows, by whether they can be read.", "state")
        self._lost = make.counter("history_records_lost", "Records that the history had no room for.")
        self._classes = make.gauge("duration_model_classes", "Classes of which an end was seen.")
        self._fit_s = make.gauge("duration_model_fit_seconds", "How long the last fit took.")
        self._read_s = make.gauge("workflow_read_seconds", "How long the last reading of a workflow took.")

    def foretold(self, expected: ExpectedDuration, error: float) -> None:
        """Count a task that ended well, with the relative error of what was foretold."""
        self._errors.labels(expected.source.value).observe(error)

    def workflows(self, count_of: Callable[[str], int]) -> None:
        """Read the numbers of workflows from `count_of(state)`: `followed`, `unreadable`, `ended`."""
        for state in ("followed", "unreadable", "ended"):
            self._workflows.labels(state).set_function(lambda state=state: count_of(state))

    def lost(self) -> None:
        """Count a record that was lost."""
        self._lost.inc()

    def fitted(self, classes: int, took_s: float) -> None:
        """Note a fit of the duration model."""
        self._classes.set(classes)
        self._fit_s.set(took_s)

    def read(self, took_s: float) -> None:
        """Note a reading of a workflow."""
        self._read_s.set(took_s)
