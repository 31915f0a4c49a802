"""The frame of training gangs: how long their steps took, and what they waited for."""

from __future__ import annotations

import math

import numpy as np
import polars as pl

from stowplan.simulate.frames import seconds, text, with_run
from stowplan.simulate.gangs import TrainingRun
from stowplan.simulate.record import RunRecord

__all__ = ["training_frame"]


def training_frame(record: RunRecord) -> pl.DataFrame:
    """Return one row per training gang that was placed, in order; docs/SIMULATOR.md lists the columns."""
    runs = record.training
    rings = [run.ring for run in runs]
    ids = [run.kernel_ids for run in runs]
    started_s = [float(record.kernel.started_s(each).max()) for each in ids]
    return with_run(
        record,
        {
            "workflow": text([run.workflow for run in runs]),
            "gang": text([run.gang for run in runs]),
            "workers": pl.Series([len(each) for each in ids], dtype=pl.Int64),
            "gpus": pl.Series([ring.gpus for ring in rings], dtype=pl.Int64),
            "nodes": pl.Series([ring.nodes for ring in rings], dtype=pl.Int64),
            "distance": text([ring.distance.name.lower() for ring in rings]),
            "started_s": seconds(np.array(started_s)),
            "ended_s": seconds(np.array([_ended_s(record, run) for run in runs])),
            "steps": pl.Series([run.steps for run in runs], dtype=pl.Float64),
            "ideal_step_s": seconds(np.array([run.ideal_s for run in runs])),
            "compute_s": seconds(np.array([run.training.compute_s for run in runs])),
            "step_s": seconds(np.array([_share(run.running_s, run.steps) for run in runs])),
            "reduce_s": seconds(np.array([_share(run.reducing_s, run.steps) for run in runs])),
        },
    )


def _share(amount: float, steps: float) -> float:
    return amount / steps if steps > 0.0 else math.nan


def _ended_s(record: RunRecord, run: TrainingRun) -> float:
    """When the last of its tasks ended; NaN: one runs still."""
    return float(np.max([record.ledger.ended_s[attempt] for attempt in run.attempts]))
