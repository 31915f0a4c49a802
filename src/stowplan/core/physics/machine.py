"""Heterogeneity: how fast a kind of task runs on a kind of machine, from measurements.

Law with data: in the Lotaru traces (53 tasks of five workflows on seven machines) the ratio of run times to
the local machine is 1.19 in the median for one machine, but 1.02 to 2.09 from the 10th to the 90th percentile
of tasks: one scalar per machine is wrong. So the factor is looked up by (task, machine). Where a task was
never measured, the machine's median over tasks stands in, and that is a proposal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stowplan.errors import InvalidInput, UnknownName

__all__ = ["MachineFactors"]


@dataclass(frozen=True, slots=True)
class MachineFactors:
    """Run time of each task on each machine relative to the reference machine. T tasks, M machines."""

    tasks: Mapping[str, int]
    """Row of a task."""
    machines: Mapping[str, int]
    """Column of a machine."""
    runtime_ratio: NDArray[np.float64]
    """(T, M) > 0; NaN where it was not measured."""

    def __post_init__(self) -> None:
        """Check the table.

        Raises:
            InvalidInput: the shape does not fit the names, a ratio is not positive, or a machine was never
            measured.
        """
        expected = (len(self.tasks), len(self.machines))
        if self.runtime_ratio.shape != expected:
            raise InvalidInput(
                f"runtime_ratio has shape {self.runtime_ratio.shape}; the names ask for {expected}"
            )
        if (self.runtime_ratio <= 0.0).any() or np.isinf(self.runtime_ratio).any():
            raise InvalidInput(
                "runtime_ratio holds a number that is not positive and finite; use NaN for unknown"
            )
        measured = np.isfinite(self.runtime_ratio).sum(axis=0)
        names = [name for name, column in self.machines.items() if measured[column] == 0]
        if names:
            raise InvalidInput(
                f"no task was measured on {', '.join(names)}; leave such machines out of the table"
            )

    def speed(self, task: str, machine: str) -> float:
        """Speed of `task` on `machine` relative to the reference, 1 / run-time ratio.

        Raises:
            UnknownName: the machine is not in the table. (An unknown task falls back to the machine's
            median.)
        """
        if machine not in self.machines:
            raise UnknownName("machine", machine, self.machines)
        column = self.runtime_ratio[:, self.machines[machine]]
        ratio = float(column[self.tasks[task]]) if task in self.tasks else float("nan")
        return 1.0 / (float(np.nanmedian(column)) if np.isnan(ratio) else ratio)

    def spread(self, machine: str) -> tuple[float, float, float]:
        """10th, 50th and 90th percentile over tasks of the run-time ratio of `machine`.

        Raises:
            UnknownName: the machine is not in the table.
        """
        if machine not in self.machines:
            raise UnknownName("machine", machine, self.machines)
        column = self.runtime_ratio[:, self.machines[machine]]
        low, middle, high = np.nanpercentile(column, [10.0, 50.0, 90.0])
        return float(low), float(middle), float(high)
