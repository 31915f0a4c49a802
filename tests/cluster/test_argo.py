"""Argo Workflows on the real cluster, under plain kube-scheduler: all that one does, and how it fails."""

from pathlib import Path

import pytest
import yaml
from lightkube import Client
from lightkube.resources.core_v1 import Pod

from testbed import argo, kwok
from testbed.cluster import Cluster
from testbed.images import image_name
from testbed.spec import Json
from testbed.waiting import wait_for

WORKFLOWS = Path(__file__).parent / "workflows"


def read(name: str, image: str = "") -> Json:
    """A workflow of the folder, as whoever reads YAML 1.1 gets it."""
    text = (WORKFLOWS / f"{name}.yaml").read_text()
    return yaml.safe_load(text.replace("IMAGE", image_name(image) if image else ""))


def run(client: Client, namespace: str, workflow: Json, within_s: float) -> Json:
    return argo.wait_for_end(client, namespace, argo.submit(client, namespace, workflow), within_s)


def output(node: Json, name: str) -> str:
    """An output parameter of a task."""
    (value,) = (p["value"] for p in node["outputs"]["parameters"] if p["name"] == name)
    return value


def predecessors_end(nodes: dict[str, Json], *names: str) -> str:
    """When the last of these tasks ended; Argo's times compare as texts."""
    return max(nodes[name]["finishedAt"] for name in names)


@pytest.fixture(autouse=True)
def prepared(client: Client, namespace: str) -> None:
    argo.prepare_namespace(client, namespace)


def test_a_workflow_of_everything_succeeds_on_real_nodes(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    done = run(client, namespace, read("everything", "busybox"), within_s=150.0)

    nodes = argo.nodes(done)
    assert argo.phase_of(done) == "Succeeded"
    assert {node["hostNodeName"] for node in argo.pod_nodes(done).values()} <= set(cluster.nodes)
    # The diamond: nobody starts before those that it needs have ended.
    assert nodes["left"]["startedAt"] >= predecessors_end(nodes, "top")
    assert nodes["right"]["startedAt"] >= predecessors_end(nodes, "top")
    assert nodes["bottom"]["startedAt"] >= predecessors_end(nodes, "left", "right")
    # What a task printed and wrote to a file reached the task that asked for it.
    assert output(nodes["top"], "answer") == "42"
    assert output(nodes["bottom"], "heard") == f"42 from {nodes['top']['outputs']['result']}"
    # The fan-out.
    items = [f"items({index}:{item})" for index, item in enumerate("abcdefghij")]
    assert {nodes[name]["phase"] for name in items} == {"Succeeded"}
    assert {name for name in nodes if name.startswith("items(")} == set(items)
    # The task that fails first: one attempt after the other, as many as it took.
    attempts = {name: node["phase"] for name, node in nodes.items() if name.startswith("shaky(")}
    assert attempts == {"shaky(0)": "Failed", "shaky(1)": "Succeeded"}
    assert nodes["shaky(1)"]["startedAt"] >= predecessors_end(nodes, "shaky(0)")
    assert nodes["shaky"]["phase"] == "Succeeded"
    # The exit handler ran last, and knew how it went.
    others = [name for name in argo.pod_nodes(done) if name != "onExit"]
    assert nodes["onExit"]["startedAt"] >= predecessors_end(nodes, *others)
    assert output(nodes["onExit"], "status") == "Succeeded"
    assert len(others) == 4 + 10 + 2


def test_a_workflow_without_outputs_runs_on_fake_nodes(client: Client, namespace: str) -> None:
    done = run(client, namespace, read("fake"), within_s=60.0)

    nodes = argo.nodes(done)
    assert argo.phase_of(done) == "Succeeded"
    assert all(node["hostNodeName"].startswith("kwok-") for node in argo.pod_nodes(done).values())
    lengths_s = {
        pod.metadata.annotations["workflows.argoproj.io/node-name"].removeprefix("fake."): kwok.times(
            pod.metadata.annotations
        ).duration_s
        for pod in client.list(Pod, namespace=namespace)
        if pod.metadata and pod.metadata.annotations
    }
    wanted_s = {f"many({index}:{index + 1})": (index + 1) / 10 for index in range(20)}
    assert {name: lengths_s[name] for name in wanted_s} == pytest.approx(wanted_s, abs=0.5)
    # Argo believes the fake kubelet: it names the reason, and tries again as often as it may.
    attempts = [nodes["killed(0)"], nodes["killed(1)"]]
    assert {(node["phase"], node["message"]) for node in attempts} == {
        ("Failed", "main: OOMKilled (exit code 137)")
    }
    assert nodes["killed"]["phase"] == "Failed"


def test_a_task_without_enough_memory_fails_its_workflow_with_the_reason(
    client: Client, namespace: str
) -> None:
    done = run(client, namespace, read("out-of-memory", "load"), within_s=60.0)

    assert argo.phase_of(done) == "Failed"
    assert done["status"]["message"] == "main: OOMKilled (exit code 137)"


def test_a_workflow_with_a_wrong_type_crashes_the_controller_until_it_is_deleted(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    wrong = read("wrong-type")
    assert wrong["spec"]["templates"][0]["inputs"]["parameters"][0]["name"] is False
    before = argo.restarts(cluster.plane)
    name = argo.submit(client, namespace, wrong)
    try:
        wait_for("the controller crashed twice", lambda: argo.restarts(cluster.plane) > before + 1, 30.0)
    finally:
        client.delete(argo.Workflow, name, namespace=namespace)

    cluster.daemons.check()
    done = run(client, namespace, read("fake"), within_s=60.0)
    assert argo.phase_of(done) == "Succeeded"
