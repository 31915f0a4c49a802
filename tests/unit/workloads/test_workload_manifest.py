"""Our own workload files: what they become, and each unusable value refused with the path of its field."""

from pathlib import Path

import pytest

from stowplan.core.domain import (
    Gang,
    GpuRequest,
    Operator,
    Requirement,
    TaintEffect,
    Toleration,
    TolerationOperator,
    Training,
)
from stowplan.errors import InvalidFile, InvalidInput, InvalidQuantity, InvalidWorkflow
from stowplan.simulate.clusters import load_cluster
from stowplan.simulate.workloads import Poisson, load_workload

HEAD = "apiVersion: stowplan/v1\nkind: Workload\nmetadata: {name: w}\nspec:\n"


def workload_file(folder: Path, spec: str, name: str = "w.yaml") -> Path:
    path = folder / name
    path.write_text(HEAD + spec)
    return path


def task_file(folder: Path, fields: str) -> Path:
    """A file of one workflow: task `a`, and task `b` with the given fields."""
    tasks = f"[{{name: a, work: {{runtime: 1}}}}, {{name: b, {fields}}}]"
    return workload_file(folder, f"  workflows: [{{name: f, tasks: {tasks}}}]\n")


def test_examples_load(repository: Path) -> None:
    workloads = {path.stem: load_workload(path) for path in (repository / "examples" / "workloads").iterdir()}
    assert {name: (len(w), w.task_count) for name, w in workloads.items()} == {
        "burst": (60, 360), "training": (6, 18), "variant-calling": (12, 180),
    }  # fmt: skip


def test_tasks_have_what_is_written(tmp_path: Path) -> None:
    path = workload_file(
        tmp_path,
        """
  arrivals: poisson:60
  workflows:
    - name: f
      family: demo
      at: 1m30s
      copies: 2
      tasks:
        - name: split
          count: 2
          work: {runtime: 10s, cores: 0.5, read: 100M, memory: 100Mi}
        - name: train
          after: [split]
          template: fit
          requests: {cpu: 1500m, memory: 2Gi, example.com/licence: 1}
          limits: {cpu: "2", memory: 3Gi}
          gpu: {count: 1, milli: 250, models: [T4]}
          labels: {app: x}
          nodeSelector: {pool: gpu}
          tolerations: [{key: k, operator: Exists, effect: NoSchedule}]
          priority: 7
          expected: 5m
          input: 1Gi
          work:
            memory: 1Gi
            cache: 2Gi
            machineFactors: {old: 2, new: 0.8}
            phases:
              - {duration: 250ms, cores: 2, dram: 4Gi, latencyShare: 0.4}
              - {duration: 1, cores: 0.1, diskRead: 10Mi, diskWrite: 5Mi, diskQueue: 1Mi, diskRequest: 4096}
              - {duration: 2, netUp: 1Gi, netDown: 2Gi, pcie: 3Gi}
""",
    )
    workload = load_workload(path)
    assert workload.arrivals == Poisson(60.0)
    assert [(s.time_s, s.workflow.name) for s in workload.submissions] == [(90.0, "f-1"), (90.0, "f-2")]
    workflow = workload.submissions[0].workflow
    assert workflow.family == "demo"
    assert [task.name for task in workflow.tasks] == ["split-0", "split-1", "train"]
    assert workflow.edges == (("split-0", "train"), ("split-1", "train"))
    split, _, train = workflow.tasks
    assert dict(split.shape.requests) == {"cpu": 1000, "memory": 128 << 20}  # by rule
    assert split.expected_s == pytest.approx(10.0)
    assert split.template == "split"
    assert dict(train.shape.requests) == {"cpu": 1500, "memory": 2 << 30, "example.com/licence": 1}
    assert (train.work.cpu_limit_cores, train.work.memory_limit_bytes) == (2.0, 3 << 30)
    assert train.shape.gpu == GpuRequest(1, 250, ("T4",))
    assert train.shape.labels == (("app", "x"),)
    assert train.shape.node_selector == (Requirement("pool", Operator.IN, ("gpu",)),)
    assert train.shape.tolerations == (
        Toleration("k", TolerationOperator.EXISTS, "", TaintEffect.NO_SCHEDULE),
    )  # fmt: skip
    assert (train.shape.priority, train.template, train.expected_s, train.input_bytes) == (
        7,
        "fit",
        300.0,
        1 << 30,
    )
    assert train.work.machine_factors == (("new", 0.8), ("old", 2.0))
    assert (train.work.anon_bytes, train.work.cache_bytes) == (1 << 30, 2 << 30)
    compute, disk, net = train.work.phases
    assert (compute.work_s, compute.cpu_cores, compute.dram_bytes_per_s, compute.latency_share) == (
        0.25, 2.0, 4 << 30, 0.4,
    )  # fmt: skip
    assert (disk.disk_read_bytes_per_s, disk.disk_write_bytes_per_s) == (10 << 20, 5 << 20)
    assert (disk.disk_queue_bytes, disk.disk_request_bytes) == (1 << 20, 4096)
    assert (net.nic_up_bytes_per_s, net.nic_down_bytes_per_s, net.pcie_bytes_per_s) == (
        1 << 30,
        2 << 30,
        3 << 30,
    )


