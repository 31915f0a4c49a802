"""The installed command, started as a user starts it, on the files that ship with the repository."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest

# On a machine where nothing is compiled yet, the first run compiles the simulator.
pytestmark = pytest.mark.timeout(400)

STOWPLAN = Path(sys.executable).parent / "stowplan"
FRAMES = {"tasks", "workflows", "usage", "node_usage", "training", "summary", "comparison"}


def stowplan(
    *arguments: str | Path, cwd: Path, text_in: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `stowplan` in `cwd`."""
    return subprocess.run(
        [STOWPLAN, *arguments], cwd=cwd, input=text_in, capture_output=True, text=True, check=False
    )


@pytest.fixture
def examples(repository: Path) -> Path:
    """The example files of the repository."""
    return repository / "examples"


def check_results(folder: Path, policies: set[str], seeds: int) -> None:
    """Every frame is there, with every policy and seed, and nothing else is."""
    names = {path.name for path in folder.iterdir()}
    assert names == {f"{frame}.parquet" for frame in FRAMES} | {"report.html"}
    summary = pl.read_parquet(folder / "summary.parquet")
    assert set(summary["policy"]) == policies
    assert sorted(summary["seed"].unique()) == list(range(1, seeds + 1))
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "</html>" in page[-20:]
    assert len(page) < 6_000_000


