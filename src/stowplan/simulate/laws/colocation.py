"""Co-location law: the speed of two training jobs that share one GPU, from Lucid's measurements.

CSV: for each pair the two jobs (model, data set, batch size, mixed precision), their speeds relative to
running alone, and the GPU's combined utilisation, memory-bandwidth utilisation and memory (percent, percent,
MiB). Speeds a little above one are measurement noise, kept as they are.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from stowplan.errors import InvalidFile, InvalidInput
from stowplan.simulate.files import parse_csv

__all__ = ["ColocationLaw", "ColocationPair", "parse_colocations"]

_LUCID_COLUMNS: Final = ("model1", "speed1", "model2", "speed2", "gpu_util")
_NEEDS: Final = (
    *_LUCID_COLUMNS, "dataset1", "batchsize1", "amp1", "dataset2", "batchsize2", "amp2", "gmem_util", "gmem",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ColocationPair:
    """Two jobs on one GPU: speeds relative to alone, combined utilisations as shares, GPU memory in MiB."""

    first: str
    second: str
    first_speed: float
    second_speed: float
    gpu_utilisation: float
    memory_utilisation: float
    memory_mib: float

    @property
    def mean_speed(self) -> float:
        """Mean of the two speeds."""
        return (self.first_speed + self.second_speed) / 2


@dataclass(frozen=True, slots=True)
class ColocationLaw:
    """All measured pairs."""

    pairs: tuple[ColocationPair, ...]

    def curve(self, edges: Sequence[float] = (0.4, 0.6, 0.8, 0.95)) -> tuple[tuple[float, float, int], ...]:
        """Return (upper edge of GPU utilisation, mean speed, pairs) per bin; the last edge is 1.

        Raises:
            InvalidInput: the edges do not ascend within 0 … 1, or a bin holds no pair.
        """
        bounds = (*edges, 1.0)
        if any(low >= high for low, high in zip((0.0, *bounds), bounds, strict=False)):
            raise InvalidInput(f"the edges {tuple(edges)} of the curve must ascend between 0 and 1")
        bins: list[list[float]] = [[] for _ in bounds]
        for pair in self.pairs:
            bins[next(index for index, high in enumerate(bounds) if pair.gpu_utilisation <= high)].append(
                pair.mean_speed
            )
        for high, speeds in zip(bounds, bins, strict=True):
            if not speeds:
                raise InvalidInput(
                    f"no measured pair has a GPU utilisation in the bin up to {high}; use wider bins"
                )
        return tuple(
            (high, statistics.fmean(speeds), len(speeds)) for high, speeds in zip(bounds, bins, strict=True)
        )


def parse_colocations(text: str, name: str) -> ColocationLaw:
    """Return the law; `name` is the file in messages.

    Raises:
        InvalidFile: a column is missing, or a number is unusable.
    """
    pairs: list[ColocationPair] = []
    for line, row in enumerate(parse_csv(text, name, needs=_NEEDS), start=2):
        first_speed, second_speed, gpu, memory, mib = (
            _number(row[column], column, f"{name}: line {line}")
            for column in ("speed1", "speed2", "gpu_util", "gmem_util", "gmem")
        )
        if first_speed <= 0.0 or second_speed <= 0.0 or gpu > 100.0:
            raise InvalidFile(
                f"{name}: line {line} has a speed of 0 or a utilisation above 100 %; correct or remove it"
            )
        pairs.append(
            ColocationPair(
                first=_job(row, "1"),
                second=_job(row, "2"),
                first_speed=first_speed,
                second_speed=second_speed,
                gpu_utilisation=gpu / 100,
                memory_utilisation=memory / 100,
                memory_mib=mib,
            )
        )
    return ColocationLaw(tuple(pairs))


def _job(row: dict[str, str], side: str) -> str:
    precision = "mixed" if row[f"amp{side}"] == "1" else "full"
    return (
        f"{row[f'model{side}']}/{row[f'dataset{side}']}/batch {row[f'batchsize{side}']}/{precision} precision"
    )


def _number(text: str, column: str, where: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number >= 0.0):
        raise InvalidFile(f"{where}: {column} is {text!r}; it must be a finite number ≥ 0")
    return number
