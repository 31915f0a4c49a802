"""What goes wrong on real nodes, as Kubernetes reports it: memory, images, dead daemons, taints."""

import time
from collections.abc import Generator
from contextlib import contextmanager

from lightkube import Client
from lightkube.models.core_v1 import NodeCondition, Taint
from lightkube.resources.core_v1 import Event, Node, Pod
from lightkube.types import PatchType

from testbed import pods
from testbed.cluster import Cluster
from testbed.errors import ComponentFailed
from testbed.nodes import RunningNode
from testbed.waiting import wait_for

UNREACHABLE = "node.kubernetes.io/unreachable"


def ready_condition(client: Client, node: str) -> NodeCondition:
    status = client.get(Node, node).status
    assert status is not None
    return next(condition for condition in status.conditions or [] if condition.type == "Ready")


def taints(client: Client, node: str) -> list[Taint]:
    spec = client.get(Node, node).spec
    assert spec is not None
    return spec.taints or []


def reasons(client: Client, namespace: str, pod: str) -> dict[str, str]:
    """Reasons and messages of the events about a pod."""
    events = client.list(Event, namespace=namespace, fields={"involvedObject.name": pod})
    return {str(event.reason): str(event.message) for event in events}


def is_ready(pod: Pod) -> bool:
    conditions = (pod.status and pod.status.conditions) or []
    return any(condition.type == "Ready" and condition.status == "True" for condition in conditions)


def waiting_reason(pod: Pod) -> str:
    statuses = (pod.status and pod.status.containerStatuses) or []
    state = statuses[0].state if statuses else None
    return (state and state.waiting and state.waiting.reason) or ""


# ── memory and images ──


def test_a_container_above_its_memory_limit_is_killed_and_one_below_is_not(
    cluster: Cluster, namespace: str
) -> None:
    ends: dict[str, tuple[str, int]] = {}
    for name, held in (("below", "48Mi"), ("above", "80Mi")):
        command = ["load", "hold", "--bytes", held, "--seconds", "0.2"]
        manifest = pods.pod(
            namespace, name, command, node="node-1", image="load", limits={"cpu": "200m", "memory": "64Mi"}
        )
        ended, _ = pods.run(cluster.client, cluster.site, manifest)
        end = pods.termination(ended)
        ends[name] = (str(end.reason), end.exitCode)
    assert ends == {"below": ("Completed", 0), "above": ("OOMKilled", 137)}


def test_an_image_that_the_node_lacks_and_may_not_fetch(cluster: Cluster, namespace: str) -> None:
    manifest = pods.pod(namespace, "lacking", node="node-1")
    manifest["spec"]["containers"][0]["image"] = "docker.io/stowplan/nowhere:1"
    pods.create(cluster.client, manifest)
    seen = pods.wait_until(
        cluster.client, namespace, "lacking", lambda pod: waiting_reason(pod) == "ErrImageNeverPull"
    )
    assert seen.status is not None
    assert seen.status.phase == "Pending"
    assert "is not present with pull policy of Never" in wait_for(
        "the kubelet's event",
        lambda: reasons(cluster.client, namespace, "lacking").get("ErrImageNeverPull"),
        5.0,
    )


def test_an_image_that_cannot_be_fetched_is_tried_again_later(cluster: Cluster, namespace: str) -> None:
    manifest = pods.pod(namespace, "far", node="node-1")
    manifest["spec"]["containers"][0] |= {"image": "registry.invalid/nowhere:1", "imagePullPolicy": "Always"}
    pods.create(cluster.client, manifest)
    seen: list[str] = []

    def gave_up_for_now(pod: Pod) -> bool:
        reason = waiting_reason(pod)
        if reason not in {*seen, "", "ContainerCreating"}:
            seen.append(reason)
        return reason == "ImagePullBackOff"

    pods.wait_until(cluster.client, namespace, "far", gave_up_for_now)
    assert set(seen) <= {"ErrImagePull", "ImagePullBackOff"}
    assert {"Pulling", "Failed", "BackOff"} <= set(reasons(cluster.client, namespace, "far"))


# ── kubelet and runtime ──


@contextmanager
def without_kubelet(cluster: Cluster, node: RunningNode) -> Generator[None]:
    """The node's kubelet is dead inside; afterwards the node is ready again."""
    node.kill_kubelet()
    try:
        yield
    finally:
        node.start_kubelet()
        wait_for(
            f"{node.name} is ready again",
            lambda: (
                ready_condition(cluster.client, node.name).status == "True"
                and not taints(cluster.client, node.name)
            ),
            30.0,
        )


