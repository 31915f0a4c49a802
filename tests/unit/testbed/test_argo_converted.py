"""From a recording to an Argo workflow: the same graph, loads in its proportions, and nothing by chance."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from stowplan.errors import InvalidWorkflow
from stowplan.kube.argo import NodeKind, open_object, read_graph
from stowplan.simulate.files import read_text
from stowplan.simulate.workloads.wfinstances import parse_recording
from testbed.argo.converted import ARGUMENTS, CPU_UNITS_PER_S, DISK_BYTES_PER_S, SCRIPT, Scale, convert

Json = dict[str, Any]
MIB = 1 << 20


def recording(*tasks: Json) -> str:
    """A recording of tasks that give `name`, `program`, `parents`, `seconds` and facts of the execution."""
    return json.dumps(
        {
            "name": "recorded",
            "schemaVersion": "1.5",
            "workflow": {
                "specification": {
                    "tasks": [
                        {
                            "name": task.get("program", task["name"]),
                            "id": task["name"],
                            "parents": task.get("parents", []),
                            "children": [],
                        }
                        for task in tasks
                    ],
                    "files": [],
                },
                "execution": {
                    "tasks": [
                        {"id": task["name"], "runtimeInSeconds": task["seconds"], **task.get("facts", {})}
                        for task in tasks
                    ]
                },
            },
        }
    )


def dag(workflow: Json) -> dict[str, Json]:
    """The tasks of the workflow by name."""
    return {task["name"]: task for task in workflow["spec"]["templates"][0]["dag"]["tasks"]}


def amounts(workflow: Json, task: str) -> dict[str, float]:
    """What a task does."""
    given = dag(workflow)[task]["arguments"]["parameters"]
    return {parameter["name"]: float(parameter["value"]) for parameter in given}


ALL_BUSY = {"avgCPU": 100.0, "readBytes": 0.0, "writtenBytes": 0.0, "memoryInBytes": 1 << 30}
LINEAR = Scale(factor=0.1, exponent=1.0, least_s=0.0, most_s=1e9, cores_per_core=0.5, memory_share=1 / 16)


def done_in_ten_seconds(facts: Json) -> dict[str, float]:
    """What a task does that took a hundred seconds, ten here."""
    text = recording({"name": "task", "seconds": 100.0, "facts": facts})
    return amounts(convert(text, "w", LINEAR, "load"), "task")


def test_a_workflow_is_written_as_a_person_would_write_it() -> None:
    text = recording(
        {"name": "cut_1", "program": "cut_1", "seconds": 10.0, "facts": ALL_BUSY},
        {"name": "cut_2", "program": "cut_2", "seconds": 20.0, "facts": ALL_BUSY, "parents": ["cut_1"]},
    )
    assert convert(text, "cutting", LINEAR, "load") == {
        "apiVersion": "argoproj.io/v1alpha1",
        "kind": "Workflow",
        "metadata": {"generateName": "cutting-"},
        "spec": {
            "entrypoint": "main",
            "templates": [
                {
                    "name": "main",
                    "dag": {
                        "tasks": [
                            {
                                "name": "cut-1",
                                "template": "cut",
                                "arguments": {
                                    "parameters": [
                                        {"name": "read-bytes", "value": "0"},
                                        {"name": "cached-bytes", "value": "0"},
                                        {"name": "waited-seconds", "value": "0"},
                                        {"name": "working-set-bytes", "value": str(64 * MIB)},
                                        {"name": "memory-traffic-bytes", "value": "1250000000"},
                                        {"name": "cpu-units", "value": "99"},
                                        {"name": "threads", "value": "1"},
                                        {"name": "written-bytes", "value": "0"},
                                    ]
                                },
                            },
                            {
                                "name": "cut-2",
                                "template": "cut",
                                "dependencies": ["cut-1"],
                                "arguments": {
                                    "parameters": [
                                        {"name": "read-bytes", "value": "0"},
                                        {"name": "cached-bytes", "value": "0"},
                                        {"name": "waited-seconds", "value": "0"},
                                        {"name": "working-set-bytes", "value": str(64 * MIB)},
                                        {"name": "memory-traffic-bytes", "value": "2500000000"},
                                        {"name": "cpu-units", "value": "198"},
                                        {"name": "threads", "value": "1"},
                                        {"name": "written-bytes", "value": "0"},
                                    ]
                                },
                            },
                        ]
                    },
                },
                {
                    "name": "cut",
                    "inputs": {"parameters": [{"name": name} for name in ARGUMENTS]},
                    "container": {
                        "image": "load",
                        "imagePullPolicy": "Never",
                        "command": ["sh", "-c", SCRIPT, "task"],
                        "args": [f"{{{{inputs.parameters.{name}}}}}" for name in ARGUMENTS],
                        "resources": {
                            "requests": {"cpu": "500m", "memory": "80Mi"},
                            "limits": {"cpu": "500m"},
                        },
                    },
                },
            ],
        },
    }


def test_time_without_a_busy_core_is_spent_on_the_disk_where_bytes_tell_so() -> None:
    facts = {"avgCPU": 50.0, "readBytes": 3e6, "writtenBytes": 1e6}
    done = amounts(
        convert(recording({"name": "io", "seconds": 100.0, "facts": facts}), "w", LINEAR, "load"), "io"
    )
    # Half of ten seconds, three quarters of them reading; pages are whole.
    assert done["read-bytes"] == pytest.approx(3.75 * DISK_BYTES_PER_S, abs=4096)
    assert done["written-bytes"] == pytest.approx(1.25 * DISK_BYTES_PER_S, abs=4096)
    assert done["waited-seconds"] == pytest.approx(0.0, abs=0.3)


def test_time_without_a_busy_core_and_without_bytes_is_waited() -> None:
    facts = {"avgCPU": 20.0, "readBytes": 0.0, "writtenBytes": 0.0}
    done = amounts(
        convert(recording({"name": "idle", "seconds": 100.0, "facts": facts}), "w", LINEAR, "load"), "idle"
    )
    assert done["waited-seconds"] == pytest.approx(8.0)
    assert done["cpu-units"] == pytest.approx(0.9 * 10.0 * 0.2 * 0.5 * CPU_UNITS_PER_S, abs=1)
    assert done["read-bytes"] == done["written-bytes"] == 0


def test_bytes_beyond_the_disk_come_from_the_page_cache() -> None:
    facts = {"avgCPU": 100.0, "readBytes": 100e9, "writtenBytes": 0.0}
    done = amounts(
        convert(recording({"name": "big", "seconds": 100.0, "facts": facts}), "w", LINEAR, "load"), "big"
    )
    assert done["cached-bytes"] > 0
    assert done["read-bytes"] == pytest.approx(9.0 * DISK_BYTES_PER_S, abs=4096)


def test_an_exponent_below_one_keeps_the_order_and_the_bounds_hold() -> None:
    scale = Scale(factor=1.0, exponent=0.5, least_s=2.0, most_s=8.0)
    assert [scale.seconds(recorded_s) for recorded_s in (0.0, 1.0, 9.0, 16.0, 1e6)] == [
        2.0,
        2.0,
        3.0,
        4.0,
        8.0,
    ]


def test_names_that_kubernetes_does_not_take_are_made_plain_and_stay_unlike() -> None:
    text = recording(
        {"name": "A.B.Merge_File", "program": "A.B.Merge_File", "seconds": 1.0},
        {"name": "A.C.Merge_File", "program": "A.C.Merge_File", "seconds": 1.0},
        {"name": "1st", "program": "1st", "seconds": 1.0},
    )
    workflow = convert(text, "w", Scale(), "load")
    assert list(dag(workflow)) == ["merge-file", "merge-file-2", "t-1st"]
    assert [template["name"] for template in workflow["spec"]["templates"]] == [
        "main",
        "merge-file",
        "merge-file-2",
        "t-1st",
    ]


def test_a_template_asks_for_what_the_largest_of_its_tasks_needs() -> None:
    text = recording(
        {"name": "p_1", "seconds": 1.0, "facts": {"avgCPU": 80.0, "memoryInBytes": 1 << 30}},
        {"name": "p_2", "seconds": 1.0, "facts": {"avgCPU": 190.0, "memoryInBytes": 4 << 30}},
    )
    (_, template) = convert(text, "w", LINEAR, "load")["spec"]["templates"]
    assert template["container"]["resources"]["requests"] == {"cpu": "1000m", "memory": "320Mi"}


def test_a_recording_that_has_a_cycle_is_refused() -> None:
    text = recording(
        {"name": "a", "seconds": 1.0, "parents": ["b"]}, {"name": "b", "seconds": 1.0, "parents": ["a"]}
    )
    with pytest.raises(InvalidWorkflow, match="cycle"):
        convert(text, "w", Scale(), "load")


def test_our_reader_finds_the_graph_again() -> None:
    text = recording(
        {"name": "a", "seconds": 1.0},
        {"name": "b", "seconds": 1.0, "parents": ["a"]},
        {"name": "c", "seconds": 1.0, "parents": ["a"]},
        {"name": "d", "seconds": 1.0, "parents": ["b", "c"]},
    )
    workflow = convert(text, "diamond", Scale(), "load")
    graph = read_graph(open_object(workflow))
    assert {node.place: [graph.nodes[each].place for each in node.parents] for node in graph.nodes} == {
        ".a": [],
        ".b": [".a"],
        ".c": [".a"],
        ".d": [".b", ".c"],
    }
    assert {node.kind for node in graph.nodes} == {NodeKind.POD}


def test_real_recordings_keep_their_graphs_and_come_out_the_same_every_time(shared_data: Path) -> None:
    for family, instance in (("nfcore", "fetchngs-dirt02-001"), ("srasearch", "srasearch-chameleon-10a-001")):
        text = read_text(shared_data / "wfinstances" / family / f"{instance}.json.gz")
        workflow = convert(text, "w", Scale(), "load")
        assert workflow == convert(text, "w", Scale(), "load")
        recorded, edges, _ = parse_recording(text, "w")
        tasks = dag(workflow)
        order = [task.name for task in recorded]
        names = dict(zip(order, tasks, strict=True))
        assert {
            (parent, child) for child, task in tasks.items() for parent in task.get("dependencies", [])
        } == {(names[parent], names[child]) for parent, child in edges}
        templates = [template["name"] for template in workflow["spec"]["templates"]]
        assert len(templates) == 1 + len({task.template for task in recorded})
        assert all(re.fullmatch("[a-z]([-a-z0-9]*[a-z0-9])?", name) for name in [*tasks, *templates])
