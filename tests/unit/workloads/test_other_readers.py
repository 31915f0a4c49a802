"""TPC-H, openb and Lotaru: what small files become, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from stowplan.core.domain import GpuRequest
from stowplan.errors import InvalidFile, InvalidInput, InvalidQuantity, InvalidWorkflow, UnknownName
from stowplan.simulate.laws import parse_runs
from stowplan.simulate.workloads import load_workload, openb, tpch, tpch_batch
from stowplan.simulate.workloads.lotaru import workload_of

BATCH: dict[str, Any] = {
    "capacity": 10,
    "task_fields": ["duration_ms", "executors"],
    "edge": "[parent, child]",
    "instances": [
        {"jobs": ["2g/1", "5g/2"], "tasks": [[100.0, 2], [250.0, 3], [50.0, 10]], "edges": [[0, 1]]},
        {"jobs": ["2g/3"], "tasks": [[1000.0, 1]], "edges": []},
    ],
}


def test_a_batch_is_its_instances_and_an_instance_its_jobs() -> None:
    first, second = tpch_batch.parse(json.dumps(BATCH), "x/small.json.gz")
    assert (first.name, second.name) == ("small-0", "small-1")
    one, other = (submission.workflow for submission in first.submissions)
    assert (one.name, one.family, one.edges) == ("000-2g/1", "2g/1", (("0", "1"),))
    assert [task.name for task in other.tasks] == ["2"]
    task = one.tasks[1]
    assert (task.expected_s, task.shape.requests["cpu"], task.work.phases[0].cpu_cores) == (0.25, 3000, 3.0)
    assert tpch_batch.capacity_cores(json.dumps(BATCH), "f") == 10


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"task_fields": ["executors", "duration_ms"]}, InvalidFile, r"f: task_fields are .*only"),
        ({"capacity": 0}, InvalidFile, r"f: capacity is 0"),
        ({"instances": []}, InvalidFile, r"f: has no instances"),
        ({"extra": 1}, InvalidFile, r"is not a TPC-H batch: .*unknown field `extra`"),
        ({"capacity": "many"}, InvalidFile, r"is not a TPC-H batch: Expected `int`"),
    ],
)
def test_an_unusable_batch_is_refused(
    change: dict[str, Any], error: type[InvalidInput], message: str
) -> None:
    with pytest.raises(error, match=message):
        tpch_batch.parse(json.dumps({**BATCH, **change}), "f")


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"edges": [[0, 7]]}, InvalidWorkflow, r"f, instance 0: edge \[0, 7\] names a task outside 0 … 2"),
        ({"edges": []}, InvalidWorkflow, r"2 jobs are named but the graph has 3 connected parts"),
        ({"edges": [[0, 1], [1, 0]]}, InvalidWorkflow, r"has the cycle"),
        ({"tasks": [[100.0, 0], [1.0, 1], [1.0, 1]]}, InvalidFile, r"task 0 asks for 0 executors"),
        ({"tasks": [[-100.0, 1], [1.0, 1], [1.0, 1]]}, InvalidFile, r"task 0: phase: work_s is -0\.1"),
        ({"tasks": [[100.0, 1, 1]]}, InvalidFile, r"is not a TPC-H batch: Expected `array` of length 2"),
    ],
)
def test_an_unusable_instance_is_refused(
    change: dict[str, Any], error: type[InvalidInput], message: str
) -> None:
    instance = {**BATCH["instances"][0], **change}
    with pytest.raises(error, match=message):
        tpch_batch.parse(json.dumps({**BATCH, "instances": [instance]}), "f")


def test_an_instance_is_named_by_its_number(tmp_path: Path) -> None:
    path = tmp_path / "batch.json"
    path.write_text(json.dumps(BATCH))
    assert [load_workload(path).name, load_workload(path, instance=1).name] == ["batch-0", "batch-1"]
    second = load_workload(f"{path}#1")
    assert second.name == "batch-1"
    assert second.notes[0].startswith("instance 1 of 2 in ")
    with pytest.raises(InvalidInput, match="has no instance 2; it has 2, counted from 0"):
        load_workload(f"{path}#2")
    odd = tmp_path / "batch.json#1"  # a file of that very name comes first
    odd.write_text(json.dumps({**BATCH, "instances": BATCH["instances"][1:]}))
    assert load_workload(odd).task_count == 1


def stage(first: dict[str, list[float]], rest: dict[str, list[float]]) -> dict[str, Any]:
    return {"first_wave": first, "rest_wave": rest, "fresh_durations": first}


STAGES: dict[str, Any] = {
    "2g": {
        "7": {
            "adjacency": [[0.0, 1.0], [0.0, 0.0]],
            "stage_to_node": {"0": 0, "1": 1},
            "task_durations": {
                # Five tasks: two executors take three waves, five take one.
                "0": stage({"2": [1000.0, 2000.0], "5": [4000.0] * 5}, {"2": [500.0, 700.0, 600.0], "5": []}),
                "1": stage({"2": [100.0], "5": [100.0]}, {"2": [], "5": []}),
            },
        }
    }
}


@pytest.mark.parametrize(
    ("executors", "cores", "seconds"), [(1, 1, 3.9), (2, 2, 2.7), (5, 5, 4.0), (50, 5, 4.0)]
)
def test_a_stage_takes_its_waves(executors: int, cores: int, seconds: float) -> None:
    workload = tpch.parse(json.dumps(STAGES), "f", executors=executors)
    (submission,) = workload.submissions
    assert (submission.workflow.name, submission.workflow.edges) == ("tpch-2g-q7", (("stage-0", "stage-1"),))
    gang, last = submission.workflow.tasks
    assert gang.shape.requests["cpu"] == 1000 * cores
    assert gang.expected_s == pytest.approx(seconds)
    assert (last.shape.requests["cpu"], last.expected_s) == (1000, 0.1)


def test_unusable_stages_are_refused() -> None:
    with pytest.raises(InvalidInput, match="0 executors; ask for at least 1"):
        tpch.parse(json.dumps(STAGES), "f", executors=0)

    def changed(**change: object) -> str:
        return json.dumps({"2g": {"7": {**STAGES["2g"]["7"], **change}}})

    durations = STAGES["2g"]["7"]["task_durations"]
    with pytest.raises(InvalidFile, match="tpch-2g-q7 has 2 stages but durations of 1"):
        tpch.parse(changed(task_durations={"0": durations["0"]}), "f")
    with pytest.raises(InvalidFile, match="stage 1: has no measured task"):
        tpch.parse(changed(task_durations={**durations, "1": stage({"2": []}, {})}), "f")
    with pytest.raises(InvalidFile, match="an adjacency row of 1 for 2 stages"):
        tpch.parse(changed(adjacency=[[1.0], [0.0, 0.0]]), "f")
    with pytest.raises(InvalidFile, match="stage 0: phase: work_s is -1"):
        tpch.parse(changed(task_durations={**durations, "0": stage({"2": [-1000.0]}, {})}), "f")
    with pytest.raises(InvalidWorkflow, match="cycle"):
        tpch.parse(changed(adjacency=[[0.0, 1.0], [1.0, 0.0]]), "f")


PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,"
    "scheduled_time\n"
)


def test_pods() -> None:
    rows = (
        "a,4000,1024,1,500,,LS,Running,10,100,20",
        "b,2000,512,0,0,,BE,Pending,30,70,",
        "c,1,1,2,1000,T4|P100,LS,X,5,9,6",
    )
    text = PODS + "\n".join(rows) + "\n"
    workload = openb.parse_pods(text, "x/pods.csv.gz")
    assert [(s.workflow.name, s.time_s) for s in workload.submissions] == [
        ("c", 5.0),
        ("a", 10.0),
        ("b", 30.0),
    ]
    gang, shared, pending = (submission.workflow.tasks[0] for submission in workload.submissions)
    assert gang.shape.gpu == GpuRequest(2, 1000, ("T4", "P100"))
    assert shared.shape.gpu == GpuRequest(1, 500)
    assert (shared.expected_s, shared.template) == (80.0, "LS")
    assert dict(shared.shape.requests) == {"cpu": 4000, "memory": 1 << 30}
    assert (pending.shape.gpu, pending.expected_s) == (None, 40.0)
    assert workload.notes == (
        "1 pods were never scheduled: their run time is their life from creation to deletion",
    )


def test_pods_without_times_stay() -> None:
    workload = openb.parse_pods("name,cpu_milli,memory_mib,num_gpu,gpu_milli\na,1,1,1,1000\n", "f")
    assert workload.submissions[0].workflow.tasks[0].expected_s == openb.STAYS_S


@pytest.mark.parametrize(
    ("row", "error", "message"),
    [
        (
            "a,4000,1,1,0,,LS,R,0,5,1",
            InvalidFile,
            r"line 2: pod 'a' asks for 0 thousandths of each of 1 GPUs",
        ),
        ("a,4000,1,2,500,,LS,R,0,5,1", InvalidFile, r"500 thousandths of each of 2 GPUs"),
        ("a,4000,1,1,1001,,LS,R,0,5,1", InvalidFile, r"1001 thousandths"),
        ("a,4000,1,0,0,,LS,R,0,5,9", InvalidFile, r"pod 'a' is deleted at 5, before it began at 9"),
        ("a,4000,1,0,0,,LS,R,0,,9", InvalidFile, r"deletion_time is ''; it must be a whole number"),
        ("a,4.5,1,0,0,,LS,R,0,5,1", InvalidFile, r"cpu_milli is '4\.5'"),
        ("a,-4,1,0,0,,LS,R,0,5,1", InvalidQuantity, r"cpu_milli is -4; it must lie between 0"),
        ("a,4,9999999999999,0,0,,LS,R,0,5,1", InvalidQuantity, r"memory_mib is 9999999999999"),
    ],
)
def test_an_unusable_pod_is_refused(row: str, error: type[InvalidInput], message: str) -> None:
    with pytest.raises(error, match=message):
        openb.parse_pods(PODS + row + "\n", "f")


def test_nodes() -> None:
    text = "sn,cpu_milli,memory_mib,gpu,model\nn1,96000,1024,8,P100\nn2,32000,2048,0,\n"
    box, plain = openb.parse_nodes(text, "f")
    assert dict(box.allocatable) == {"cpu": 96000, "memory": 1 << 30, "pods": 110}
    assert [(gpu.model, gpu.root_complex) for gpu in box.hardware.gpus] == [("P100", "root-0")] * 4 + [
        ("P100", "root-1")
    ] * 4
    assert (plain.hardware.gpus, plain.hardware.cores) == ((), 32.0)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("n,1,1,0,\nn,1,1,0,\n", r"f: line 3: node 'n' occurs twice"),
        ("n,1,1,2,\n", r"f: line 2: node 'n' has 2 GPUs of no model"),
        ("n,one,1,0,\n", r"f: line 2: cpu_milli is 'one'"),
    ],
)
def test_an_unusable_node_is_refused(rows: str, message: str) -> None:
    with pytest.raises(InvalidFile, match=message):
        openb.parse_nodes("sn,cpu_milli,memory_mib,gpu,model\n" + rows, "f")


LOTARU = (
    "Label,Machine,Workflow,NumberSequences,Task,Realtime,%cpu,cpus,memory,peak_rss,read_bytes,write_bytes,"
    "TaskInputSize\n"
)


def test_lotaru_tasks_are_independent_and_know_other_machines() -> None:
    text = LOTARU + "test,local,wf,1,align,4000,150,2,1073741824,500000000,10,20,30\n"
    text += "train,local,wf,1,align,2000,150,2,1073741824,500000000,10,20,30\n"
    text += "test,old,wf,1,align,6000,150,2,1073741824,500000000,10,20,30\n"
    workload = workload_of(parse_runs(text, "f"), "lotaru", "folder")
    assert [s.workflow.name for s in workload.submissions] == ["wf-test", "wf-train"]
    (task,) = workload.submissions[0].workflow.tasks
    assert dict(task.shape.requests) == {"cpu": 2000, "memory": 1 << 30}
    assert task.work.machine_factors == (("old", 1.5),)
    assert task.work.alone_on_s("old") == pytest.approx(6.0)


def test_one_file_is_its_own_reference_and_several_need_it() -> None:
    row = "test,{},wf,1,align,4000,150,2,1073741824,500000000,10,20,30\n"
    alone = workload_of(parse_runs(LOTARU + row.format("old"), "f"), "x", "f")
    assert alone.submissions[0].workflow.tasks[0].work.machine_factors == ()
    with pytest.raises(UnknownName, match="reference machine 'local'"):
        workload_of(parse_runs(LOTARU + row.format("old") + row.format("new"), "f"), "x", "f")


def test_unusable_lotaru_numbers_are_refused() -> None:
    with pytest.raises(InvalidFile, match="f: line 2: Realtime is '-1'"):
        parse_runs(LOTARU + "test,local,wf,1,align,-1,150,2,1,5,10,20,30\n", "f")
