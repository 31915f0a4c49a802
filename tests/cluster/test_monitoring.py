"""Prometheus on the real cluster: it reaches every program, and tells what a pod uses and on which node."""

import subprocess

from lightkube import Client
from lightkube.models.core_v1 import Container, PodSpec
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import Pod

from testbed import monitoring
from testbed.cluster import Cluster
from testbed.images import image_name
from testbed.monitoring import debian
from testbed.waiting import wait_for

ONCE = {"prometheus", "kube-apiserver", "kube-scheduler", "kube-controller-manager", "argo"}
PER_NODE = {"node-exporter", "kubelet", "cadvisor", "resource"}


def test_every_program_is_scraped(cluster: Cluster) -> None:
    expected = {(job, "") for job in ONCE} | {(job, node) for job in PER_NODE for node in cluster.nodes}
    targets = monitoring.targets(cluster.site)
    assert {(target.job, target.node) for target in targets} == expected

    def all_up() -> bool:
        return all(target.health == "up" for target in monitoring.targets(cluster.site))

    wait_for("every program was scraped", all_up, 20.0)
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
    client.create(
        Pod(
            metadata=ObjectMeta(name="busy", namespace=namespace),
            spec=PodSpec(
                nodeName="node-2",
                restartPolicy="Never",
                terminationGracePeriodSeconds=0,
                containers=[
                    Container(
                        name="main",
                        image=image_name("load"),
                        imagePullPolicy="Never",
                        args=["cpu", "--seconds", "60"],
                    )
                ],
            ),
        )
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