def test_a_limit_without_a_request_is_the_request(tmp_path: Path) -> None:
    path = task_file(tmp_path, "limits: {memory: 3Gi}, work: {runtime: 1, memory: 1Gi}")
    task = load_workload(path).submissions[0].workflow.tasks[1]
    assert dict(task.shape.requests) == {"cpu": 1000, "memory": 3 << 30}


def test_workflows_come_from_other_files(tmp_path: Path) -> None:
    inner = workload_file(
        tmp_path, "  workflows: [{name: f, at: 5, tasks: [{name: a, work: {runtime: 1}}]}]\n", "in.yaml"
    )
    outer = workload_file(
        tmp_path,
        f"  workflows: [{{from: {inner.name}, copies: 2, at: 10}}, {{from: {inner.name}, name: g}}]\n",
        "out.yaml",
    )
    workload = load_workload(outer)
    assert [(s.time_s, s.workflow.name) for s in workload.submissions] == [
        (5.0, "g"),
        (15.0, "f-1"),
        (15.0, "f-2"),
    ]


def test_a_circle_of_files_is_refused(tmp_path: Path) -> None:
    workload_file(tmp_path, "  workflows: [{from: b.yaml}]\n", "a.yaml")
    workload_file(tmp_path, "  workflows: [{from: a.yaml}]\n", "b.yaml")
    with pytest.raises(InvalidFile, match="break the circle"):
        load_workload(tmp_path / "a.yaml")


