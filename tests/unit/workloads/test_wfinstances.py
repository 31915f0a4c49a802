"""WfFormat: what a small instance becomes, what is imputed and said, and what is refused."""

import copy
import json
from typing import Any

import pytest

from stowplan.errors import InvalidFile, InvalidWorkflow
from stowplan.simulate.workloads.wfinstances import parse

GIB = 1 << 30
INSTANCE: dict[str, Any] = {
    "name": "one-of-many",
    "schemaVersion": "1.5",
    "workflow": {
        "specification": {
            "tasks": [
                {"name": "split_ID01", "id": "split_ID01", "parents": [], "children": ["map_ID02"],
                 "inputFiles": ["in"], "outputFiles": ["mid"]},
                {"name": "map_ID02", "id": "map_ID02", "parents": ["split_ID01"], "children": [],
                 "inputFiles": ["mid"], "outputFiles": ["out"]},
            ],
            "files": [
                {"id": "in", "sizeInBytes": 4 * GIB},
                {"id": "mid", "sizeInBytes": 2 * GIB},
                {"id": "out", "sizeInBytes": 0},
            ],
        },
        "execution": {
            "makespanInSeconds": 200,
            "tasks": [
                {"id": "split_ID01", "runtimeInSeconds": 100.0, "avgCPU": 50.0, "memoryInBytes": GIB,
                 "readBytes": 3 * GIB, "writtenBytes": GIB},
                {"id": "map_ID02", "runtimeInSeconds": 60.0, "avgCPU": 180.0},
            ],
        },
    },
}  # fmt: skip


def changed(*path: str | int, to: object) -> str:
    """The instance as text, with the value at `path` replaced; `...` removes it."""
    document = copy.deepcopy(INSTANCE)
    place: Any = document
    for key in path[:-1]:
        place = place[key]
    if to is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = to
    return json.dumps(document)


def test_tasks_edges_and_physics() -> None:
    workload = parse(json.dumps(INSTANCE), "data/run-small-001.json.gz")
    (submission,) = workload.submissions
    workflow = submission.workflow
    assert (workload.name, workflow.name, workflow.family, submission.time_s) == (
        "run-small-001", "run-small-001", "run", 0.0,
    )  # fmt: skip
    assert workflow.edges == (("split_ID01", "map_ID02"),)
    split, map_ = workflow.tasks
    assert [task.template for task in workflow.tasks] == ["split", "map"]
    assert split.work.alone_s == pytest.approx(100.0)
    assert dict(split.shape.requests) == {
        "cpu": 1000,
        "memory": 1280 << 20,
    }  # 1 GiB and 20 %, in steps of 64 MiB
    assert split.work.anon_bytes == GIB
    assert map_.shape.requests["cpu"] == 2000
    assert map_.work.anon_bytes == (256 << 20) + GIB / 2  # imputed from an input of 2 GiB
    assert (split.input_bytes, split.output_bytes) == (4 * GIB, 2 * GIB)


def test_bytes_come_from_counters_and_else_from_files() -> None:
    split, map_ = parse(json.dumps(INSTANCE), "f").submissions[0].workflow.tasks
    read, _, write = split.work.phases
    assert read.work_s * read.disk_read_bytes_per_s == pytest.approx(3 * GIB)
    assert write.work_s * write.disk_write_bytes_per_s == pytest.approx(GIB)
    assert map_.work.phases[0].work_s * map_.work.phases[0].disk_read_bytes_per_s == pytest.approx(2 * GIB)


def test_notes_say_for_how_many_tasks_what_was_imputed() -> None:
    notes = parse(json.dumps(INSTANCE), "f").notes
    assert "imputed: bytes read and written (sizes of its files) for 1 of 2 tasks" in notes
    assert any(note.startswith("imputed: peak memory") and "1 of 2" in note for note in notes)
    assert any(note.startswith("requests by rule") for note in notes)
    assert any("DRAM" in note for note in notes)


def test_short_runs_last_a_millisecond_and_are_counted() -> None:
    workload = parse(changed("workflow", "execution", "tasks", 1, "runtimeInSeconds", to=0), "f")
    assert workload.submissions[0].workflow.tasks[1].work.alone_s == pytest.approx(0.001)
    assert any("1 ms" in note for note in workload.notes)


def test_a_missing_file_size_is_counted() -> None:
    workload = parse(changed("workflow", "specification", "files", to=[]), "f")
    assert any("a file of size 0" in note and "4 of 2" in note for note in workload.notes)


def test_core_count_is_the_request() -> None:
    workload = parse(changed("workflow", "execution", "tasks", 1, "coreCount", to=4), "f")
    assert workload.submissions[0].workflow.tasks[1].shape.requests["cpu"] == 4000


SPEC = ("workflow", "specification", "tasks")
EXEC = ("workflow", "execution", "tasks")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            changed("schemaVersion", to="1.4"),
            r"f: is WfFormat 1\.4, only 1\.5 is read .*convert it with wfcommons",
        ),
        (changed("schemaVersion", to=...), r"f: is WfFormat None, only 1\.5"),
        ("[]", r"f: is WfFormat None"),
        (changed("workflow", "execution", to=...), r"missing required field `execution` - at `\$\.workflow`"),
        (
            changed(*EXEC, 0, "runtimeInSeconds", to="long"),
            r"Expected `float`, got `str` - at `\$\.workflow\.execution",
        ),
        (changed(*EXEC, 0, "runtimeInSeconds", to=-1.0), r"f: task 'split_ID01': runtime_s is -1\.0"),
        (changed(*EXEC, 0, "avgCPU", to=-3.0), r"f: task 'split_ID01': mean_cores is -0\.03"),
        (changed(*EXEC, 0, "avgCPU", to=1e9), r"f: task 'split_ID01': .*beyond any machine; check its units"),
        (changed(*EXEC, 0, "memoryInBytes", to=1e30), r"f: task 'split_ID01': .*beyond any machine"),
        (
            changed("workflow", "specification", "files", 0, "sizeInBytes", to=-5),
            r"file 'in' has a size of -5",
        ),
        (changed(*EXEC, 1, to=INSTANCE["workflow"]["execution"]["tasks"][0]), r"has task 'split_ID01' twice"),
        (changed(*EXEC, 1, to=...), r"task 'map_ID02' has no entry in workflow\.execution"),
        (changed(*SPEC, 1, to=...), r"names task 'map_ID02', which is not in the specification"),
    ],
)
def test_unusable_instances_are_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidFile, match=message):
        parse(text, "f")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (changed(*SPEC, 0, "parents", to=["map_ID02"]), r"has the cycle"),
        (
            changed(*SPEC, 1, "parents", to=["ghost"]),
            r"edge 'ghost' → 'map_ID02' names the unknown task 'ghost'",
        ),
    ],
)
def test_graphs_that_are_no_dag_are_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidWorkflow, match=message):
        parse(text, "f")
