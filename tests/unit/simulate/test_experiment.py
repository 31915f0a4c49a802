"""Policies × seeds: order, processes, interruption, files."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from stowplan.errors import InvalidInput, OutputError, UnknownName
from stowplan.simulate.experiment import ExperimentProgress, ExperimentResult, run_experiment
from stowplan.simulate.faults import FaultPlan
from stowplan.simulate.results import FRAMES, RunResult
from stowplan.simulate.simulator import Simulation
from stowplan.simulate.workloads.arrivals import Poisson
from tests.simulation_cases import busy_cluster, busy_workload

POLICIES = ["kube-scheduler", "round-robin"]
FAULTS = FaultPlan.parse([{"kind": "disk-stall", "every_s": 20.0, "duration_s": 5.0}], "faults")


def experiment(**fields: object) -> ExperimentResult:
    settings: dict[str, Any] = {"arrivals": Poisson(10.0), "faults": FAULTS, **fields}
    return run_experiment(busy_cluster(), busy_workload(1, workflows=4), POLICIES, [3, 1], **settings)


def test_runs_are_stacked_by_policy_then_seed_and_compared_with_the_first() -> None:
    made = experiment()
    runs = made.result.summary.select("policy", "seed").rows()
    assert runs == [("kube-scheduler", 3), ("kube-scheduler", 1), ("round-robin", 3), ("round-robin", 1)]
    assert made.baseline == "kube-scheduler"
    assert made.comparison["policy"].unique().to_list() == ["round-robin"]
    assert (made.runs, made.runs_finished, made.is_partial) == (4, 4, False)
    alone = Simulation(
        busy_cluster(),
        busy_workload(1, workflows=4),
        "round-robin",
        seed=3,
        arrivals=Poisson(10.0),
        faults=FAULTS,
    ).run()
    part = made.result.tasks.filter((pl.col("policy") == "round-robin") & (pl.col("seed") == 3))
    assert part.equals(alone.tasks)


@pytest.mark.slow
def test_processes_change_nothing_but_the_time_it_takes(tmp_path: Path) -> None:
    seen: list[ExperimentProgress] = []
    here, there = experiment(), experiment(processes=2, progress=seen.append)
    assert here.result.digest() == there.result.digest()
    for folder, made in (("here", here), ("there", there)):
        made.write_parquet(tmp_path / folder)
    for name in (*FRAMES, "comparison"):
        one, other = (tmp_path / folder / f"{name}.parquet" for folder in ("here", "there"))
        assert one.read_bytes() == other.read_bytes(), name
    assert seen[-1] == ExperimentProgress(4, 4, 1.0)


@pytest.mark.parametrize(
    ("policies", "seeds", "fields", "words"),
    [
        ([], [1], {}, "no policy"),
        (["round-robin"], [], {}, "no seed"),
        (["round-robin", "round-robin"], [1], {}, "'round-robin' is given twice"),
        (["round-robin"], [1, 1], {}, "seed 1 is given twice"),
        (["round-robin"], [1], {"baseline": "kube-scheduler"}, "not among the policies"),
        (["round-robin"], [1], {"processes": 0}, "processes is 0"),
    ],
)
def test_what_cannot_be_run_is_refused(
    policies: list[str], seeds: list[int], fields: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidInput, match=words):
        run_experiment(busy_cluster(), busy_workload(1), policies, seeds, **fields)


def test_an_unknown_policy_is_told_before_any_run() -> None:
    seen: list[ExperimentProgress] = []
    with pytest.raises(UnknownName, match="did you mean 'tetris'"):
        run_experiment(
            busy_cluster(), busy_workload(1), ["round-robin", "tetriss"], [1], progress=seen.append
        )
    assert seen == []


@pytest.mark.slow
def test_a_failing_run_ends_the_experiment_in_either_mode() -> None:
    # A fault of a node that is not there is found when the run is set up.
    broken = FaultPlan.parse([{"kind": "disk-stall", "nodes": "nn", "at_s": 1, "duration_s": 1}], "faults")
    for processes in (1, 2):
        with pytest.raises(UnknownName, match="disk-stall fault"):
            experiment(faults=broken, processes=processes)


INTERRUPTED = """
import sys
from stowplan.simulate.experiment import run_experiment
from tests.simulation_cases import busy_cluster, busy_workload

def main(processes):
    made = run_experiment(
        busy_cluster(20),
        busy_workload(1, workflows=600),
        ["round-robin", "kube-scheduler"],
        [1, 2],
        processes=processes,
        progress=lambda now: print("share", now.share, flush=True),
    )
    summary = made.result.summary
    print("kept", made.is_partial, summary.height, summary["tasks_done"].sum(), made.runs_finished)

if __name__ == "__main__":
    main(int(sys.argv[1]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("processes", [1, 2])
def test_ctrl_c_keeps_what_was_reached(processes: int, repository: Path, tmp_path: Path) -> None:
    script = tmp_path / "interrupted.py"
    script.write_text(INTERRUPTED, encoding="utf-8")
    child = subprocess.Popen(
        [sys.executable, str(script), str(processes)],
        cwd=repository,
        env={**os.environ, "PYTHONPATH": str(repository)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert child.stdout is not None
    while True:
        line = child.stdout.readline()
        assert line, child.communicate()[1]
        if float(line.split()[1]) > 0.0:
            break
    time.sleep(0.3)
    os.killpg(child.pid, signal.SIGINT)  # as a terminal does: to every process of the group
    out, errors = child.communicate(timeout=60)
    assert child.returncode == 0, errors
    word, is_partial, runs, done, finished = out.splitlines()[-1].split()
    assert (word, is_partial, finished) == ("kept", "True", "0")
    assert 1 <= int(runs) <= processes
    assert int(done) > 0


# ---- results -------------------------------------------------------------------------------------


def test_files_appear_whole_and_can_be_read_back(tmp_path: Path) -> None:
    run = Simulation(busy_cluster(), busy_workload(1), "round-robin", seed=0).run()
    paths = run.write_parquet(tmp_path / "new" / "folder")
    assert [path.name for path in paths] == [f"{name}.parquet" for name in FRAMES]
    for path, (_, frame) in zip(paths, run.frames(), strict=True):
        assert pl.read_parquet(path).equals(frame)
    assert sorted(path.name for path in (tmp_path / "new" / "folder").iterdir()) == sorted(
        p.name for p in paths
    )


def test_an_unwritable_folder_is_refused_and_nothing_is_left(tmp_path: Path) -> None:
    run = Simulation(busy_cluster(), busy_workload(1), "round-robin", seed=0).run()
    in_the_way = tmp_path / "file"
    in_the_way.write_text("here first", encoding="utf-8")
    with pytest.raises(OutputError, match="file"):
        run.write_parquet(in_the_way)
    with pytest.raises(OutputError, match="below"):
        run.write_parquet(in_the_way / "below")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_nothing_cannot_be_stacked() -> None:
    with pytest.raises(InvalidInput, match="no result"):
        RunResult.stacked([])


def test_the_digest_sees_every_bit() -> None:
    run = Simulation(busy_cluster(), busy_workload(1), "round-robin", seed=0).run()
    nudged = run.tasks.with_columns(
        pl.when(pl.int_range(pl.len()) == 3).then(1e-300).otherwise(pl.col("slow_cpu_s")).alias("slow_cpu_s")
    )
    fields: dict[str, Any] = dict(run.frames()) | {"tasks": nudged}
    assert RunResult(**fields, is_partial=False).digest() != run.digest()