@pytest.mark.parametrize(("cluster", "workload"), [("laptop", "burst"), ("gpu-training", "training")])
def test_simulate_on_the_examples(tmp_path: Path, examples: Path, cluster: str, workload: str) -> None:
    done = stowplan(
        "simulate",
        "--cluster", examples / "clusters" / f"{cluster}.yaml",
        "--workload", examples / "workloads" / f"{workload}.yaml",
        "--policy", "kube-scheduler", "--policy", "srpt", "--seeds", "2", "--out", "out/run",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    check_results(tmp_path / "out" / "run", {"kube-scheduler", "srpt"}, 2)
    assert "Results, mean over 2 seeds" in done.stdout
    assert "Against kube-scheduler" in done.stdout
    assert "Report: out/run/report.html" in done.stdout
    workflows = pl.read_parquet(tmp_path / "out" / "run" / "workflows.parquet")
    assert set(workflows["status"]) == {"done"}


def test_the_same_command_gives_the_same_data(tmp_path: Path, examples: Path) -> None:
    for name, processes in (("one", "1"), ("two", "2")):
        done = stowplan(
            "simulate", "-c", examples / "clusters" / "three-zones.yaml",
            "-w", examples / "workloads" / "variant-calling.yaml",
            "-p", "random", "-p", "heft", "--seeds", "1", "--processes", processes, "--out", name,
            cwd=tmp_path,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    for frame in FRAMES:
        one, two = (pl.read_parquet(tmp_path / name / f"{frame}.parquet") for name in ("one", "two"))
        assert one.equals(two), frame


def test_faults_arrivals_rules_and_copies(tmp_path: Path, examples: Path) -> None:
    (tmp_path / "rules.yaml").write_text(
        "version: 1\nrules:\n  - name: not-on-old\n    forbid: {machine_type: old}\n"
    )
    (tmp_path / "faults.yaml").write_text(
        "faults:\n  - {kind: disk-stall, nodes: [general-0], at_s: [60], duration_s: 30}\n"
    )
    done = stowplan(
        "simulate", "-c", examples / "clusters" / "three-zones.yaml",
        "-w", examples / "workloads" / "variant-calling.yaml",
        "-p", "srpt", "--baseline", "kube-scheduler", "--seeds", "1", "--copies", "2", "--out", "out",
        "--rules", "rules.yaml", "--faults", "faults.yaml", "--arrivals", "poisson:30",
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    summary = pl.read_parquet(tmp_path / "out" / "summary.parquet")
    assert summary["policy"].to_list() == ["kube-scheduler", "srpt"]
    assert summary["workflows"].to_list() == [24, 24]
    assert summary["faults"].to_list() == [1, 1]
    tasks = pl.read_parquet(tmp_path / "out" / "tasks.parquet")
    assert not any(node.startswith("old") for node in tasks["node"].unique())


class TestFeasible:
    def test_golden(self, tmp_path: Path, examples: Path) -> None:
        done = stowplan("feasible", "-f", examples / "objects.yaml", "-o", "json", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        expected = Path(__file__).parent / "feasible_expected.json"
        assert json.loads(done.stdout) == json.loads(expected.read_text())

    def test_standard_input_and_table(self, tmp_path: Path, examples: Path) -> None:
        done = stowplan("feasible", "-f", "-", cwd=tmp_path, text_in=(examples / "objects.yaml").read_text())
        assert done.returncode == 0, done.stderr
        assert "lab/train: 1 of 3 nodes can take it" in done.stdout
        assert "TaintToleration" in done.stdout

    def test_rules_refuse_too(self, tmp_path: Path, examples: Path) -> None:
        (tmp_path / "rules.yaml").write_text(
            "version: 1\nrules:\n  - name: nothing-on-gpu\n    forbid: {node: gpu}\n"
        )
        done = stowplan(
            "feasible",
            "-f",
            examples / "objects.yaml",
            "--rules",
            "rules.yaml",
            "-o",
            "json",
            cwd=tmp_path,
        )
        refused = json.loads(done.stdout)["pods"]["lab/train"]["refused"]
        assert "nothing-on-gpu" in refused["gpu"]["reason"]


def _read_until(terminal: int, pattern: str) -> str:
    """Return what a terminal shows up to a match; fails at its end."""
    shown = ""
    while re.search(pattern, shown) is None:
        shown += os.read(terminal, 4096).decode(errors="replace")
    return shown


@pytest.mark.parametrize("processes", ["1", "2"])
def test_ctrl_c_keeps_what_was_reached(tmp_path: Path, processes: str) -> None:
    ours, its = pty.openpty()
    with subprocess.Popen(
        [STOWPLAN, "demo", "--seeds", "20", "--processes", processes, "--out", "out"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=its, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        os.close(its)
        _read_until(ours, r"\b[1-9][0-9]?%")  # the progress bar has moved
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to every process of the group
        err = _read_until(ours, "interrupted\r?\n")
        assert process.stdout is not None
        out = process.stdout.read()
    os.close(ours)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert "Partial: " in out
    assert "what was reached is kept" in out
    summary = pl.read_parquet(tmp_path / "out" / "summary.parquet")
    assert len(summary) >= 1
    assert (tmp_path / "out" / "report.html").exists()
    assert not list((tmp_path / "out").glob(".*"))


@pytest.mark.parametrize("delay_s", [0.0, 0.5])
def test_ctrl_c_while_the_workers_start_leaves_nothing(tmp_path: Path, delay_s: float) -> None:
    with subprocess.Popen(
        [STOWPLAN, "demo", "--processes", "2", "--out", "out"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        assert process.stderr.readline().startswith("demo: ")
        time.sleep(delay_s)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=100)
    assert process.returncode == 130, err
    assert err.endswith("interrupted\n")
    assert "Traceback" not in err
    assert not list(tmp_path.glob("out/*"))


def test_a_pipe_that_closes_early(tmp_path: Path, examples: Path) -> None:
    with subprocess.Popen(
        [STOWPLAN, "feasible", "-f", examples / "objects.yaml", "-o", "json"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as writer:  # fmt: skip
        head = subprocess.run(["head", "-1"], stdin=writer.stdout, capture_output=True, text=True, check=True)
        assert writer.stdout is not None
        writer.stdout.close()
        assert writer.stderr is not None
        complaint = writer.stderr.read()
    assert head.stdout == "{\n"
    assert "Traceback" not in complaint
