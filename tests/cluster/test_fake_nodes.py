"""Fake nodes beside real ones: what a pod does there is what its annotations say, and its times are true."""

import re
import time
from typing import Any

import pytest
from lightkube import Client
from lightkube.models.core_v1 import ContainerState, ContainerStateTerminated
from lightkube.resources.batch_v1 import Job
from lightkube.resources.core_v1 import Node, Pod
from lightkube.types import PatchType

from testbed import api, bulk, kwok, pods
from testbed.cluster import Cluster
from testbed.errors import ComponentFailed
from testbed.kwok import PodScript
from testbed.spec import Json
from testbed.waiting import wait_for

LATE_S = 2.0  # both processors may be busy with something else; the timer itself is good to milliseconds


def fake_pod(namespace: str, name: str, script: PodScript, **spec: Any) -> Json:  # noqa: ANN401 - manifest fields
    """A pod that goes to a fake node and does what the script says."""
    manifest = pods.pod(namespace, name, tolerations=[kwok.TOLERATION], **spec)
    manifest["spec"]["nodeSelector"] = {"node.kubernetes.io/instance-type": "kwok"}
    manifest["metadata"]["annotations"] = script.annotations()
    return manifest


def run(client: Client, manifest: Json, within_s: float = 30.0) -> Pod:
    """Run a pod to its end."""
    pods.create(client, manifest)
    metadata = manifest["metadata"]
    return pods.wait_until(client, metadata["namespace"], metadata["name"], pods.is_over, within_s)


def annotate(client: Client, node: str, value: str | None) -> None:
    client.patch(
        Node, node, {"metadata": {"annotations": {kwok.NOT_READY: value}}}, patch_type=PatchType.MERGE
    )


def status_json(pod: Pod) -> Json:
    assert pod.status is not None
    return pod.status.to_dict()


def conditions(pod: Pod) -> dict[str, str]:
    return {condition["type"]: condition["status"] for condition in status_json(pod)["conditions"]}


def ended(state: ContainerState | None) -> ContainerStateTerminated:
    assert state is not None
    assert state.terminated is not None
    return state.terminated


def times(pod: Pod) -> kwok.Times:
    assert pod.metadata is not None
    return kwok.times(pod.metadata.annotations)


def is_gone(client: Client, namespace: str, name: str) -> bool:
    return not api.exists(client, Pod, name, namespace)


def test_two_hundred_pods_at_once_each_last_as_long_as_they_say(client: Client, namespace: str) -> None:
    wanted_s = {f"pod-{i}": 2.0 + i / 50 for i in range(200)}
    api.create_all(
        client, (fake_pod(namespace, name, PodScript(duration_s=s)) for name, s in wanted_s.items())
    )

    def seen() -> list[Pod]:
        return list(client.list(Pod, namespace=namespace))

    wait_for("all have ended", lambda: all(map(pods.is_over, seen())), 60.0)
    for pod in seen():
        assert pod.metadata is not None
        assert pod.status is not None
        over_s = times(pod).duration_s - wanted_s[str(pod.metadata.name)]
        assert 0.0 <= over_s < LATE_S
        assert pod.status.phase == "Succeeded"
        final = pods.termination(pod)
        assert final.startedAt is not None
        assert final.finishedAt is not None
        shown_s = (final.finishedAt - final.startedAt).total_seconds()
        assert shown_s == pytest.approx(times(pod).duration_s, abs=1.0)  # the status has whole seconds


def test_a_pod_that_restarts_always_runs_for_ever_as_a_kubelet_shows_it(
    cluster: Cluster, namespace: str
) -> None:
    pods.create(cluster.client, fake_pod(namespace, "server", PodScript(), restartPolicy="Always"))
    pod = pods.wait_until(cluster.client, namespace, "server", pods.is_running)
    time.sleep(1.5)  # longer than a pod without a duration would run otherwise
    assert pods.is_running(cluster.client.get(Pod, "server", namespace=namespace))
    status = status_json(pod)
    (container,) = status["containerStatuses"]
    assert (container["ready"], container["started"], container["restartCount"]) == (True, True, 0)
    assert container["state"]["running"]["startedAt"] == status["startTime"]
    assert set(conditions(pod).values()) == {"True"}
    assert set(conditions(pod)) == {
        "PodScheduled",
        "PodReadyToStartContainers",
        "Initialized",
        "ContainersReady",
        "Ready",
    }
    assert status["hostIP"] == cluster.site.hub_address
    assert status["podIP"].startswith(f"10.{cluster.site.slot}.1")
    assert status["observedGeneration"] == 1


