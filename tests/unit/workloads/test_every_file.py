"""Every file of the shared data loads as what it is, or is refused with a reason that is right."""

from collections import Counter
from pathlib import Path

import pytest

from stowplan.errors import InvalidFile, UnknownName
from stowplan.simulate.clusters import load_cluster
from stowplan.simulate.laws import (
    ColocationLaw,
    DriftLaw,
    MachineLaw,
    PlacementLaw,
    ThroughputLaw,
    load_law,
)
from stowplan.simulate.workloads import Workload, detect, load_workload, load_workloads

# Each folder with the formats that its files must be seen to have.
EXPECTED = {
    "wfinstances": {"wfformat"},
    "cws": {"nextflow-trace", "nextflow-dag"},
    "tpch": {"tpch-stages"},
    "tpch-batch": {"tpch-batch"},
    "openb": {"openb-pods", "openb-nodes"},
    "lotaru": {"lotaru"},
    "sia": {"sia"},
    "gavel": {"gavel"},
    "lucid": {"lucid"},
    "azure-vm-noise": {"azure-vm-noise"},
    "sizey": {"nextflow-trace"},
    "argo-examples": {"argo", "kubernetes"},
}
LAWS = {
    "sia": (PlacementLaw, "a placement law"),
    "gavel": (ThroughputLaw, "a throughput law"),
    "lucid": (ColocationLaw, "a co-location law"),
    "azure-vm-noise": (DriftLaw, "a drift law"),
}


def files(folder: Path) -> list[Path]:
    """The data files under a folder; documentation is not data."""
    found = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".md"]
    assert found, f"{folder} has no files: the test looked in the wrong place"
    return found


def lower_bound_s(workload: Workload, cores: int) -> float:
    """The larger of all work spread over the cores and the longest critical path."""
    workflows = [submission.workflow for submission in workload.submissions]
    tasks = [task for workflow in workflows for task in workflow.tasks]
    area_s = sum(task.expected_s * task.shape.requests["cpu"] / 1000 / cores for task in tasks)
    return max(area_s, *(workflow.critical_path()[1] for workflow in workflows))


def test_every_folder_is_named_here(shared_data: Path) -> None:
    assert {path.name for path in shared_data.iterdir() if path.is_dir()} == set(EXPECTED)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_every_file_is_recognised(shared_data: Path, name: str) -> None:
    assert {detect(path).name for path in files(shared_data / name)} == EXPECTED[name]


def test_wfinstances_load_with_every_task_and_second(shared_data: Path) -> None:
    tasks: Counter[str] = Counter()
    for path in files(shared_data / "wfinstances"):
        workload = load_workload(path)
        (submission,) = workload.submissions
        tasks[path.parent.name] += len(submission.workflow)
        assert any("imputed" in note for note in workload.notes)
        assert (path.parent.name in {"1000genome", "epigenomics", "soykb", "cycles", "seismology"}) == any(
            f"for {len(submission.workflow)} of" in note and "peak memory" in note for note in workload.notes
        ), path
    assert tasks == {
        "1000genome": 4154, "blast": 346, "bwa": 104, "cycles": 1020, "epigenomics": 2245, "montage": 2457,
        "nfcore": 842, "seismology": 602, "soykb": 714, "srasearch": 948,
    }  # fmt: skip


def test_cws_traces_load_with_their_graph(shared_data: Path) -> None:
    tasks = {"ampliseq": 144, "atacseq": 496, "chipseq": 598, "eager": 660, "mag": 1132, "nanoseq": 617}
    for path in files(shared_data / "cws"):
        if "dag" in path.name:
            with pytest.raises(InvalidFile, match=r"process graph.*pass the trace"):
                load_workload(path)
            continue
        workload = load_workload(path)
        (submission,) = workload.submissions
        workflow = submission.workflow
        assert len(workflow) == tasks[path.parent.parent.name]
        roots = sum(not parents for parents in workflow.parents)
        assert roots <= 0.25 * len(workflow), path  # the rest was seen to wait for something
        assert {name for task in workflow.tasks for name, _ in task.work.machine_factors} == {
            "cpu05", "cpu14", "node8", "node10",
        }  # fmt: skip