B = r"w\.yaml: spec\.workflows\[0\]\.tasks\[1\]"


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        (
            "work: {runtime: 1}, wrok: 2",
            InvalidFile,
            r"w\.yaml: .*unknown field `wrok`.*tasks\[1\]`; see docs",
        ),
        (
            "work: {runtime: 1, core: 2}",
            InvalidFile,
            r"unknown field `core` - at `\$\.spec\.workflows\[0\]\.tasks\[1\]\.work`",
        ),
        (
            "work: 5",
            InvalidFile,
            r"Expected `object`, got `int` - at `\$\.spec\.workflows\[0\]\.tasks\[1\]\.work`",
        ),
        ("template: x", InvalidFile, r"missing required field `work`"),
        ("work: {}", InvalidFile, B + r"\.work: gives neither runtime nor phases"),
        ("work: {runtime: 1, phases: [{duration: 1}]}", InvalidFile, B + r"\.work: gives phases and runtime"),
        ("work: {phases: []}", InvalidFile, B + r"\.work\.phases: is empty"),
        ("work: {runtime: soon}", InvalidQuantity, B + r"\.work\.runtime: 'soon' is no duration"),
        ("work: {runtime: 5 s}", InvalidQuantity, B + r"\.work\.runtime: '5 s' is no duration"),
        ("work: {runtime: -5}", InvalidQuantity, B + r"\.work\.runtime: -5 is no duration"),
        ("work: {runtime: .nan}", InvalidQuantity, B + r"\.work\.runtime: nan is no duration"),
        ("work: {runtime: .inf}", InvalidQuantity, B + r"\.work\.runtime: inf is no duration"),
        (
            "work: {runtime: 40000d}",
            InvalidQuantity,
            B + r"\.work\.runtime: '40000d' is no duration between 0",
        ),
        ("work: {runtime: 1, memory: 2Gb}", InvalidQuantity, B + r"\.work\.memory: .*unknown suffix 'Gb'"),
        ("work: {runtime: 1, memory: -2Gi}", InvalidQuantity, B + r"\.work\.memory: .*negative"),
        ("work: {runtime: 1, memory: .nan}", InvalidQuantity, B + r"\.work\.memory: .*'nan' is not a number"),
        (
            "work: {runtime: 1, memory: 4Ei}",
            InvalidQuantity,
            B + r"\.work\.memory: '4Ei' is more than any machine has",
        ),
        (
            "work: {runtime: 1, cores: 1e9}",
            InvalidQuantity,
            B + r"\.work\.cores: .*more than any machine has",
        ),
        (
            "work: {phases: [{duration: 1, diskRead: 2Pi}]}",
            InvalidQuantity,
            B + r"\.work\.phases\[0\]\.diskRead: '2Pi' is more",
        ),
        (
            "work: {phases: [{duration: 1, latencyShare: 1.5}]}",
            InvalidFile,
            B + r"\.work\.phases\[0\]\.latencyShare: is 1\.5",
        ),
        ("work: {runtime: 1, cache: 1Gi}", InvalidFile, B + r"\.work\.cache: follows from read and written"),
        (
            "work: {runtime: 1, machineFactors: {old: 0}}",
            InvalidFile,
            B + r"\.work\.machineFactors\.old: is 0",
        ),
        ("work: {runtime: 1}, requests: {mem: 1Gi}", InvalidFile, B + r"\.requests: 'mem' is no resource"),
        (
            "work: {runtime: 1}, requests: {cpu: 2x}",
            InvalidQuantity,
            B + r"\.requests\.cpu: .*unknown suffix 'x'",
        ),
        (
            "work: {runtime: 1}, limits: {cpu: 5e6}",
            InvalidQuantity,
            B + r"\.limits\.cpu: .*more than any machine",
        ),
        ("work: {runtime: 1}, count: 0", InvalidFile, B + r"\.count: is 0; give at least 1"),
        (
            "work: {runtime: 1}, count: 2000000",
            InvalidFile,
            r"spec\.workflows\[0\]\.tasks: are more than 1000000",
        ),
        (
            "work: {runtime: 1}, gpu: {count: 2, milli: 500}",
            InvalidFile,
            B + r"\.gpu: asks for 500 thousandths of 2 GPUs",
        ),
        ("work: {runtime: 1}, gpu: {milli: 0}", InvalidFile, B + r"\.gpu: asks for 0 thousandths"),
        (
            "work: {runtime: 1}, tolerations: [{operator: Maybe}]",
            InvalidFile,
            B + r"\.tolerations\[0\]\.operator: is 'Maybe'",
        ),
        (
            "work: {runtime: 1}, tolerations: [{effect: Never}]",
            InvalidFile,
            B + r"\.tolerations\[0\]\.effect: effect is 'Never'",
        ),
        ("work: {runtime: 1}, expected: -1", InvalidQuantity, B + r"\.expected: -1 is no duration"),
        (
            "work: {runtime: 1}, after: [ghost]",
            InvalidWorkflow,
            B + r"\.after: 'b' comes after the unknown task 'ghost'",
        ),
        (
            "work: {runtime: 1}, after: [b]",
            InvalidWorkflow,
            r"w\.yaml: spec\.workflows\[0\]: .*has the cycle b → b",
        ),
        ("work: {runtime: 1}, after: [a, a]", InvalidWorkflow, r"edge 'a' → 'b' occurs twice"),
    ],
)
def test_an_unusable_task_is_refused(
    tmp_path: Path, fields: str, error: type[InvalidInput], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        load_workload(task_file(tmp_path, fields))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        ("  workflows: []\n", InvalidWorkflow, r"w\.yaml: spec\.workflows is empty"),
        (
            "  workflows: [{name: f, tasks: []}]\n",
            InvalidWorkflow,
            r"spec\.workflows\[0\]: workflow 'f' has no tasks",
        ),
        ("  workflows: [{name: f}]\n", InvalidFile, r"spec\.workflows\[0\]: must give either tasks or from"),
        ("  workflows: [{tasks: [{name: a, work: {runtime: 1}}]}]\n", InvalidFile, r"has tasks but no name"),
        (
            "  workflows: [{name: f, from: no.json}]\n",
            InvalidFile,
            r"workflows\[0\]\.from: .*no\.json: no such file",
        ),
        ("  workflows: [{name: f, copies: 0, from: x}]\n", InvalidFile, r"workflows\[0\]\.copies: is 0"),
        (
            "  arrivals: poisson\n  workflows: []\n",
            InvalidInput,
            r"spec\.arrivals: arrivals 'poisson' are not",
        ),
        ("  workflow: []\n", InvalidFile, r"unknown field `workflow` - at `\$\.spec`"),
        (
            "  workflows: [{name: f, tasks: [" + 2 * "{name: a, work: {runtime: 1}}," + "]}]\n",
            InvalidWorkflow,
            r"tasks\[1\]: task 'a' occurs twice",
        ),
    ],
)
def test_an_unusable_workload_is_refused(
    tmp_path: Path, spec: str, error: type[InvalidInput], message: str
) -> None:
    with pytest.raises(error, match=message):
        load_workload(workload_file(tmp_path, spec))