def test_a_dead_kubelet_makes_its_node_unknown_and_it_comes_back_with_its_pods(
    cluster: Cluster, namespace: str
) -> None:
    node = cluster.nodes["node-2"]
    count = "i=0; while :; do i=$((i+1)); echo $i > /tmp/count; sleep 0.1; done"
    pods.create(cluster.client, pods.pod(namespace, "goes-on", ["sh", "-c", count], node=node.name))
    before = pods.container(pods.wait_until(cluster.client, namespace, "goes-on", pods.is_running))
    died_s = time.monotonic()
    with without_kubelet(cluster, node):
        wait_for(
            "the node is unknown",
            lambda: ready_condition(cluster.client, node.name).status == "Unknown",
            30.0,
        )
        assert time.monotonic() - died_s > 4.0, "a kubelet that is only slow is not given up"
        condition = ready_condition(cluster.client, node.name)
        assert condition.reason == "NodeStatusUnknown"
        assert condition.message == "Kubelet stopped posting node status."
        wait_for(
            "the node is tainted",
            lambda: (
                {(taint.key, taint.effect) for taint in taints(cluster.client, node.name)}
                >= {(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")}
            ),
            10.0,
        )
        stale = cluster.client.get(Pod, "goes-on", namespace=namespace)
        assert pods.is_running(stale), "Kubernetes knows nothing newer"
        assert not is_ready(stale)
    after = pods.container(pods.wait_until(cluster.client, namespace, "goes-on", is_ready))
    assert (after.containerID, after.restartCount) == (before.containerID, 0)
    counted = int(pods.execute(cluster.site, namespace, "goes-on", "cat", "/tmp/count"))  # noqa: S108 - the pod's own
    assert counted > 10 * (4.0 - 1), "it went on while nobody watched"


def test_containers_outlive_their_runtime(cluster: Cluster, namespace: str) -> None:
    node = cluster.nodes["node-1"]
    pods.create(cluster.client, pods.pod(namespace, "goes-on", node=node.name))
    before = pods.container(pods.wait_until(cluster.client, namespace, "goes-on", pods.is_running))
    node.kill_runtime()
    node.start_runtime()

    def hostname() -> str | None:
        try:
            return pods.execute(cluster.site, namespace, "goes-on", "hostname")
        except ComponentFailed:  # the kubelet pauses before it tries its lost connection to containerd again
            return None

    assert wait_for("the container to be reached again", hostname, 20.0) == "goes-on\n"
    after = pods.container(cluster.client.get(Pod, "goes-on", namespace=namespace))
    assert (after.containerID, after.restartCount) == (before.containerID, 0)
    pods.create(cluster.client, pods.pod(namespace, "new", ["true"], node=node.name))
    pods.wait_until(cluster.client, namespace, "new", pods.is_over)


# ── eviction ──


@contextmanager
def tainted(client: Client, node: str, key: str) -> Generator[None]:
    """The node has one NoExecute taint more inside."""
    before = [taint.to_dict() for taint in taints(client, node)]
    more = [*before, {"key": key, "effect": "NoExecute"}]
    client.patch(Node, node, {"spec": {"taints": more}}, patch_type=PatchType.MERGE)
    try:
        yield
    finally:
        client.patch(Node, node, {"spec": {"taints": before}}, patch_type=PatchType.MERGE)


def test_a_taint_evicts_the_pod_that_does_not_tolerate_it(cluster: Cluster, namespace: str) -> None:
    client = cluster.client
    # `sleep` as process 1 does not hear SIGTERM, so the pod is seen in its last seconds.
    leaving = pods.pod(namespace, "leaves", node="node-1", terminationGracePeriodSeconds=4)
    toleration = {"key": "stowplan.test/out", "operator": "Exists", "effect": "NoExecute"}
    staying = pods.pod(namespace, "stays", node="node-1", tolerations=[toleration])
    for manifest in (leaving, staying):
        pods.create(client, manifest)
    for name in ("leaves", "stays"):
        pods.wait_until(client, namespace, name, pods.is_running)
    with tainted(client, "node-1", "stowplan.test/out"):
        last = pods.wait_until(
            client,
            namespace,
            "leaves",
            lambda pod: pod.metadata is not None and pod.metadata.deletionTimestamp,
            10.0,
        )
        assert last.status is not None
        disruption = {c.type: (c.status, c.reason) for c in last.status.conditions or []}
        assert disruption["DisruptionTarget"] == ("True", "DeletionByTaintManager")
        assert "TaintManagerEviction" in wait_for(
            "the controller's event", lambda: reasons(client, namespace, "leaves"), 5.0
        )
        wait_for(
            "the pod is gone",
            lambda: all(
                pod.metadata and pod.metadata.name != "leaves"
                for pod in client.list(Pod, namespace=namespace)
            ),
            15.0,
        )
        stays = client.get(Pod, "stays", namespace=namespace)
        assert pods.is_running(stays)
        assert stays.metadata is not None
        assert stays.metadata.deletionTimestamp is None
    assert not taints(client, "node-1"), "the node is as it was"