def test_cws_folder_is_its_runs_and_its_nodes(shared_data: Path) -> None:
    assert len(load_workloads(shared_data / "cws" / "eager" / "original")) == 5
    cluster = load_cluster(shared_data / "cws")
    assert [node.name for node in cluster.nodes] == ["cpu05", "cpu14", "node10", "node8"]
    gib = 1 << 30
    assert all(120 <= node.allocatable["memory"] / gib <= 128 for node in cluster.nodes)


def test_sizey_traces_load_without_a_graph(shared_data: Path) -> None:
    rows = {"trace_chipseq": 2938, "trace_eager": 1576, "trace_iwd": 1661, "trace_methylseq": 1083}
    for path in files(shared_data / "sizey"):
        workload = load_workload(path)
        assert len(workload) == rows[path.name.split(".")[0]]
        assert workload.recorded_s[0] == 0.0
        assert workload.recorded_s[-1] > 0.0


def test_tpch_stages_load(shared_data: Path) -> None:
    (path,) = files(shared_data / "tpch")
    workload = load_workload(path)
    assert len(workload) == 22 * 7
    assert workload.task_count == 1414


def test_tpch_batches_load_with_published_bounds(shared_data: Path) -> None:
    bounds_ms = {"tpch-50-test.json.gz": 8461, "tpch-100-test.json.gz": 14817}
    seen: set[str] = set()
    for path in files(shared_data / "tpch-batch"):
        workloads = load_workloads(path)
        jobs = int(path.name.split("-")[1])
        assert {len(workload) for workload in workloads} == {jobs}
        assert load_cluster(path).cores == 6000
        if path.name in bounds_ms:
            seen.add(path.name)
            mean_s = sum(lower_bound_s(workload, 6000) for workload in workloads) / len(workloads)
            assert 1000 * mean_s == pytest.approx(bounds_ms[path.name], abs=0.5)
    assert seen == set(bounds_ms)


def test_openb_lists_load(shared_data: Path) -> None:
    for path in files(shared_data / "openb"):
        if "node" in path.name:
            cluster = load_cluster(path)
            gpus = sum(len(node.hardware.gpus) for node in cluster.nodes)
            assert (len(cluster), gpus) == (1523 if "all" in path.name else 1213, 6212)
            with pytest.raises(InvalidFile, match="nodes of the openb GPU cluster"):
                load_workload(path)
        else:
            workload = load_workload(path)
            assert len(workload) >= 7064
            assert ("multigpu" in path.name) == any("holds no times" in note for note in workload.notes)
            asked = [s.workflow.tasks[0].shape.gpu for s in workload.submissions]
            models = {model for gpu in asked if gpu is not None for model in gpu.models}
            assert bool(models) == ("gpuspec" in path.name)


def test_lotaru_is_a_workload_and_a_law(shared_data: Path) -> None:
    folder = shared_data / "lotaru"
    law = load_law(folder)
    assert isinstance(law, MachineLaw)
    assert law.machines == ("asok01", "asok02", "c2", "n1", "n2", "wallyRedCpu")
    assert law.typical("asok01") == pytest.approx(1.55, abs=0.1)
    assert law.typical("c2") == pytest.approx(0.82, abs=0.05)
    for path in files(folder):
        workload = load_workload(path)
        assert workload.task_count > 0
        if "local" not in path.name:
            with pytest.raises(UnknownName, match="reference machine 'local'"):
                load_law(path)
    together = load_workload(folder)
    assert together.task_count == 1333
    factors = {len(task.work.machine_factors) for s in together.submissions for task in s.workflow.tasks}
    assert factors == {6}


@pytest.mark.parametrize("name", sorted(LAWS))
def test_laws_load_and_are_no_workload(shared_data: Path, name: str) -> None:
    kind, words = LAWS[name]
    for path in files(shared_data / name):
        assert isinstance(load_law(path), kind)
        with pytest.raises(InvalidFile, match=f"{path.name}: is {words}.*not a workload; it describes"):
            load_workload(path)
        with pytest.raises(InvalidFile, match="not a cluster"):
            load_cluster(path)


def test_argo_manifests_are_no_workload(shared_data: Path) -> None:
    for path in files(shared_data / "argo-examples"):
        with pytest.raises(InvalidFile, match=r"not a workload; (it says what to run|Nodes in it)"):
            load_workload(path)


def test_a_folder_of_several_formats_is_refused(shared_data: Path) -> None:
    with pytest.raises(InvalidFile, match=r"several formats .*openb-nodes, openb-pods"):
        load_workload(shared_data / "openb")
