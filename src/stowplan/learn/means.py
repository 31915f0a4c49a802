"""Numbers of an iteration, averaged as they come."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from stowplan.learn.records import RunRecord

__all__ = ["Means"]


class Means:
    """Means of numbers by name, as they come."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}
        self._counts: dict[str, float] = {}

    def add(self, **numbers: float | Tensor) -> None:
        """Count each number once."""
        for name, number in numbers.items():
            plain = float(number.detach()) if isinstance(number, Tensor) else number
            self.add_weighted(name, plain, 1.0)

    def add_weighted(self, name: str, total: float, count: float) -> None:
        """Count a number that is a sum over `count`."""
        self._sums[name] = self._sums.get(name, 0.0) + total
        self._counts[name] = self._counts.get(name, 0.0) + count

    def of_runs(self, records: Sequence[RunRecord]) -> None:
        """Count what runs were like."""
        for record in records:
            self.add(
                log_completion=float(np.log(max(record.completion_s, 1e-3))),
                log_tail=float(np.log(max(record.tail_s, 1e-3))),
                cost=-float(record.rewards.sum()),
                cut_off=float(record.is_cut_off),
                illegal=float(record.illegal),
                cycles=float(len(record.times_s)),
                tasks=float(record.tasks),
            )

    def result(self) -> dict[str, float]:
        """Return the means by name."""
        return {name: total / max(self._counts[name], 1e-12) for name, total in self._sums.items()}