@pytest.mark.parametrize(
    ("script", "exit_code", "reason", "pod_reason"),
    [
        (PodScript(exit_code=3), 3, "Error", None),
        (PodScript(reason="OOMKilled"), 137, "OOMKilled", None),
        (PodScript(exit_code=2, reason="ConfigError"), 2, "ConfigError", None),
        (PodScript(reason="Evicted"), 137, "Error", "Evicted"),
    ],
)
def test_a_pod_fails_as_its_script_says(
    client: Client, namespace: str, script: PodScript, exit_code: int, reason: str, pod_reason: str | None
) -> None:
    pod = run(client, fake_pod(namespace, "fails", script))
    final = pods.termination(pod)
    status = status_json(pod)
    assert (status["phase"], status.get("reason")) == ("Failed", pod_reason)
    assert (final.exitCode, final.reason) == (exit_code, reason)
    assert conditions(pod)["Ready"] == "False"


def test_the_container_that_fails_is_the_default_one_and_the_others_end_well(
    client: Client, namespace: str
) -> None:
    manifest = fake_pod(namespace, "two", PodScript(exit_code=1))
    manifest["spec"]["containers"].insert(0, manifest["spec"]["containers"][0] | {"name": "wait"})
    manifest["metadata"]["annotations"]["kubectl.kubernetes.io/default-container"] = pods.CONTAINER
    codes = {
        c["name"]: c["state"]["terminated"]["exitCode"]
        for c in status_json(run(client, manifest))["containerStatuses"]
    }
    assert codes == {"wait": 0, pods.CONTAINER: 1}


def test_an_annotation_that_cannot_be_read_fails_the_pod_with_the_mend(
    client: Client, namespace: str
) -> None:
    manifest = fake_pod(namespace, "bad", PodScript())
    manifest["metadata"]["annotations"] = {"stowplan.dev/duration": "90", "stowplan.dev/exit-code": "256"}
    status = status_json(run(client, manifest))
    assert (status["phase"], status["reason"]) == ("Failed", "BadAnnotation")
    assert status["message"] == (
        'annotation stowplan.dev/duration is "90": write a duration such as 90s or 1m30s; '
        'annotation stowplan.dev/exit-code is "256": write a number from 0 to 255'
    )


def test_a_start_takes_its_delay_in_which_the_container_is_being_created(
    client: Client, namespace: str
) -> None:
    pods.create(client, fake_pod(namespace, "slow", PodScript(start_delay_s=1.5, duration_s=0.5)))
    waiting = pods.wait_until(client, namespace, "slow", lambda pod: status_json(pod).get("startTime"))
    assert status_json(waiting)["phase"] == "Pending"
    assert pods.container(waiting).state == ContainerState.from_dict(
        {"waiting": {"reason": "ContainerCreating"}}
    )
    assert conditions(waiting)["Initialized"] == "True"
    assert conditions(waiting)["Ready"] == "False"
    began_s = time.time()
    pod = pods.wait_until(client, namespace, "slow", pods.is_over)
    assert 1.0 < (times(pod).started_s or 0.0) - began_s < 1.5 + LATE_S


