"""What Prometheus scrapes follows from what the cluster has; what leaves the loopback is verified."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
import yaml

from testbed.certificates import KeyPair
from testbed.control_plane import ControlPlane
from testbed.monitoring import configuration
from testbed.site import Site
from testbed.spec import ClusterSpec, FakeNodes, Json, RealNode

AUTHORITY = KeyPair(Path("ca.crt"), Path("ca.key"))
USER = KeyPair(Path("prometheus.crt"), Path("prometheus.key"))
FULL = ClusterSpec(real_nodes=(RealNode(), RealNode()), fake_nodes=(FakeNodes(count=3),), argo=True)
CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")


def written(spec: ClusterSpec, running: tuple[str, ...] = CONTROL_PLANE) -> dict[str, Json]:
    """The configuration's jobs, by name."""
    daemons = SimpleNamespace(running=dict.fromkeys(running))
    plane = cast("ControlPlane", SimpleNamespace(site=Site("x", 130), daemons=daemons))
    made = configuration.configuration(configuration.scraped(plane, spec), AUTHORITY, USER)
    jobs = yaml.safe_load(yaml.safe_dump(made))["scrape_configs"]
    return {job["job_name"]: job for job in jobs}


def targets(job: Json) -> dict[str, str]:
    return {config["labels"].get("node", ""): config["targets"][0] for config in job["static_configs"]}


def test_a_full_cluster_is_scraped_wholly() -> None:
    jobs = written(FULL)
    assert {name: targets(job) for name, job in jobs.items()} == {
        "prometheus": {"": "127.0.0.1:9091"},
        "kube-apiserver": {"": "10.130.0.1:443"},
        "kube-scheduler": {"": "127.0.0.1:10259"},
        "kube-controller-manager": {"": "127.0.0.1:10257"},
        "argo": {"": "127.0.0.1:9090"},
        "node-exporter": {"node-1": "10.130.0.11:9100", "node-2": "10.130.0.12:9100"},
        "kubelet": {"node-1": "10.130.0.11:10250", "node-2": "10.130.0.12:10250"},
        "cadvisor": {"node-1": "10.130.0.11:10250", "node-2": "10.130.0.12:10250"},
        "resource": {"node-1": "10.130.0.11:10250", "node-2": "10.130.0.12:10250"},
    }
    assert jobs["cadvisor"]["metrics_path"] == "/metrics/cadvisor"


@pytest.mark.parametrize(
    ("spec", "running", "missing"),
    [
        (ClusterSpec(real_nodes=(RealNode(),)), CONTROL_PLANE, {"argo"}),
        (ClusterSpec(argo=True), CONTROL_PLANE, {"node-exporter", "kubelet", "cadvisor", "resource"}),
        (FULL, CONTROL_PLANE[:3], {"kube-scheduler"}),
        (FULL, CONTROL_PLANE[:2], {"kube-scheduler", "kube-controller-manager"}),
    ],
)
def test_what_does_not_run_is_not_scraped(
    spec: ClusterSpec, running: tuple[str, ...], missing: set[str]
) -> None:
    assert set(written(FULL)) - set(written(spec, running)) == missing


def test_a_certificate_is_verified_wherever_the_network_is_used() -> None:
    for job in written(FULL).values():
        if job["scheme"] == "https":
            tls = job["tls_config"]
            assert tls["cert_file"] == "prometheus.crt"
            over_loopback = all(address.startswith("127.") for address in targets(job).values())
            assert tls.get("ca_file", "") == ("" if over_loopback else "ca.crt")
            assert tls.get("insecure_skip_verify", False) is over_loopback
        else:
            assert "tls_config" not in job


def test_its_user_may_read_metrics_and_nothing_else() -> None:
    role, binding = configuration.rights()
    assert [rule["verbs"] for rule in role["rules"]] == [["get"], ["get"]]
    assert role["rules"][0]["nonResourceURLs"] == ["/metrics"]
    assert role["rules"][1]["resources"] == ["nodes/metrics"]
    assert binding["subjects"] == [{"kind": "User", "name": configuration.USER}]
