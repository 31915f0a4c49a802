"""Real nodes are what they say: shares that the kernel holds, real pods, one network, delay where asked."""

import json
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from lightkube.models.core_v1 import NodeStatus
from lightkube.resources.core_v1 import Node

from testbed import api, cgroups, network, nodes, pods
from testbed.cluster import Cluster
from testbed.errors import MissingPrerequisite
from testbed.nodes import RunningNode, delay
from testbed.programs import program_path
from testbed.spec import RealNode
from testbed.waiting import wait_for

RELAY_SLOTS = 16384  # of relay.c
BOTH = ("node-1", "node-2")


def status_of(cluster: Cluster, node: str) -> NodeStatus:
    status = cluster.client.get(Node, node).status
    assert status is not None
    return status


def taints_of(cluster: Cluster, node: str) -> list[tuple[str, str | None, str]]:
    spec = cluster.client.get(Node, node).spec
    assert spec is not None
    return [(taint.key, taint.value, taint.effect) for taint in spec.taints or []]


def load(cluster: Cluster, namespace: str, node: str, *arguments: str) -> dict[str, float]:
    """Run one load on a node to its end; returns the line that it says about itself."""
    name = f"{arguments[0]}-{node}"
    ended, output = pods.run(
        cluster.client,
        cluster.site,
        pods.pod(namespace, name, ["load", *arguments], node=node, image="load"),
    )
    assert ended.status is not None
    assert ended.status.phase == "Succeeded", output
    return json.loads(output.splitlines()[-1])


def started(cluster: Cluster, namespace: str, node: str, name: str = "", *command: str) -> str:
    """Start a pod on a node; returns its address."""
    name = name or f"on-{node}"
    pods.create(cluster.client, pods.pod(namespace, name, command or pods.FOR_EVER, node=node))
    running = pods.wait_until(cluster.client, namespace, name, pods.is_running)
    assert running.status is not None
    return str(running.status.podIP)


def round_trip_s(cluster: Cluster, namespace: str, pod: str, address: str) -> float:
    """The fastest of some pings: what the machine's other load adds is no part of it."""
    output = pods.execute(cluster.site, namespace, pod, "ping", "-q", "-c", "8", "-i", "0.05", address)
    found = re.search(r"round-trip min/avg/max = ([\d.]+)/", output)
    assert found, output
    return float(found[1]) / 1000


@pytest.mark.parametrize("number", [1, 2])
def test_allocatable_is_exactly_the_share(cluster: Cluster, number: int) -> None:
    asked = cluster.spec.real_nodes[number - 1]
    allocatable = status_of(cluster, f"node-{number}").allocatable
    assert allocatable is not None
    assert allocatable["cpu"] == {1.0: "1", 0.5: "500m"}[asked.cpus]
    assert allocatable["memory"] == f"{asked.memory_bytes >> 30}Gi"
    assert allocatable["pods"] == "110"


