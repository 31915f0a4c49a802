"""Drift whose levels were measured on cloud machines slows what depends on the drifting resource."""

from dataclasses import replace
from pathlib import Path

import pytest

from stowplan.core.domain import Workflow
from stowplan.core.physics.laws import PhysicsLaws
from stowplan.core.physics.vocabulary import Resource
from stowplan.simulate.clusters.model import Drift
from stowplan.simulate.files import read_text
from stowplan.simulate.laws.drift import parse_drift
from stowplan.simulate.simulator import Simulation
from tests.simulation_cases import cluster, node, task, workload

SERIES = "mlc_max_bandwidth-all_reads__b8ms__mib_s.csv.gz"


def test_measured_levels_drive_the_drift(shared_data: Path) -> None:
    path = shared_data / "azure-vm-noise" / SERIES
    law = parse_drift(read_text(path), path.name)
    levels = law.degraded_levels(below=0.9, count=5)
    assert levels == tuple(sorted(levels))
    assert all(0.0 < level < 0.9 for level in levels)
    # The task moves as many bytes as the machine can, so it goes at exactly the level of the moment.
    steady = cluster(node("n0", dram_bytes_per_s=1e10))
    drift = Drift(
        nodes=("n0",), resource=Resource.DRAM, mean_normal_s=100.0, mean_degraded_s=100.0, levels=levels
    )
    load = workload(Workflow("w", (task("a", seconds=2000.0, dram_bytes_per_s=1e10),)))
    laws = PhysicsLaws(dram_latency_coefficient=0.0)
    run = Simulation(replace(steady, drift=(drift,)), load, "round-robin", seed=3, laws=laws).run()
    took_s = run.tasks["actual_s"][0]
    assert 2000.0 < took_s < 2000.0 / levels[0]
    assert run.tasks["slow_dram_bandwidth_s"][0] == pytest.approx(took_s - 2000.0)
