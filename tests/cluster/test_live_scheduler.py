"""The scheduler's loop on a real API server: real pods bound and run, volumes, gates, a shadow."""

import asyncio
import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest
from lightkube import Client
from lightkube.codecs import from_dict
from lightkube.resources.core_v1 import Node, PersistentVolume, PersistentVolumeClaim
from lightkube.resources.scheduling_v1 import PriorityClass
from lightkube.resources.storage_v1 import StorageClass

from stowplan.kube.api.access import Access, from_kubeconfig
from stowplan.kube.api.resources import PODS
from stowplan.kube.live.pod import LivePod
from stowplan.kube.plan import GATE
from stowplan.serve.scheduler.interface import Mode
from testbed import api, kwok, pods
from testbed.cluster import Cluster
from testbed.kwok import manifests
from testbed.spec import FakeNodes
from tests.cluster.live_scheduler import Live, scheduling

Json = dict[str, Any]

OURS = "stowplan"
FAKE = {"node.kubernetes.io/instance-type": "kwok"}


@pytest.fixture
def access(cluster: Cluster) -> Access:
    return from_kubeconfig([cluster.site.kubeconfig])


def fake_pod(namespace: str, name: str, cpu: str = "100m", **spec: Any) -> Json:  # noqa: ANN401 - manifest fields
    """A pod for fake nodes that runs for ever; of our scheduler unless the fields say otherwise."""
    fields: Json = {"schedulerName": OURS, "restartPolicy": "Always", "nodeSelector": FAKE} | spec
    return pods.pod(namespace, name, limits={"cpu": cpu}, tolerations=[kwok.TOLERATION], **fields)


def is_up(pod: LivePod | None) -> bool:
    return pod is not None and pod.phase == "Running"


# ── binder ──


def test_real_pods_are_bound_explained_and_run(cluster: Cluster, access: Access, namespace: str) -> None:
    names = [f"p{number}" for number in range(4)]

    async def story() -> None:
        async with scheduling(access, namespace) as live:
            for name in names:
                await live.create(pods.pod(namespace, name, schedulerName=OURS, limits={"cpu": "100m"}))
            await live.wait(lambda: all(is_up(live.feed.pods.get(f"{namespace}/{name}")) for name in names))
            assert {live.is_on(f"{namespace}/{name}") for name in names} <= set(cluster.nodes)
            assert live.scheduler.status.under_way == 0
            notes: list[str] = []
            async with asyncio.timeout(30.0):
                while len(notes) < len(names):
                    notes = await live.events(namespace, "Scheduled")
            assert all("srpt chose node-" in note and "Successfully assigned" in note for note in notes)

    asyncio.run(story())


@pytest.fixture
def late_node(client: Client, namespace: str) -> Iterator[Json]:
    """A fake node that is not there yet, with a label of its own."""
    group = FakeNodes(count=1, prefix=f"late-{namespace[-12:]}", labels={"late": namespace})
    (manifest,) = manifests.nodes([group], "127.0.0.1", dt.datetime.now(dt.UTC))
    yield manifest
    name = manifest["metadata"]["name"]
    if api.exists(client, Node, name):
        client.delete(Node, name)


def test_a_pod_that_fits_nowhere_says_so_and_goes_to_the_node_that_is_added(
    client: Client, access: Access, namespace: str, late_node: Json
) -> None:
    async def story() -> None:
        async with scheduling(access, namespace) as live:
            await live.create(fake_pod(namespace, "p", nodeSelector={"late": namespace}))
            key = f"{namespace}/p"
            await live.wait(lambda: live.status_of(key))
            total = len(live.feed.state.nodes) - live.feed.state.nodes.count(None)
            message = live.status_of(key)
            assert message.startswith(f"0/{total} nodes are available: ")
            assert "node(s) didn't match Pod's node affinity/selector" in message
            (condition,) = (await live.pod(namespace, "p"))["status"]["conditions"]
            assert (condition["type"], condition["status"]) == ("PodScheduled", "False")
            assert condition["reason"] == "Unschedulable"
            client.create(from_dict(late_node))
            await live.wait(lambda: live.is_on(key) == late_node["metadata"]["name"])
            assert message in await live.events(namespace, "FailedScheduling")

    asyncio.run(story())


def test_the_pod_of_higher_priority_gets_the_room_that_becomes_free(
    client: Client, access: Access, namespace: str, late_node: Json
) -> None:
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 1000}
    client.create(from_dict({**high, "metadata": {"name": namespace}}))
    client.create(from_dict(late_node))
    there = {"nodeSelector": {"late": namespace}}

    async def story() -> None:
        async with scheduling(access, namespace) as live:
            await live.create(fake_pod(namespace, "holder", "20", **there))
            await live.wait(lambda: live.is_on(f"{namespace}/holder"))
            await live.create(fake_pod(namespace, "low", "20", **there))
            await live.create(fake_pod(namespace, "high", "20", priorityClassName=namespace, **there))
            await live.wait(lambda: live.scheduler.status.queues["unschedulable"] == 2)
            await live.client.delete(PODS, "holder", namespace, grace_s=0)
            await live.wait(lambda: live.is_on(f"{namespace}/high"))
            assert live.is_on(f"{namespace}/low") == ""

    try:
        asyncio.run(story())
    finally:
        client.delete(PriorityClass, namespace)


