"""Drift law: how a resource that is sold as constant varies, from a benchmark repeated on cloud VMs.

CSV of AzurePublicDataset's vm-noise collection: `value` (MiB/s, IOPS, ns or ms), `runtime` of the benchmark
in seconds, `starttime` and `VM_id`. Here every machine was measured once, so the series tells how large the
deviations are and how often they occur, not how long one lasts: who uses it in a simulation adds the dwell
times. Which benchmark on which machine type in which unit is in the file's name (`BENCHMARK__MACHINE__UNIT`)
only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan.errors import InvalidFile, InvalidInput
from stowplan.simulate.files import file_stem, parse_csv

__all__ = ["DriftLaw", "parse_drift"]

_AZURE_COLUMNS: Final = ("value", "runtime", "starttime", "VM_id")
_RISING_IS_WORSE: Final = ("ns", "msec")


@dataclass(frozen=True, slots=True)
class DriftLaw:
    """A series of measurements in order of time. `times_s` count from the first; `values` are in `unit`."""

    benchmark: str
    machine: str
    unit: str
    times_s: NDArray[np.float64]
    values: NDArray[np.float64]

    @property
    def factors(self) -> NDArray[np.float64]:
        """Capacity relative to the median, shape (measurements,); of a latency the inverse."""
        relative = self.values / np.median(self.values)
        return 1.0 / relative if self.unit in _RISING_IS_WORSE else relative

    def degraded_share(self, below: float = 0.9) -> float:
        """Return the share of measurements whose factor is below `below`."""
        return float(np.mean(self.factors < below))

    def degraded_levels(self, below: float = 0.9, count: int = 9) -> tuple[float, ...]:
        """Return `count` evenly spaced quantiles of the factors below `below`, ascending: levels for `Drift`.

        Raises:
            InvalidInput: `count` is less than 1, or no measurement is below.
        """
        factors = self.factors
        degraded = factors[factors < below]
        if count < 1 or degraded.size == 0:
            raise InvalidInput(
                f"{self.benchmark} on {self.machine}: {degraded.size} of {factors.size} measurements are "
                f"below {below} of "
                f"the median, {count} levels were asked for; raise the threshold"
            )
        shares = (np.arange(count) + 0.5) / count
        return tuple(float(level) for level in np.quantile(degraded, shares))


def parse_drift(text: str, name: str) -> DriftLaw:
    """Return the law of one series; `name` is the file in messages.

    Raises:
        InvalidFile: a column is missing, a time cannot be read, or a value is not above zero.
    """
    benchmark, _, rest = file_stem(name).partition("__")
    machine, _, unit = rest.partition("__")
    points: list[tuple[float, float]] = []
    for line, row in enumerate(parse_csv(text, name, needs=_AZURE_COLUMNS), start=2):
        where = f"{name}: line {line}"
        try:
            began = datetime.fromisoformat(row["starttime"])
        except ValueError:
            raise InvalidFile(
                f"{where}: starttime is {row['starttime']!r}; it must be a date and time"
            ) from None
        points.append((began.replace(tzinfo=UTC).timestamp(), _positive(row["value"], where)))
    points.sort()
    times_s = np.array([time for time, _ in points])
    values = np.array([value for _, value in points])
    return DriftLaw(benchmark, machine, unit, times_s - times_s[0], values)


def _positive(text: str, where: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number > 0.0):
        raise InvalidFile(f"{where}: value is {text!r}; it must be a finite number above 0")
    return number
