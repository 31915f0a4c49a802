"""Room made on a real node: one pod is ended for another, and one that a budget protects is not."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from lightkube import Client
from lightkube.codecs import from_dict
from lightkube.resources.policy_v1 import PodDisruptionBudget
from lightkube.resources.scheduling_v1 import PriorityClass

from stowplan.kube.api.access import from_kubeconfig
from stowplan.kube.live.pod import LivePod
from testbed import pods
from testbed.cluster import Cluster
from testbed.waiting import wait_for
from tests.cluster.live_scheduler import Live, scheduling

Json = dict[str, Any]

NODE = "node-1"  # of one CPU
VALUES = {"urgent": 1000, "usual": 5, "least": 1}
GRACE_S = 3  # `sleep` takes no notice of SIGTERM, so a victim lives on for so long


@pytest.fixture
def classes(client: Client, namespace: str) -> Iterator[dict[str, str]]:
    """Priority classes, named after the test's namespace."""
    names = {name: f"{namespace[-40:].strip('-')}-{name}" for name in VALUES}
    for name, value in VALUES.items():
        made = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": value}
        client.create(from_dict({**made, "metadata": {"name": names[name]}}))
    yield names
    for name in names.values():
        client.delete(PriorityClass, name)


def on_node(namespace: str, name: str, cpu: str, priority_class: str) -> Json:
    made = pods.pod(
        namespace,
        name,
        limits={"cpu": cpu, "memory": "32Mi"},
        schedulerName="stowplan",
        priorityClassName=priority_class,
        nodeSelector={"kubernetes.io/hostname": NODE},
        terminationGracePeriodSeconds=GRACE_S,
    )
    made["metadata"]["labels"] = {"app": name}
    return made


def protect(client: Client, namespace: str, app: str) -> None:
    """Let nobody disrupt the pod of that label, and wait until the disruption controller has said so."""
    budget: Json = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app, "namespace": namespace},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}},
    }
    client.create(from_dict(budget))

    def is_counted() -> bool:
        status = client.get(PodDisruptionBudget, app, namespace=namespace).status
        return status is not None and status.expectedPods == 1

    wait_for("the disruption controller counts the pod", is_counted, 60.0)


class Watcher:
    """A listener that keeps which pods were nominated, and which were marked and deleted."""

    def __init__(self) -> None:
        self.nominated: dict[str, str] = {}
        self.marked: set[str] = set()
        self.gone: set[str] = set()

    def pod_set(self, before: LivePod | None, now: LivePod) -> None:
        del before
        if now.status.nominated_node:
            self.nominated[now.name] = now.status.nominated_node
        if now.is_preempted:
            self.marked.add(now.name)

    def pod_gone(self, last: LivePod) -> None:
        self.gone.add(last.name)

    def cluster_changed(self, change: object) -> None: ...


def test_a_pod_makes_way_and_one_that_a_budget_protects_stays(
    cluster: Cluster, client: Client, namespace: str, classes: dict[str, str]
) -> None:
    """The protected pod is the less important one: without its budget, it would have to go."""

    def key(name: str) -> str:
        return f"{namespace}/{name}"

    def is_running(live: Live, name: str) -> bool:
        pod = live.feed.pods.get(key(name))
        return pod is not None and pod.phase == "Running" and not pod.is_terminating

    async def story() -> None:
        watcher = Watcher()
        access = from_kubeconfig([cluster.site.kubeconfig])
        async with scheduling(access, namespace, makes_room=True) as live:
            live.feed.listen(watcher)
            await live.create(on_node(namespace, "protected", "400m", classes["least"]))
            await live.create(on_node(namespace, "victim", "400m", classes["usual"]))
            await live.wait(lambda: is_running(live, "protected") and is_running(live, "victim"))
            await asyncio.to_thread(protect, client, namespace, "protected")
            await live.wait(lambda: key("protected") in live.feed.budgets)
            await live.create(on_node(namespace, "waits", "400m", classes["least"]))
            await live.wait(lambda: live.status_of(key("waits")))
            uid = live.feed.pods[key("protected")].uid

            await live.create(on_node(namespace, "urgent", "500m", classes["urgent"]))
            await live.wait(lambda: is_running(live, "urgent"))

            assert live.is_on(key("urgent")) == NODE
            assert watcher.nominated == {"urgent": NODE}
            # A pod that has ended holds nothing any more, and its object goes a moment later.
            await live.wait(lambda: bool(watcher.gone))
            assert watcher.gone == watcher.marked == {"victim"}
            assert is_running(live, "protected")
            assert live.feed.pods[key("protected")].uid == uid
            assert live.is_on(key("waits")) == ""  # the room was not for it
            assert live.metrics.registry.get_sample_value("stowplan_preemption_victims_sum") == 1.0
            assert live.metrics.registry.get_sample_value("stowplan_preemption_pdb_violations_total") == 0.0
            notes: list[str] = []
            async with asyncio.timeout(30.0):
                while not notes:
                    notes = await live.events(namespace, "Preempted")
            assert notes == [f"Preempted by pod {live.feed.pods[key('urgent')].uid} on node {NODE}"]

    asyncio.run(story())
