"""Input that cannot be used: one clear line on standard error, exit code 2, nothing written.

Every case goes through the whole command in this process; what a process adds is in `test_process.py`.
"""

import gzip
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import polars as pl
import pytest

from stowplan.cli.process import run

NODE = {"name": "box", "cores": 8, "memory": "32Gi"}


def cluster_text(*nodes: Mapping[str, object], version: str = "stowplan/v1") -> str:
    """A cluster file (JSON is YAML)."""
    spec = {"nodes": list(nodes) or [NODE]}
    return json.dumps({"apiVersion": version, "kind": "Cluster", "metadata": {"name": "c"}, "spec": spec})


def workload_text(*tasks: Mapping[str, object], version: str = "stowplan/v1") -> str:
    """A workload file of one workflow."""
    spec = {"workflows": [{"name": "flow", "tasks": list(tasks)}]}
    return json.dumps({"apiVersion": version, "kind": "Workload", "metadata": {"name": "w"}, "spec": spec})


def task(name: str = "one", *, after: list[str] | None = None, **fields: object) -> dict[str, object]:
    """A task of ten seconds."""
    return {"name": name, "after": after or [], "work": {"runtime": "10s", "cores": 1}, **fields}


def working(**work: object) -> dict[str, object]:
    """A task with other work."""
    return {"name": "one", "work": {"runtime": "10s", "cores": 1, **work}}