def test_logs_exec_and_port_forward_reach_a_pod(cluster: Cluster, namespace: str) -> None:
    page = "echo said; echo page > /tmp/index.html; httpd -f -p 8080 -h /tmp"
    started(cluster, namespace, "node-2", "web", "sh", "-c", page)
    logs = wait_for(
        "the pod's output", lambda: pods.kubectl(cluster.site, "logs", f"--namespace={namespace}", "web"), 5.0
    )
    assert logs == "said\n"
    assert pods.execute(cluster.site, namespace, "web", "cat", "/tmp/index.html") == "page\n"  # noqa: S108 - the pod's
    command = [
        program_path("kubectl"),
        f"--kubeconfig={cluster.site.kubeconfig}",
        "port-forward",
        f"--namespace={namespace}",
        "web",
        ":8080",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as forward:
        assert forward.stdout is not None
        port = re.search(r"127\.0\.0\.1:(\d+)", forward.stdout.readline())
        assert port
        with socket.create_connection(("127.0.0.1", int(port[1])), timeout=5) as connection:
            connection.sendall(b"GET /index.html HTTP/1.0\r\n\r\n")
            answer = connection.makefile("rb").read()
        forward.terminate()
    assert answer.endswith(b"page\n")


def test_pods_of_one_node_reach_those_of_the_other_and_the_api_server(
    cluster: Cluster, namespace: str
) -> None:
    serve = "echo page > /tmp/index.html; httpd -f -p 8080 -h /tmp"
    addresses = {node: started(cluster, namespace, node, "", "sh", "-c", serve) for node in BOTH}
    for node, other in (BOTH, BOTH[::-1]):
        fetched = pods.execute(
            cluster.site,
            namespace,
            f"on-{node}",
            "wget",
            "-qO-",
            f"http://{addresses[other]}:8080/index.html",
        )
        assert fetched == "page\n"
        # By the address of the service `kubernetes`, as a client library in a pod does.
        pods.execute(
            cluster.site,
            namespace,
            f"on-{node}",
            "sh",
            "-c",
            'nc -w 2 "$KUBERNETES_SERVICE_HOST" "$KUBERNETES_SERVICE_PORT" < /dev/null',
        )


def test_the_slower_node_computes_half_as_fast(cluster: Cluster, namespace: str) -> None:
    lines = {
        node: load(cluster, namespace, node, "cpu", "--seconds", "1.5", "--threads", "2") for node in BOTH
    }
    cores = {
        node: (line["cpu_user_s"] + line["cpu_system_s"]) / line["wall_s"] for node, line in lines.items()
    }
    assert cores["node-1"] <= 1.0 * 1.1
    assert cores["node-2"] == pytest.approx(0.5, rel=0.15)
    assert lines["node-1"]["amount_per_s"] / lines["node-2"]["amount_per_s"] == pytest.approx(2.0, rel=0.25)


def test_the_memory_of_a_node_is_limited_for_all_its_pods_together(cluster: Cluster, namespace: str) -> None:
    # 1.3 GiB twice: each fits into the node's 2 GiB, and neither container has a limit of its own.
    held = pods.pod(namespace, "first", ["load", "hold", "--bytes", "1330Mi"], node="node-2", image="load")
    pods.create(cluster.client, held)
    pods.wait_until(cluster.client, namespace, "first", pods.is_running)
    ended, _ = pods.run(
        cluster.client,
        cluster.site,
        pods.pod(
            namespace,
            "second",
            ["load", "hold", "--bytes", "1330Mi", "--seconds", "1"],
            node="node-2",
            image="load",
        ),
    )
    first = pods.wait_until(cluster.client, namespace, "first", lambda _: True)
    failed = [pod for pod in (first, ended) if pod.status is not None and pod.status.phase == "Failed"]
    # The kernel takes one; until that one's memory is free, it may take the other too.
    assert failed, "one of the two had to go"
    ends = [pods.termination(pod) for pod in failed]
    assert {(end.reason, end.exitCode) for end in ends} == {("OOMKilled", 137)}


def test_the_disk_of_a_node_is_throttled(cluster: Cluster, namespace: str) -> None:
    node = cluster.nodes["node-2"]
    write, read = node.spec.disk_write_bytes_per_s, node.spec.disk_read_bytes_per_s
    assert write
    assert read
    if not node.disk_throttled:
        pytest.skip("this machine cannot throttle the disk of a node")
    script = " && ".join(
        f"load disk --{way} --direct --file /tmp/f --bytes 12Mi" for way in ("write", "read")
    )
    rates: dict[str, list[float]] = {}
    for name in BOTH:
        _, output = pods.run(
            cluster.client,
            cluster.site,
            pods.pod(namespace, f"disk-{name}", ["sh", "-c", script], node=name, image="load"),
        )
        rates[name] = [json.loads(line)["amount_per_s"] for line in output.splitlines()]
    assert rates["node-2"] == [pytest.approx(write, rel=0.15), pytest.approx(read, rel=0.15)]
    assert rates["node-1"][0] > 2 * write
    assert rates["node-1"][1] > 2 * read


def test_delay_is_between_nodes_only_and_goes_away(cluster: Cluster, namespace: str) -> None:
    started(cluster, namespace, "node-1", "from")
    near, far = (started(cluster, namespace, node) for node in BOTH)
    relay = nodes.delay_between(cluster.plane, 0.02)
    try:
        for delay_s in (0.02, 0.005):
            relay.set(delay_s)
            assert round_trip_s(cluster, namespace, "from", far) == pytest.approx(2 * delay_s, rel=0.05)
        for undelayed in (near, cluster.site.hub_address, cluster.nodes["node-1"].address):
            assert round_trip_s(cluster, namespace, "from", undelayed) < 0.003
        to_the_node = round_trip_s(cluster, namespace, "from", cluster.nodes["node-2"].address)
        assert to_the_node == pytest.approx(2 * 0.005, rel=0.05)
        counts = relay.counts()
        assert counts.passed >= 3 * 2 * 8
        assert counts.dropped == 0
        assert counts.mean_late_s < 0.002
    finally:
        relay.end()
    assert round_trip_s(cluster, namespace, "from", far) < 0.003


def test_the_relay_drops_and_counts_what_it_has_no_room_for(cluster: Cluster) -> None:
    relay = nodes.delay_between(cluster.plane, delay.LONGEST_S)
    sent = 0
    try:
        with network.inside(
            cluster.nodes["node-1"].place.namespace, lambda: socket.socket(type=socket.SOCK_DGRAM)
        ) as sender:
            while not relay.counts().dropped and sent < 10 * RELAY_SLOTS:
                for _ in range(500):
                    sender.sendto(b"x", (cluster.nodes["node-2"].address, 9))
                sent += 500
                time.sleep(0.001)  # else the links' own queues run over first, on a busy machine
        counts = relay.counts()
    finally:
        relay.end()
    assert counts.dropped > 0
    assert sent - counts.dropped >= RELAY_SLOTS - 100, (
        "it has that much room, but for a few packets of others"
    )
    assert counts.passed == 0


def test_a_node_keeps_to_itself(cluster: Cluster, namespace: str) -> None:
    """Its pods' mounts and the kernel parameters that its kubelet sets are not this machine's."""
    started(cluster, namespace, "node-1")
    mounts = Path("/proc/self/mountinfo").read_text()
    assert str(cluster.site.folder) not in mounts
    node = cluster.nodes["node-1"]
    inside = Path(f"/proc/{node.keeper.pid}/mountinfo").read_text()
    assert str(node.place.folder / "containerd") in inside
    assert " /proc/sys/vm/overcommit_memory " in inside


@pytest.fixture
def third(cluster: Cluster) -> Iterator[RunningNode]:
    """A node more, which is gone afterwards in Kubernetes too."""
    spec = RealNode(
        cpus=0.2,
        memory_bytes=256 << 20,
        max_pods=5,
        labels={"disk": "slow", "topology.kubernetes.io/zone": "far"},
        taints=("only=this:NoSchedule",),
    )
    with ExitStack() as undo:
        node = nodes.start(cluster.plane, 3, spec, ("busybox",))
        undo.callback(cluster.client.delete, Node, "node-3")
        undo.callback(node.stop)
        wait_for("node-3 is ready", lambda: "node-3" in api.ready_nodes(cluster.client), 30.0)
        yield node


def test_a_node_joins_with_its_labels_and_is_switched_off(
    cluster: Cluster, third: RunningNode, namespace: str
) -> None:
    node = cluster.client.get(Node, third.name)
    assert node.metadata is not None
    assert node.metadata.labels is not None
    assert node.metadata.labels["disk"] == "slow"
    assert node.metadata.labels["topology.kubernetes.io/zone"] == "far"
    wait_for(
        "only its own taint is left",
        lambda: taints_of(cluster, third.name) == [("only", "this", "NoSchedule")],
        10.0,
    )
    allocatable = status_of(cluster, third.name).allocatable
    assert allocatable is not None
    assert (allocatable["cpu"], allocatable["memory"], allocatable["pods"]) == ("200m", "256Mi", "5")
    started(cluster, namespace, third.name)
    assert cgroups.members(third.place.group)
    third.stop()
    for group in (third.place.group, third.place.daemons_group):
        assert not any((root / group).exists() for root in cgroups.hierarchies().values())
    cluster.daemons.check()


def test_a_share_that_the_machine_has_not_is_refused(cluster: Cluster) -> None:
    with pytest.raises(MissingPrerequisite, match=r"node-9: cpus=4096: must be from 0\.01 to \d+, the cores"):
        nodes.start(cluster.plane, 9, RealNode(cpus=4096), ())
    assert not (cluster.site.folder / "node-9").exists()
