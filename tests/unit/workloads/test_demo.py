"""The demo's data: small, of known origin, the same for the same generator, worth scheduling."""

import gzip
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import stowplan.simulate.data as package
from stowplan.simulate.data import load_demo_cluster, load_demo_workload

FOLDER = Path(package.__file__).parent
TABLE = FOLDER / "demo_workflows.csv.gz"


def test_the_table_is_small_and_says_where_it_is_from() -> None:
    assert TABLE.stat().st_size <= 300_000
    origin = (FOLDER / "ORIGIN.md").read_text(encoding="utf-8")
    assert "LGPL-3.0" in origin
    assert "WfInstances" in origin
    lines = gzip.decompress(TABLE.read_bytes()).decode().splitlines()
    runs = {line.split(",", 1)[0] for line in lines[1:]}
    families = {run.split("-")[0] for run in runs}
    assert len(runs) == 13
    assert all(family in origin for family in families)


def test_the_same_generator_gives_the_same_workload() -> None:
    one, other = (load_demo_workload(np.random.default_rng(5)) for _ in range(2))
    assert one == other
    assert one != load_demo_workload(np.random.default_rng(6))


def test_every_run_arrives_twice_with_factors_for_each_machine_type() -> None:
    workload, cluster = load_demo_workload(np.random.default_rng(0)), load_demo_cluster()
    assert (len(workload), workload.task_count) == (26, 3100)
    types = {node.hardware.machine_type for node in cluster.nodes}
    factors = {
        name: [
            dict(task.work.machine_factors)[name] for s in workload.submissions for task in s.workflow.tasks
        ]
        for name in types - {"standard"}
    }
    assert np.median(factors["fast"]) == pytest.approx(0.82, abs=0.12)
    assert np.median(factors["older"]) == pytest.approx(1.55, abs=0.25)


def test_every_task_fits_some_node_and_all_together_are_too_much() -> None:
    workload, cluster = load_demo_workload(np.random.default_rng(0)), load_demo_cluster()
    tasks = [task for submission in workload.submissions for task in submission.workflow.tasks]
    for task in tasks:
        assert any(
            all(node.allocatable.get(name, 0) >= amount for name, amount in task.shape.requests.items())
            for node in cluster.nodes
        ), task.name
    core_s = sum(task.expected_s * task.shape.requests["cpu"] / 1000 for task in tasks)
    arriving_s = workload.recorded_s[-1] - workload.recorded_s[0]
    assert core_s > 0.8 * cluster.cores * arriving_s  # a queue builds up, so the order matters


def test_the_table_is_what_the_tool_makes(shared_data: Path, repository: Path, tmp_path: Path) -> None:
    tool = repository / "tools" / "make_demo_table.py"
    subprocess.run(
        [sys.executable, tool, shared_data / "wfinstances", tmp_path], check=True, capture_output=True
    )
    made = gzip.decompress((tmp_path / TABLE.name).read_bytes())
    assert made == gzip.decompress(TABLE.read_bytes())