def test_init_containers_are_done_before_and_sidecars_run_beside(client: Client, namespace: str) -> None:
    manifest = fake_pod(namespace, "init", PodScript(init_duration_s=1.0, duration_s=1.5))
    (main,) = manifest["spec"]["containers"]
    manifest["spec"]["initContainers"] = [
        main | {"name": "first"},
        main | {"name": "sidecar", "restartPolicy": "Always"},
        main | {"name": "second"},
    ]
    pods.create(client, manifest)

    def states(pod: Pod) -> dict[str, str]:
        statuses: list[Json] = status_json(pod).get("initContainerStatuses", [])
        return {status["name"]: next(iter(status["state"])) for status in statuses}

    pods.wait_until(
        client,
        namespace,
        "init",
        lambda pod: states(pod) == {"first": "running", "sidecar": "running", "second": "waiting"},
    )
    running = pods.wait_until(client, namespace, "init", pods.is_running)
    assert states(running) == {"first": "terminated", "sidecar": "running", "second": "terminated"}
    over = pods.wait_until(client, namespace, "init", pods.is_over)
    assert set(states(over).values()) == {"terminated"}
    assert over.status is not None
    first, sidecar, _ = over.status.initContainerStatuses or []
    assert (ended(first.state).exitCode, ended(sidecar.state).exitCode) == (0, 0)
    assert ended(first.state).finishedAt != ended(first.state).startedAt
    assert ended(sidecar.state).startedAt == ended(first.state).startedAt
    assert ended(sidecar.state).finishedAt == pods.termination(over).finishedAt


def test_a_change_of_the_pod_does_not_begin_its_time_anew(client: Client, namespace: str) -> None:
    pods.create(client, fake_pod(namespace, "touched", PodScript(duration_s=2.0)))
    pods.wait_until(client, namespace, "touched", pods.is_running)
    for number in range(4):
        time.sleep(0.5)
        client.patch(Pod, "touched", {"metadata": {"labels": {"touch": str(number)}}}, namespace=namespace)
    pod = pods.wait_until(client, namespace, "touched", pods.is_over)
    assert times(pod).duration_s == pytest.approx(2.0, abs=0.9)  # anew, it would be at least 3


def test_a_deadline_ends_a_pod_before_its_duration(client: Client, namespace: str) -> None:
    pod = run(client, fake_pod(namespace, "late", PodScript(duration_s=60.0), activeDeadlineSeconds=1))
    status = status_json(pod)
    assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")


def test_a_failure_restarts_the_container_where_the_pod_wants_that(client: Client, namespace: str) -> None:
    script = PodScript(duration_s=1.0, exit_code=1)
    pods.create(client, fake_pod(namespace, "again", script, restartPolicy="OnFailure"))
    pod = pods.wait_until(
        client, namespace, "again", lambda pod: pods.is_running(pod) and pods.container(pod).restartCount >= 2
    )
    container = pods.container(pod)
    assert ended(container.lastState).exitCode == 1
    assert container.state is not None
    assert container.state.running is not None
    assert ended(container.lastState).finishedAt == container.state.running.startedAt


def test_a_job_on_fake_nodes_reaches_its_end(client: Client, namespace: str) -> None:
    template = fake_pod(namespace, "unused", PodScript(duration_s=0.5))
    template["metadata"] = {"annotations": template["metadata"]["annotations"]}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "work", "namespace": namespace},
        "spec": {"completions": 3, "parallelism": 2, "template": template},
    }
    api.create_all(client, [job])

    def is_complete() -> bool:
        status = client.get(Job, "work", namespace=namespace).status
        return status is not None and status.succeeded == 3 and status.completionTime is not None

    wait_for("the job is complete", is_complete, 30.0)


@pytest.mark.parametrize(("is_stubborn", "least_s", "most_s"), [(False, 0.0, 2.0), (True, 1.0, 2.0 + LATE_S)])
def test_a_deleted_pod_goes_at_once_or_takes_its_grace(
    client: Client, namespace: str, *, is_stubborn: bool, least_s: float, most_s: float
) -> None:
    script = PodScript(duration_s=60.0, is_stubborn=is_stubborn)
    pods.create(client, fake_pod(namespace, "goes", script, terminationGracePeriodSeconds=2))
    pods.wait_until(client, namespace, "goes", pods.is_running)
    began_s = time.monotonic()
    client.delete(Pod, "goes", namespace=namespace)
    wait_for("the pod is gone", lambda: is_gone(client, namespace, "goes"), 30.0)
    assert least_s <= time.monotonic() - began_s <= most_s