@pytest.fixture
def refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run `simulate` on files of the given content, check that it refuses, and return the complaint."""

    def check(
        *options: str,
        cluster: str | bytes = cluster_text(),
        workload: str | bytes = workload_text(task()),
        out: str = "results/run",
        policy: str = "kube-scheduler",
        cluster_path: Path | None = None,
        workload_path: Path | None = None,
    ) -> str:
        for name, content in (("cluster.yaml", cluster), ("workload.yaml", workload)):
            raw = content if isinstance(content, bytes) else content.encode()
            (tmp_path / name).write_bytes(raw)
        before = sorted(tmp_path.rglob("*"))
        code = run(
            ["simulate", "-c", str(cluster_path or tmp_path / "cluster.yaml"),
             "-w", str(workload_path or tmp_path / "workload.yaml"),
             "-p", policy, "--out", str(tmp_path / out), "--seeds", "1", *options]
        )  # fmt: skip
        captured = capsys.readouterr()
        assert code == 2, captured.err
        assert captured.out == ""
        assert captured.err.startswith("error: ")
        assert captured.err.count("\n") == 1, captured.err
        assert sorted(tmp_path.rglob("*")) == before
        return captured.err

    return check


Refused = Callable[..., str]


class TestWorkload:
    def test_cycle(self, refused: Refused) -> None:
        text = workload_text(task("a", after=["c"]), task("b", after=["a"]), task("c", after=["b"]))
        assert "cycle" in refused(workload=text)

    def test_dangling_edge(self, refused: Refused) -> None:
        complaint = refused(workload=workload_text(task("a"), task("b", after=["nobody"])))
        assert "'nobody'" in complaint

    def test_duplicate_task(self, refused: Refused) -> None:
        assert "'a'" in refused(workload=workload_text(task("a"), task("a")))

    @pytest.mark.parametrize("runtime", ["-5s", "-1", "nan", "inf", "1e400s", "5 fortnights"])
    def test_a_duration_that_cannot_be(self, refused: Refused, runtime: str) -> None:
        assert "runtime" in refused(workload=workload_text(working(runtime=runtime)))

    @pytest.mark.parametrize("memory", ["-1Gi", "999999999Ei", "12 parsecs", "1GiB", "five"])
    def test_a_quantity_that_cannot_be(self, refused: Refused, memory: str) -> None:
        assert memory in refused(workload=workload_text(working(memory=memory)))

    @pytest.mark.parametrize("cpu", ["-1", "1e30", "2x"])
    def test_a_request_that_cannot_be(self, refused: Refused, cpu: str) -> None:
        assert cpu in refused(workload=workload_text(task(requests={"cpu": cpu})))

    def test_no_tasks(self, refused: Refused) -> None:
        assert "task" in refused(workload=workload_text())

    def test_no_workflows(self, refused: Refused) -> None:
        text = json.dumps({"apiVersion": "stowplan/v1", "kind": "Workload", "metadata": {"name": "w"},
                           "spec": {"workflows": []}})  # fmt: skip
        assert "workflow" in refused(workload=text)

    @pytest.mark.parametrize("content", ["", "   \n", "# nothing\n"])
    def test_empty_file(self, refused: Refused, content: str) -> None:
        assert "workload.yaml" in refused(workload=content)

    def test_unknown_key_offers_the_nearest(self, refused: Refused) -> None:
        assert "affter" in refused(workload=workload_text({**task(), "affter": []}))

    def test_wrong_version(self, refused: Refused) -> None:
        assert "stowplan/v2" in refused(workload=workload_text(task(), version="stowplan/v2"))

    def test_truncated_gzip(self, refused: Refused) -> None:
        whole = gzip.compress(workload_text(task()).encode())
        assert "truncated" in refused(workload=whole[: len(whole) // 2])

    def test_damaged_gzip(self, refused: Refused) -> None:
        whole = bytearray(gzip.compress(workload_text(task()).encode()))
        whole[20] ^= 0xFF
        assert "damaged" in refused(workload=bytes(whole))

    def test_truncated_json(self, refused: Refused) -> None:
        text = workload_text(task())
        assert "workload.yaml" in refused(workload=text[: len(text) // 2])

    def test_truncated_wfformat(self, refused: Refused) -> None:
        text = '{"name": "x", "schemaVersion": "1.5", "workflow": {"specification": {"tasks": ['
        assert "complete" in refused(workload=text)

    def test_broken_yaml_gives_the_line(self, refused: Refused) -> None:
        text = "apiVersion: stowplan/v1\nkind: Workload\nspec:\n  workflows: [\n    }\n"
        assert "workload.yaml:5" in refused(workload=text)

    def test_not_text(self, refused: Refused) -> None:
        assert "workload.yaml" in refused(workload=b"\x00\xff\xfe binary")

    def test_unknown_format(self, refused: Refused) -> None:
        assert "known" in refused(workload="just some words\n")

    def test_a_cluster_in_place_of_a_workload(self, refused: Refused) -> None:
        assert "--cluster" in refused(workload=cluster_text())

    def test_missing_file(self, refused: Refused, tmp_path: Path) -> None:
        assert "no such file" in refused(workload_path=tmp_path / "nowhere.json")

    def test_folder_without_supported_files(self, refused: Refused, tmp_path: Path) -> None:
        (tmp_path / "folder").mkdir()
        assert "folder" in refused(workload_path=tmp_path / "folder")
        (tmp_path / "folder" / "README.md").write_text("# words\n")
        assert "folder" in refused(workload_path=tmp_path / "folder")


class TestCluster:
    def test_duplicate_node(self, refused: Refused) -> None:
        complaint = refused(cluster=cluster_text(NODE, NODE))
        assert "box" in complaint
        assert "twice" in complaint

    @pytest.mark.parametrize(
        ("field", "value"),
        [
            ("cores", -4),
            ("memory", "-1Gi"),
            ("memory", "64 gigs"),
            ("dram", "nan"),
            ("count", -1),
            ("cores", 1e12),
        ],
    )
    def test_a_machine_that_cannot_be(self, refused: Refused, field: str, value: float | str) -> None:
        assert field in refused(cluster=cluster_text({**NODE, field: value}))

    def test_no_nodes(self, refused: Refused) -> None:
        text = json.dumps({"apiVersion": "stowplan/v1", "kind": "Cluster", "metadata": {"name": "c"},
                           "spec": {"nodes": []}})  # fmt: skip
        assert "node" in refused(cluster=text)

    def test_wrong_version(self, refused: Refused) -> None:
        assert "stowplan/v9" in refused(cluster=cluster_text(version="stowplan/v9"))

    def test_a_workload_in_place_of_a_cluster(self, refused: Refused) -> None:
        assert "--workload" in refused(cluster=workload_text(task()))

    def test_missing_file(self, refused: Refused, tmp_path: Path) -> None:
        assert "no such file" in refused(cluster_path=tmp_path / "nowhere.yaml")

    def test_a_folder(self, refused: Refused, tmp_path: Path) -> None:
        assert "folder" in refused(cluster_path=tmp_path)


class TestOptions:
    def test_unknown_policy_offers_the_nearest(self, refused: Refused) -> None:
        assert "did you mean 'kube-scheduler'?" in refused(policy="kube-schedular")
        assert "did you mean 'kube-scheduler'?" in refused(policy="kube")

    def test_policy_given_twice(self, refused: Refused) -> None:
        assert "twice" in refused("-p", "kube-scheduler")

    def test_unknown_baseline(self, refused: Refused) -> None:
        assert "did you mean 'srpt'?" in refused("--baseline", "srptt")

    @pytest.mark.parametrize("seeds", ["0", "-3"])
    def test_seeds(self, refused: Refused, seeds: str) -> None:
        assert f"--seeds is {seeds}" in refused("--seeds", seeds)

    @pytest.mark.parametrize("copies", ["0", "-1"])
    def test_copies(self, refused: Refused, copies: str) -> None:
        assert copies in refused("--copies", copies)

    def test_processes(self, refused: Refused) -> None:
        assert "processes" in refused("--processes", "0")

    @pytest.mark.parametrize(
        "how", ["sometimes", "poisson", "poisson:-3", "poisson:nan", "burst:1:2", "replay:0"]
    )
    def test_arrivals(self, refused: Refused, how: str) -> None:
        assert "arrivals" in refused("--arrivals", how)

    @pytest.mark.parametrize("option", ["--scheduling-interval", "--binding", "--pod-startup"])
    @pytest.mark.parametrize("seconds", ["-1", "nan", "inf"])
    def test_seconds(self, refused: Refused, option: str, seconds: str) -> None:
        assert option in refused(option, seconds)

    def test_rules(self, refused: Refused, tmp_path: Path) -> None:
        path = tmp_path / "rules.yaml"
        path.write_text("version: 1\nrules:\n  - name: x\n  bad\n")
        assert "rules.yaml:5" in refused("--rules", str(path))
        path.write_text("version: 2\nrules: []\n")
        assert "rules.yaml: rule table: version is 2" in refused("--rules", str(path))
        path.write_text("version: 1\nrules: []\n---\nversion: 1\n")
        assert "2 documents" in refused("--rules", str(path))
        assert "cannot be read" in refused("--rules", str(tmp_path / "none.yaml"))

    def test_faults(self, refused: Refused, tmp_path: Path) -> None:
        path = tmp_path / "faults.yaml"
        path.write_text("faults:\n  - {kind: disk-stal, at_s: [5], duration_s: 3}\n")
        assert "did you mean 'disk-stall'?" in refused("--faults", str(path))
        path.write_text("faults:\n  - {kind: disk-stall, at_s: [5], duration_s: -3}\n")
        assert "duration_s is -3" in refused("--faults", str(path))
        path.write_text("faults:\n  - {kind: disk-stall, at_s: [5], duration_s: 3, nodes: [nobody]}\n")
        assert "'nobody'" in refused("--faults", str(path))


class TestOutput:
    # Root may write anywhere but below what is no folder.
    def test_below_a_regular_file(self, refused: Refused, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        assert "cannot write results to" in refused(out="file/below")

    def test_on_a_regular_file(self, refused: Refused, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        assert "cannot write results to" in refused(out="file")

    def test_where_the_kernel_refuses(self, refused: Refused) -> None:
        if not Path("/proc").is_dir():
            pytest.skip("there is no /proc here, the folder that nobody can write to")
        assert "/proc/stowplan" in refused(out="/proc/stowplan")


def test_a_task_larger_than_every_node_is_told_at_once_and_the_rest_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "cluster.yaml").write_text(cluster_text())
    huge = task("huge", requests={"cpu": "64"})
    (tmp_path / "workload.yaml").write_text(workload_text(task("small"), huge, task("last", after=["small"])))
    code = run(
        ["simulate", "-c", str(tmp_path / "cluster.yaml"), "-w", str(tmp_path / "workload.yaml"),
         "-p", "kube-scheduler", "--out", str(tmp_path / "out"), "--seeds", "1"]
    )  # fmt: skip
    captured = capsys.readouterr()
    assert code == 0
    before_results = captured.err
    assert "1 task fits no node even if it were empty" in before_results
    assert "flow/huge" in before_results
    tasks = pl.read_parquet(tmp_path / "out" / "tasks.parquet")
    status = dict(tasks.select("task", "status").iter_rows())
    assert status == {"small": "done", "last": "done", "huge": "infeasible"}


def test_feasible_names_object_field_and_value(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "pods.yaml"
    path.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: ns}\n"
        "spec: {containers: [{name: c, resources: {requests: {cpu: -1}}}]}\n"
    )
    assert run(["feasible", "-f", str(path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    for part in ("pods.yaml", "ns/p", "cpu", "-1"):
        assert part in error
