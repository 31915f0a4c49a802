"""Placement law: how long a training step takes by how many GPUs on how many nodes, from Sia's measurements.

CSV: `placement` (one digit per node: its GPUs; "1132" is seven GPUs on four nodes), `local_bsz` (batch per
GPU),
`step_time` and `sync_time` in seconds. The step includes the synchronisation, except in the pipelined gpt_pmp
tables, where the two stand beside each other (there the synchronisation exceeds the step). Job and cluster
are in the file's name only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from stowplan.errors import InvalidFile
from stowplan.simulate.files import file_stem, parse_csv

__all__ = ["PlacementLaw", "PlacementTime", "parse_placements"]

_SIA_COLUMNS: Final = ("placement", "local_bsz", "step_time", "sync_time")


@dataclass(frozen=True, slots=True)
class PlacementTime:
    """Seconds of one step with so many GPUs on each node (ascending) and batch per GPU."""

    gpus_on: tuple[int, ...]
    local_batch: int
    step_s: float
    sync_s: float

    @property
    def gpus(self) -> int:
        """GPUs in all."""
        return sum(self.gpus_on)

    @property
    def nodes(self) -> int:
        """Nodes in all."""
        return len(self.gpus_on)


@dataclass(frozen=True, slots=True)
class PlacementLaw:
    """The measured steps of one job on one cluster; whether a step holds the sync time."""

    job: str
    cluster: str
    times: tuple[PlacementTime, ...]
    is_sync_in_step: bool


def parse_placements(text: str, name: str) -> PlacementLaw:
    """Return the law of a table; the name of the file gives job and cluster.

    Raises:
        InvalidFile: a column is missing, a placement is no list of digits 1–9, or a number is unusable.
    """
    job, _, cluster = file_stem(name).partition("-placements")
    times: list[PlacementTime] = []
    for line, row in enumerate(parse_csv(text, name, needs=_SIA_COLUMNS), start=2):
        where = f"{name}: line {line}"
        placement = row["placement"]
        if not (placement.isascii() and placement.isdecimal()) or "0" in placement:
            raise InvalidFile(f"{where}: placement is {placement!r}; it must be one digit 1–9 per node")
        step_s, sync_s = (_seconds(row[column], column, where) for column in ("step_time", "sync_time"))
        batch = row["local_bsz"]
        if not (batch.isascii() and batch.isdecimal()) or int(batch) < 1:
            raise InvalidFile(f"{where}: local_bsz is {batch!r}; it must be a whole number above 0")
        times.append(
            PlacementTime(tuple(sorted(int(digit) for digit in placement)), int(batch), step_s, sync_s)
        )
    is_sync_in_step = all(time.sync_s <= time.step_s for time in times)
    return PlacementLaw(job, cluster.removeprefix("-"), tuple(times), is_sync_in_step)


def _seconds(text: str, column: str, where: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not (math.isfinite(seconds) and seconds >= 0.0):
        raise InvalidFile(f"{where}: {column} is {text!r}; it must be a finite number of seconds ≥ 0")
    return seconds
