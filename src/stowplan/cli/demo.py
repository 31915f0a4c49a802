"""`stowplan demo`: real workflow runs, replayed on a simulated cluster under several policies."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from stowplan.cli.experiment import Plan, execute
from stowplan.simulate.data import MEAN_GAP_S, load_demo_cluster, load_demo_workload
from stowplan.simulate.workloads import Poisson

__all__ = ["run_demo"]

_BASELINE: Final = "kube-scheduler"
_POLICIES: Final = (_BASELINE, "sjf", "srpt", "srpt-physics")
_WORKLOAD_SEED: Final = 20


def run_demo(*, out: Path, seeds: int, processes: int | None) -> int:
    """Run, write and show the demo; return the exit code.

    Raises:
        StowplanError: the number of seeds cannot be used, or results cannot be written.
    """
    workload = load_demo_workload(np.random.default_rng(_WORKLOAD_SEED))
    arrivals = f"Poisson, one workflow in {MEAN_GAP_S:g} s on average, drawn anew for every seed"
    return execute(
        Plan(
            title="Real workflow runs under four placement policies",
            lead="Recorded executions of scientific workflows, genomics first, replayed on a simulated "
            "cluster: every policy meets the same arrivals and the same disturbances.",
            cluster=replace(load_demo_cluster(), source="made for the demo; ships with Stowplan"),
            workload=workload,
            policies=_POLICIES,
            baseline=_BASELINE,
            seeds=seeds,
            processes=processes,
            out=out,
            settings={"arrivals": Poisson(MEAN_GAP_S)},
            conditions=[("Arrivals", arrivals), ("Contention", "on")],
        )
    )