def test_a_claim_that_waits_for_its_first_consumer_is_bound_before_the_pod(
    client: Client, access: Access, namespace: str, late_node: Json
) -> None:
    client.create(from_dict(late_node))
    node_name = late_node["metadata"]["name"]
    for manifest in storage(namespace, node_name):
        client.create(from_dict(manifest))
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}

    async def story() -> None:
        async with scheduling(access, namespace) as live:
            await live.wait(lambda: (namespace, "data") in live.feed.state.storage.claims)
            await live.create(fake_pod(namespace, "p", volumes=[claim], nodeSelector={"late": namespace}))
            await live.wait(lambda: live.is_on(f"{namespace}/p") == node_name)

    try:
        asyncio.run(story())
        bound = client.get(PersistentVolumeClaim, "data", namespace=namespace)
        assert bound.spec.volumeName == namespace
    finally:
        api.delete_pods(client, namespace)
        client.delete(PersistentVolumeClaim, "data", namespace=namespace)
        client.delete(PersistentVolume, namespace)
        client.delete(StorageClass, namespace)


def storage(namespace: str, node_name: str) -> Iterator[Json]:
    """A class without a provisioner, a volume of it that one node reaches, and a claim."""
    modes = {"accessModes": ["ReadWriteOnce"], "storageClassName": namespace}
    yield {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": namespace},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    term = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node_name]}
    yield {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": namespace},
        "spec": {
            **modes,
            "capacity": {"storage": "1Gi"},
            "local": {"path": "/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}},
        },
    }
    yield {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": namespace},
        "spec": {**modes, "resources": {"requests": {"storage": "1Gi"}}},
    }


# ── gate ──


@pytest.mark.parametrize("placement", ["prefer", "require", "none"])
def test_a_gated_pod_is_let_go_to_kube_scheduler_with_its_node(
    access: Access, namespace: str, placement: str
) -> None:
    async def story() -> None:
        async with scheduling(access, namespace, Mode.GATE, placement=placement) as live:
            gated = [{"name": GATE}]
            await live.create(
                fake_pod(namespace, "p", schedulerName="default-scheduler", schedulingGates=gated)
            )
            key = f"{namespace}/p"
            await live.wait(lambda: live.is_on(key) and not live.scheduler.status.under_way)
            spec = (await live.pod(namespace, "p"))["spec"]
            assert not spec.get("schedulingGates")
            chosen = _chosen(spec, placement)
            if placement != "none":
                assert chosen == [spec["nodeName"]]
            else:
                assert "nodeAffinity" not in spec.get("affinity", {})
            assert live.metrics.registry.get_sample_value("stowplan_bindings_in_flight") == 0

    asyncio.run(story())


def _chosen(spec: Json, placement: str) -> list[str]:
    affinity = spec.get("affinity", {}).get("nodeAffinity", {})
    if placement == "prefer":
        (term,) = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
        return term["preference"]["matchFields"][0]["values"]
    if placement == "require":
        (term,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
        return term["matchFields"][0]["values"]
    return []


# ── shadow ──


def test_a_shadow_binds_nothing_and_compares(access: Access, namespace: str) -> None:
    async def story() -> None:
        async with scheduling(access, namespace, Mode.SHADOW) as live:
            await live.create(fake_pod(namespace, "unheard", schedulerName="nobody"))
            await live.wait(lambda: live.scheduler.status.under_way == 1)
            for number in range(3):
                await live.create(fake_pod(namespace, f"p{number}", schedulerName="default-scheduler"))
            await live.wait(lambda: all(live.is_on(f"{namespace}/p{number}") for number in range(3)))
            await _until_compared(live)
            assert live.is_on(f"{namespace}/unheard") == ""
            assert f"{namespace}/unheard" not in live.feed.state.pods
            assert "conditions" not in (await live.pod(namespace, "unheard"))["status"]
            for comparison in live.compared:
                assert comparison.actual_node == comparison.pod.node_name
                assert comparison.saved_s == pytest.approx(
                    comparison.actual_expected_s - comparison.expected_s
                )

    asyncio.run(story())


async def _until_compared(live: Live) -> None:
    """Some pods may be bound by kube-scheduler before we have seen them wait: those are not compared."""
    await live.wait(lambda: live.scheduler.status.under_way == 1)


# ── races ──


def test_a_node_whose_kubelet_refuses_a_pod_is_left_alone_for_a_moment(
    client: Client, access: Access, namespace: str
) -> None:
    def bound_by_others(name: str) -> Json:
        return pods.pod(namespace, name, node="node-1", limits={"cpu": "600m"})

    async def story() -> None:
        async with scheduling(access, namespace) as live:
            for name in ("first", "second"):
                pods.create(client, bound_by_others(name))
            await live.wait(lambda: live.scheduler.status.closed == ("node-1",))
            await live.create(pods.pod(namespace, "ours", schedulerName=OURS, limits={"cpu": "10m"}))
            await live.wait(lambda: live.is_on(f"{namespace}/ours"))
            assert live.is_on(f"{namespace}/ours") == "node-2"
            count = live.metrics.registry.get_sample_value(
                "stowplan_kubelet_rejections_total", {"reason": "OutOfcpu"}
            )
            assert count == 1

    asyncio.run(story())