def test_wrong_version_kind_and_number_of_documents(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(HEAD.replace("stowplan/v1", "stowplan/v9") + "  workflows: []\n")
    with pytest.raises(
        InvalidFile, match=r"apiVersion 'stowplan/v9' is not known; this Stowplan reads stowplan/v1"
    ):
        load_workload(path)
    path.write_text(HEAD.replace("Workload", "Cluster") + "  nodes: [{name: n, cores: 1, memory: 1Gi}]\n")
    with pytest.raises(InvalidFile, match="kind Cluster, not a workload; pass it as --cluster"):
        load_workload(path)
    assert len(load_cluster(path)) == 1
    document = HEAD + "  workflows: [{name: f, tasks: [{name: a, work: {runtime: 1}}]}]\n"
    path.write_text(document + "---\n" + document)
    with pytest.raises(InvalidFile, match="holds 2 documents; put one workload in a file"):
        load_workload(path)


TRAINS = (
    "work: {phases: [{duration: 40s}], training: {steps: 100, compute: 300ms, gradients: 440M, overlap: 2}}"
)


def test_workers_of_a_training_gang(tmp_path: Path) -> None:
    tasks = f"[{{name: w, count: 3, gang: g, {TRAINS}}}, {{name: chief, gang: g, {TRAINS}}}]"
    file = workload_file(tmp_path, f"  workflows: [{{name: f, tasks: {tasks}}}]\n")
    made = load_workload(file).submissions[0].workflow.tasks
    assert [task.name for task in made] == ["w-0", "w-1", "w-2", "chief"]
    assert {task.gang for task in made} == {Gang("g", 4)}
    assert made[0].work.training == Training(steps=100, compute_s=0.3, gradient_bytes=440e6, overlap=2.0)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (TRAINS, "'b' trains but is of no gang"),
        (
            "gang: g, work: {runtime: 1, training: {steps: 1, compute: 1s, gradients: 1}}",
            "training: goes with",
        ),
        (f"gang: g, {TRAINS.replace('steps: 100', 'steps: 0')}", "steps"),
        (f"gang: g, {TRAINS.replace('overlap: 2', 'overlap: 0.5')}", "overlap is 0.5"),
    ],
)
def test_training_that_cannot_be_is_refused(tmp_path: Path, fields: str, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        load_workload(task_file(tmp_path, fields))
