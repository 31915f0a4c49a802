"""Prometheus on the real cluster: it reaches every program, and tells what a pod uses and on which node."""

import json
import subprocess

from lightkube import Client

from testbed import cluster as clusters
from testbed import monitoring, network, pods
from testbed.cluster import Cluster
from testbed.monitoring import debian
from testbed.monitoring.configuration import NODE_EXPORTER_PORT
from testbed.spec import ClusterSpec, RealNode
from testbed.waiting import wait_for

ONCE = {"prometheus", "kube-apiserver", "kube-scheduler", "kube-controller-manager", "argo"}
PER_NODE = {"node-exporter", "kubelet", "cadvisor", "resource"}


def links(namespace: str) -> list[str]:
    """The names of the network links in a namespace."""
    listed = subprocess.run(
        ["ip", "-netns", namespace, "-json", "link"], capture_output=True, text=True, check=True
    )
    return [link["ifname"] for link in json.loads(listed.stdout)]


def test_every_program_is_scraped(cluster: Cluster) -> None:
    expected = {(job, "") for job in ONCE} | {(job, node) for job in PER_NODE for node in cluster.nodes}

    def all_up() -> bool:
        targets = monitoring.targets(cluster.site)
        return bool(targets) and all(target.health == "up" for target in targets)

    wait_for("every program was scraped", all_up, 20.0)
    targets = monitoring.targets(cluster.site)
    assert {(target.job, target.node) for target in targets} == expected
    up = {
        (sample.labels["job"], sample.labels.get("node", "")): sample.value
        for sample in monitoring.query(cluster.site, "up")
    }
    assert up == dict.fromkeys(expected, 1.0)


def test_promtool_finds_nothing_wrong_with_the_configuration(cluster: Cluster) -> None:
    promtool = debian.program("prometheus", "promtool")
    file = cluster.site.folder / "prometheus.yaml"
    checked = subprocess.run([promtool, "check", "config", file], capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_processor_time_of_a_pod_is_seen_on_its_node(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    pods.create(
        client, pods.pod(namespace, "busy", ["load", "cpu", "--seconds", "60"], node="node-2", image="load")
    )
    chosen = f'{{namespace="{namespace}",pod="busy",container="main"}}'
    for metric in ("container_cpu_usage_seconds_total", "container_memory_working_set_bytes"):
        for job in ("cadvisor", "resource"):
            selector = chosen.replace("{", f'{{job="{job}",')
            samples = wait_for(
                f"{metric} of the pod in job {job}",
                lambda metric=metric, selector=selector: monitoring.query(
                    cluster.site, f"{metric}{selector} > 0.5"
                ),
                40.0,
            )
            assert {sample.labels["node"] for sample in samples} == {"node-2"}


def test_the_network_of_an_exporter_is_its_nodes_own(cluster: Cluster) -> None:
    samples = wait_for(
        "the exporters were scraped",
        lambda: monitoring.query(cluster.site, 'node_network_receive_bytes_total{device="eth0"}'),
        20.0,
    )
    assert {sample.labels["node"] for sample in samples} == set(cluster.nodes)
    links = monitoring.query(
        cluster.site, f'node_network_receive_bytes_total{{device="{cluster.site.host_link}"}}'
    )
    assert links == []


def test_a_node_that_is_switched_off_takes_its_exporter_with_it() -> None:
    spec = ClusterSpec(real_nodes=(RealNode(cpus=0.2),), scheduler=None, prometheus=True, images=())
    with clusters.running(spec) as own:
        node = own.nodes["node-1"]
        exporter = (own.site.hub, node.address, NODE_EXPORTER_PORT)
        wait_for("the exporter answers", lambda: network.answers(*exporter), 10.0)

        node.stop()

        own.daemons.check()
        assert not network.answers(*exporter)
        wait_for("the node's link is gone", lambda: "node1" not in links(own.site.hub), 5.0)
