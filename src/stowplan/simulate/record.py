"""The raw record of a run, from which every result is computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stowplan.simulate.book import TaskBook
from stowplan.simulate.clusters.model import Cluster
from stowplan.simulate.demands import Demands
from stowplan.simulate.gangs import TrainingRun
from stowplan.simulate.hardware import Machines
from stowplan.simulate.kernel.kernel import FluidKernel
from stowplan.simulate.ledger import Ledger
from stowplan.simulate.usage import UsageReadings

__all__ = ["RunRecord"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """What a simulation hands to `frames` and `summary`.

    `training` are the gangs that trained, with their steps up to `now_s`, where the run stands. `refused`
    says by task id why a task never ran. `backlog_peak` is the most tasks that a cycle left pending.
    """

    policy: str
    seed: int
    cluster: Cluster
    machines: Machines
    book: TaskBook
    ledger: Ledger
    demands: Demands
    kernel: FluidKernel
    usage: UsageReadings
    node_usage: UsageReadings
    refused: Mapping[int, str]
    now_s: float
    is_partial: bool
    cycles: int
    degraded_cycles: int
    backlog_peak: int
    faults: int
    training: Sequence[TrainingRun]
