"""Prometheus' configuration: what is scraped, and as whom.

Every program is asked where it answers by default. All but Argo and the exporters want a client certificate,
and ask the API server whether its user may read metrics. kube-scheduler and kube-controller-manager make
themselves a certificate that nobody signed, and are asked over loopback.
"""

from dataclasses import dataclass
from typing import cast

from testbed.certificates import KeyPair
from testbed.control_plane import API_PORT, SCHEDULER_PORT, ControlPlane
from testbed.spec import ClusterSpec, Json

PORT = 9091  # Prometheus' own default is the metrics' of Argo's controller
CONTROLLER_MANAGER_PORT = 10257
KUBELET_PORT = 10250
NODE_EXPORTER_PORT = 9100
ARGO_PORT = 9090

INTERVAL_S = 5
USER = "prometheus"

# What a kubelet tells on which path, by the name of the job.
KUBELET_PATHS = {
    "kubelet": "/metrics",
    "cadvisor": "/metrics/cadvisor",
    "resource": "/metrics/resource",
}


@dataclass(frozen=True)
class Scraped:
    """One job: programs of one kind.

    Attributes:
        targets: Address and port of each, by the value of the label `node` of its samples (empty: no label).
        verify: Whether the programs' certificate is signed by the cluster's authority.
    """

    job: str
    targets: dict[str, str]
    scheme: str = "https"
    path: str = "/metrics"
    verify: bool = True


def rights() -> list[Json]:
    """What Prometheus' user may read: the metrics of everything, and where a node's are."""
    return [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": USER},
            "rules": [
                {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
                {"apiGroups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]},
            ],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": USER},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": USER},
            "subjects": [{"kind": "User", "name": USER}],
        },
    ]


def scraped(plane: ControlPlane, spec: ClusterSpec) -> list[Scraped]:
    """What a cluster of that kind has to scrape."""
    site = plane.site
    nodes = {f"node-{number}": site.node_address(number) for number in range(1, len(spec.real_nodes) + 1)}
    jobs = [
        Scraped("prometheus", {"": f"127.0.0.1:{PORT}"}, scheme="http"),
        Scraped("kube-apiserver", {"": f"{site.hub_address}:{API_PORT}"}),
    ]
    for name, port in (
        ("kube-scheduler", SCHEDULER_PORT),
        ("kube-controller-manager", CONTROLLER_MANAGER_PORT),
    ):
        if name in plane.daemons.running:
            jobs.append(Scraped(name, {"": f"127.0.0.1:{port}"}, verify=False))
    if spec.argo:
        jobs.append(Scraped("argo", {"": f"127.0.0.1:{ARGO_PORT}"}, scheme="http"))
    if nodes:
        exporters = {name: f"{address}:{NODE_EXPORTER_PORT}" for name, address in nodes.items()}
        kubelets = {name: f"{address}:{KUBELET_PORT}" for name, address in nodes.items()}
        jobs.append(Scraped("node-exporter", exporters, scheme="http"))
        jobs += [Scraped(job, kubelets, path=path) for job, path in KUBELET_PATHS.items()]
    return jobs


def configuration(jobs: list[Scraped], authority: KeyPair, user: KeyPair) -> Json:
    """Prometheus' configuration file for these jobs.

    Args:
        jobs: What is scraped.
        authority: The authority that signed the programs' certificates.
        user: Prometheus' own certificate.
    """
    return {
        "global": {"scrape_interval": f"{INTERVAL_S}s", "scrape_timeout": f"{INTERVAL_S}s"},
        "scrape_configs": [_job(job, authority, user) for job in jobs],
    }


def _job(job: Scraped, authority: KeyPair, user: KeyPair) -> Json:
    config: Json = {
        "job_name": job.job,
        "scheme": job.scheme,
        "metrics_path": job.path,
        "static_configs": [
            {"targets": [address], "labels": {"node": node} if node else {}}
            for node, address in job.targets.items()
        ],
    }
    if job.scheme == "https":
        config["tls_config"] = {"cert_file": str(user.certificate), "key_file": str(user.key)}
        trusted = {"ca_file": str(authority.certificate)} if job.verify else {"insecure_skip_verify": True}
        cast("Json", config["tls_config"]).update(trusted)
    return config
