"""The static graph against what Argo's own controller made of the same workflow (recorded, see `record/`).

Every pod that the controller made must be a node of the graph, with the same name, requests and constraints,
after all that the node waits for; and in a run without failures, every node that is certain must have run.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from stowplan.core.domain import PodShape
from stowplan.errors import InvalidWorkflow
from stowplan.kube.argo import (
    ArgoObject,
    Chance,
    ControllerSettings,
    Node,
    NodeKind,
    Shelf,
    TaskGraph,
    TaskPod,
    identify_pod,
    is_argo_object,
    match_pod,
    node_id,
    open_object,
    pod_name,
    read_graph,
)
from stowplan.kube.manifest.cursor import Cursor
from stowplan.kube.manifest.pods import read_pod_shape

Json = dict[str, Any]
CASES = Path(__file__).parent / "cases"
PREFIX = "workflows.argoproj.io/"
NEWER = {"pod-resources.yaml", "resource-claims.yaml", "resource-claims-template-override.yaml"}
"""Examples of fields that the recorded version of the controller does not have yet."""


COMPARED = (
    *("labels", "requests", "node_selector", "node_affinity", "affinity", "anti_affinity", "tolerations"),
    *("preferred_affinity", "scheduler_name", "host_network", "resource_claims"),
)


def recorded(name: str) -> list[Json]:
    return [json.loads(line) for line in (CASES / name).read_text().splitlines()]


def documents(path: Path) -> Iterator[Json]:
    """The documents of a file, numbered as the recording numbered them (the empty ones are not)."""
    for text in path.read_text().split("\n---"):
        if text.strip():
            yield yaml.safe_load(text)


def own_cases() -> tuple[dict[str, Json], Shelf]:
    found = [document for name in ("by_hand", "by_chance") for document in documents(CASES / f"{name}.yaml")]
    return {
        document["metadata"]["name"]: document for document in found if document["kind"] == "Workflow"
    }, Shelf(open_object(document) for document in found)


def created(raw: Json, name: str) -> ArgoObject:
    """The workflow once it has been created under that name."""
    return open_object(
        {**raw, "metadata": {**raw["metadata"], "name": name, "namespace": "default", "uid": "0"}}
    )


def settings_of(raw: Json) -> ControllerSettings:
    cpu = raw["metadata"].get("annotations", {}).get("test/executor-cpu")
    return ControllerSettings(executor_resources={"requests": {"cpu": cpu}} if cpu else {})


def containers(items: list[list[Any]]) -> list[Json]:
    return [
        {"name": name, "resources": {"requests": requests, "limits": limits}}
        for name, requests, limits in items
    ]


def real_shape(node: str, pod: Json, run: str) -> PodShape:
    """The shape of a pod that the controller made."""
    spec = {key: value for key, value in pod["spec"].items() if key != "claims"}
    spec["containers"], spec["initContainers"] = (
        containers(spec["containers"]),
        containers(spec["initContainers"]),
    )
    spec["volumes"] = [
        {"name": f"v{number}", "persistentVolumeClaim": {"claimName": claim}}
        for number, claim in enumerate(pod["spec"].get("claims", []))
    ]
    labels = {f"{PREFIX}workflow": run, f"{PREFIX}completed": "false", **pod.get("labels", {})}
    if pod.get("on-exit"):
        labels[f"{PREFIX}on-exit"] = "true"
    raw = {"metadata": {"labels": labels}, "spec": spec}
    return read_pod_shape("default", pod["name"], Cursor(raw, node))


def assert_same_pod(node: Node, name: str, pod: Json, run: str) -> None:
    plan = node.pod
    assert plan is not None, name
    assert list(plan.containers) == [
        item[0] for key in ("initContainers", "containers") for item in pod["spec"][key]
    ]
    if plan.unknown:
        return
    real = real_shape(name, pod, run)
    assert plan.priority_class == pod["spec"].get("priorityClassName", "")
    for field in COMPARED:
        assert getattr(plan.shape, field) == getattr(real, field), (name, field)
    assert sorted(volume.claim or "" for volume in plan.shape.volumes) == sorted(
        volume.claim or "" for volume in real.volumes
    )


def before(graph: TaskGraph, node: Node) -> Iterator[Node]:
    """The pods that a node waits for to end; daemons are only waited for until they are up."""
    for parent in (graph.nodes[index] for index in node.parents):
        if parent.kind is NodeKind.POD and parent.chance <= Chance.CONDITIONAL:
            if not parent.daemon and parent.fanout is None and parent.retry is None:
                yield parent
        else:
            yield from before(graph, parent)


def assert_same_run(graph: TaskGraph, run: Json, *, fails: bool) -> None:
    rounds: dict[int, int] = {}
    for name, pod in run["pods"].items():
        if name == "#agent":
            assert graph.agent is not None
            continue
        metadata = {
            "name": pod["name"],
            "namespace": "default",
            "labels": {f"{PREFIX}workflow": run["name"]},
            "annotations": {f"{PREFIX}node-name": name, f"{PREFIX}node-id": node_id(run["name"], name)},
        }
        identified = identify_pod({"metadata": metadata})
        assert isinstance(identified, TaskPod)
        assert pod["name"] == pod_name(run["name"], name, identified.template_hint)
        match = match_pod(graph, identified)
        assert match is not None, name
        if match.is_within:
            continue
        assert (
            match.node.template.rpartition("/")[2] == identified.template_hint
            or not identified.template_hint
            or (
                match.node.place == match.node.template  # inline
            )
        )
        assert match.node.chance is not Chance.NEVER, name
        assert_same_pod(match.node, name, pod, run["name"])
        rounds[match.node.index] = min(rounds.get(match.node.index, 999), pod["round"])
    for index, round_ in rounds.items():
        for earlier in before(graph, graph.nodes[index]):
            assert rounds.get(earlier.index, -1) < round_, (earlier.place, graph.nodes[index].place)
    if run["phase"] == "Succeeded" and not fails:
        for node in graph.nodes:
            if node.kind is NodeKind.POD and node.chance is Chance.CERTAIN:
                assert node.index in rounds, node.place
            if node.index in rounds:
                assert node.chance <= Chance.CONDITIONAL, node.place


OWN, LIBRARY = own_cases()


@pytest.mark.parametrize("run", recorded("recorded.jsonl"), ids=lambda run: run["name"])
def test_own_workflows_run_as_planned(run: Json) -> None:
    raw = OWN[run["name"]]
    graph = read_graph(created(raw, run["name"]), LIBRARY, settings_of(raw))
    assert_same_run(graph, run, fails="test/fail" in raw["metadata"].get("annotations", {}))


def test_all_own_workflows_were_recorded() -> None:
    runs = recorded("recorded.jsonl")
    assert {run["name"] for run in runs} == set(OWN)
    assert sum(len(run["pods"]) for run in runs) > 400


def test_the_shared_examples_run_as_planned(shared_data: Path) -> None:
    folder = shared_data / "argo-examples"
    objects = {
        (str(path.relative_to(folder)), number): document
        for path in sorted(folder.rglob("*.yaml"))
        for number, document in enumerate(documents(path))
        if is_argo_object(document)
    }
    shelf = Shelf(open_object(document) for document in objects.values())
    compared = 0
    for run in recorded("examples.jsonl"):
        raw = objects[run["file"], run["index"]]
        if raw["kind"] != "Workflow" or run["file"] in NEWER:
            continue
        try:
            graph = read_graph(created(raw, run["name"]), shelf)
        except InvalidWorkflow:
            assert not run["pods"]
            continue
        assert_same_run(graph, run, fails=False)
        compared += len(run["pods"])
    assert compared > 300
