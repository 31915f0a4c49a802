"""Throughput law: steps per second of training jobs by GPU model, alone and in pairs (Gavel).

JSON: GPU model (`v100`, or `v100_unconsolidated` for GPUs spread over nodes) → job → {"null": steps per
second alone, other job: [own, other's]}. A job is written "('ResNet-18 (batch size 16)', 1)": model and GPUs.
Zero means that the job
(or the pair) does not fit on that GPU: it is left out here, which is what it says.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from stowplan.errors import InvalidFile
from stowplan.simulate.files import parse_json

__all__ = ["Job", "ThroughputLaw", "parse_throughputs"]

_ALONE: Final = "null"
_SPREAD_SUFFIX: Final = "_unconsolidated"
_JOB_FIELDS: Final = 2


@dataclass(frozen=True, slots=True, order=True)
class Job:
    """A training job: its model with batch size, and the GPUs it spans."""

    model: str
    gpus: int


@dataclass(frozen=True, slots=True)
class ThroughputLaw:
    """Steps per second by GPU model and job, and by (job, other): own rate, then the other's.

    `spread_alone` and `spread_pairs` are the same for GPUs spread over nodes. What does not fit is not there.
    """

    alone: Mapping[str, Mapping[Job, float]]
    pairs: Mapping[str, Mapping[tuple[Job, Job], tuple[float, float]]]
    spread_alone: Mapping[str, Mapping[Job, float]]
    spread_pairs: Mapping[str, Mapping[tuple[Job, Job], tuple[float, float]]]

    def slowdowns(self, gpu: str) -> tuple[float, ...]:
        """Return the rate beside another over the rate alone, for each job of each pair on `gpu`."""
        alone = self.alone[gpu]
        return tuple(
            rates[0] / alone[job]
            for (job, _), rates in sorted(self.pairs[gpu].items())
            if alone.get(job, 0.0) > 0.0
        )


def parse_throughputs(text: str, name: str) -> ThroughputLaw:
    """Return the law; `name` is the file in messages.

    Raises:
        InvalidFile: not JSON, not of this form, or a rate that is negative or not finite.
    """
    try:
        tables = msgspec.convert(
            parse_json(text, name), dict[str, dict[str, dict[str, float | tuple[float, float]]]], strict=True
        )
    except msgspec.ValidationError as error:
        raise InvalidFile(f"{name}: is not a table of throughputs: {error}") from None
    law = ThroughputLaw({}, {}, {}, {})
    alone: dict[str, dict[Job, float]] = {}
    pairs: dict[str, dict[tuple[Job, Job], tuple[float, float]]] = {}
    for gpu, jobs in tables.items():
        alone[gpu], pairs[gpu] = _table(jobs, f"{name}: {gpu}")
    law = ThroughputLaw(
        {gpu: rates for gpu, rates in alone.items() if not gpu.endswith(_SPREAD_SUFFIX)},
        {gpu: rates for gpu, rates in pairs.items() if not gpu.endswith(_SPREAD_SUFFIX)},
        {
            gpu.removesuffix(_SPREAD_SUFFIX): rates
            for gpu, rates in alone.items()
            if gpu.endswith(_SPREAD_SUFFIX)
        },
        {
            gpu.removesuffix(_SPREAD_SUFFIX): rates
            for gpu, rates in pairs.items()
            if gpu.endswith(_SPREAD_SUFFIX)
        },
    )
    if not law.alone:
        raise InvalidFile(f"{name}: holds no GPU model; give a file with content")
    return law


def _table(
    jobs: dict[str, dict[str, float | tuple[float, float]]], where: str
) -> tuple[dict[Job, float], dict[tuple[Job, Job], tuple[float, float]]]:
    alone: dict[Job, float] = {}
    pairs: dict[tuple[Job, Job], tuple[float, float]] = {}
    for written, rates in jobs.items():
        job = _job(written, where)
        for other, rate in rates.items():
            both = rate if isinstance(rate, tuple) else (rate,)
            if not all(math.isfinite(number) and number >= 0.0 for number in both):
                raise InvalidFile(
                    f"{where}: {written} beside {other} has the rate {rate}; it must be finite and ≥ 0"
                )
            if (other == _ALONE) is isinstance(rate, tuple):
                raise InvalidFile(
                    f"{where}: {written} beside {other} has the rate {rate}; one number alone, two in a pair"
                )
            if not all(both):
                continue
            if isinstance(rate, tuple):
                pairs[job, _job(other, where)] = rate
            else:
                alone[job] = rate
    return alone, pairs


def _job(written: str, where: str) -> Job:
    try:
        parsed: object = ast.literal_eval(written)
    except (ValueError, SyntaxError):
        parsed = None
    match parsed:
        case (str(model), int(gpus)) if gpus > 0:
            return Job(model, gpus)
        case _:
            raise InvalidFile(
                f"{where}: {written!r} is no job; it must be written like \"('LM (batch size 20)', 1)\""
            )
