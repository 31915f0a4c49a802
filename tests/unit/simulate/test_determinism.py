"""Same arguments, same bytes: in this process, in others, whatever their hashes of text."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from stowplan.core.physics.vocabulary import Resource
from stowplan.simulate.clusters.model import Drift
from stowplan.simulate.faults import FaultPlan
from stowplan.simulate.results import FRAMES, RunResult
from stowplan.simulate.simulator import Simulation
from stowplan.simulate.workloads.arrivals import Burst
from tests.simulation_cases import busy_cluster, busy_workload

SCRIPT = """
import hashlib, sys
from pathlib import Path
from tests.unit.simulate.test_determinism import everything

for policy in ("random", "kube-scheduler"):
    run = everything(policy)
    print(run.digest())
    for path in run.write_parquet(Path(sys.argv[1]) / policy):
        print(path.name, hashlib.sha256(path.read_bytes()).hexdigest())
"""


def everything(policy: str, seed: int = 11) -> RunResult:
    """A run in which chance decides arrivals, faults, drift and ties."""
    faults = FaultPlan.parse(
        [
            {
                "kind": "node-not-ready",
                "cause": "network",
                "every_s": 70.0,
                "duration_s": 30.0,
                "duration": "exponential",
            },
            {"kind": "spot-reclaim", "every_s": 100.0, "notice_s": 5.0, "duration_s": 50.0},
            {"kind": "pcie-link-down", "every_s": 60.0, "duration_s": 5.0},
        ],
        "faults",
    )
    drift = Drift(nodes=("n0", "n3"), resource=Resource.DISK, mean_normal_s=40.0, mean_degraded_s=10.0)
    machines = replace(busy_cluster(), drift=(drift,))
    return Simulation(
        machines, busy_workload(5), policy, seed=seed, faults=faults, arrivals=Burst(30.0, 60.0, 30.0)
    ).run()


@pytest.mark.parametrize("policy", ["random", "kube-scheduler", "tetris"])
def test_a_run_repeats_itself(policy: str) -> None:
    assert everything(policy).digest() == everything(policy).digest()


def test_another_seed_is_another_run() -> None:
    assert everything("random").digest() != everything("random", seed=12).digest()


@pytest.mark.slow
def test_other_processes_with_other_hashes_write_the_same_bytes(repository: Path, tmp_path: Path) -> None:
    printed: list[str] = []
    for hash_seed in ("0", "4242"):
        child = subprocess.run(
            [sys.executable, "-c", SCRIPT, str(tmp_path / hash_seed)],
            cwd=repository,
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(repository)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert child.returncode == 0, child.stderr
        printed.append(child.stdout)
    assert printed[0] == printed[1]
    assert len(printed[0].splitlines()) == 2 * (1 + len(FRAMES))


def test_looking_at_a_run_does_not_change_it() -> None:
    simulation = Simulation(busy_cluster(), busy_workload(5), "kube-scheduler", seed=1)
    steps = 0
    while not simulation.is_over:
        simulation.step()
        steps += 1
        if steps % 7 == 0:
            simulation.usage.take(simulation.site.kernel)
    watched = simulation.result()
    alone = Simulation(busy_cluster(), busy_workload(5), "kube-scheduler", seed=1).run()
    assert watched.tasks.equals(alone.tasks)