def test_a_deleted_pod_with_a_finalizer_fails_and_waits_for_it(client: Client, namespace: str) -> None:
    manifest = fake_pod(namespace, "held", PodScript(duration_s=60.0), terminationGracePeriodSeconds=2)
    manifest["metadata"]["finalizers"] = ["stowplan.dev/test"]
    pods.create(client, manifest)
    pods.wait_until(client, namespace, "held", pods.is_running)
    client.delete(Pod, "held", namespace=namespace)
    pod = pods.wait_until(client, namespace, "held", pods.is_over)
    assert (status_json(pod)["phase"], pods.termination(pod).exitCode) == ("Failed", 143)
    client.patch(
        Pod, "held", {"metadata": {"finalizers": None}}, namespace=namespace, patch_type=PatchType.MERGE
    )
    wait_for("the pod is gone", lambda: is_gone(client, namespace, "held"), 10.0)


def test_a_node_says_that_it_is_not_ready_until_it_may_be_again(client: Client) -> None:
    node = "kwok-00099"
    before = client.get(Node, node)
    annotate(client, node, "the test wants it")
    try:
        wait_for("it is not ready", lambda: node not in api.ready_nodes(client), 20.0)
        seen = client.get(Node, node)
        assert seen.status is not None
        (ready,) = (c for c in seen.status.conditions or [] if c.type == "Ready")
        assert (ready.status, ready.reason, ready.message) == (
            "False",
            "KubeletNotReady",
            "the test wants it",
        )

        def taints() -> set[str]:
            spec = client.get(Node, node).spec
            return {taint.key for taint in (spec and spec.taints) or []}

        wait_for("it is tainted", lambda: "node.kubernetes.io/not-ready" in taints(), 20.0)
    finally:
        annotate(client, node, None)
    wait_for("it is ready", lambda: node in api.ready_nodes(client), 20.0)
    wait_for("the taint is gone", lambda: "node.kubernetes.io/not-ready" not in taints(), 20.0)
    after = client.get(Node, node)
    assert before.status is not None
    assert after.status is not None
    since = [
        {c.type: c.lastTransitionTime for c in s.conditions or []} for s in (before.status, after.status)
    ]
    assert since[0]["MemoryPressure"] == since[1]["MemoryPressure"]
    assert since[0]["Ready"] != since[1]["Ready"]


def test_a_running_pods_use_stands_in_its_nodes_metrics(cluster: Cluster, namespace: str) -> None:
    script = PodScript(duration_s=60.0, cpu_cores=0.5, memory_bytes=1 << 30)
    pods.create(cluster.client, fake_pod(namespace, "uses", script))
    pod = pods.wait_until(cluster.client, namespace, "uses", pods.is_running)
    assert pod.spec is not None
    node = pod.spec.nodeName

    def metric(name: str) -> float:
        text = pods.kubectl(
            cluster.site, "get", "--raw", f"/api/v1/nodes/{node}/proxy/metrics/nodes/{node}/metrics/resource"
        )
        found = re.search(rf'^{name}{{[^}}]*pod="uses"}} (\S+)$', text, re.MULTILINE)
        return float(found[1]) if found else 0.0

    wait_for("its memory is seen", lambda: metric("pod_memory_working_set_bytes") == 1 << 30, 10.0)
    before_s, cpu_before = time.monotonic(), metric("pod_cpu_usage_seconds_total")
    time.sleep(1.0)
    cpu_used = metric("pod_cpu_usage_seconds_total") - cpu_before
    assert cpu_used / (time.monotonic() - before_s) == pytest.approx(0.5, rel=0.3)


def test_pods_are_made_counted_and_deleted_in_bulk(cluster: Cluster, namespace: str) -> None:
    manifest = fake_pod(namespace, "", PodScript(), restartPolicy="Always")
    manifests = [manifest | {"metadata": manifest["metadata"] | {"name": f"pod-{i}"}} for i in range(50)]
    bulk.create_pods(cluster.plane, namespace, manifests)
    with bulk.Connection(cluster.plane) as connection:
        assert bulk.count_pods(connection, namespace) == 50
        with pytest.raises(ComponentFailed, match=r"409 .*pod-7.* already exists"):
            bulk.create_pods(cluster.plane, namespace, manifests[7:8])
        bulk.delete_pods(connection, namespace)
        wait_for("no pod is left", lambda: bulk.count_pods(connection, namespace) == 0, 30.0)
