"""etcd, kube-apiserver, kube-controller-manager and kube-scheduler, all in the hub's namespace, RBAC on.

The limits that a test cluster would otherwise measure instead of the scheduler are raised: the API server's
requests in flight, and the clients' rates. kube-scheduler ignores `--kube-api-qps` on the command line; the
rate has to stand in its configuration file, or it binds 50 pods per second at most.
"""

import json
import ssl
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from testbed import certificates, network
from testbed.certificates import Authority, KeyPair
from testbed.daemons import Daemons
from testbed.programs import program_path
from testbed.site import Site
from testbed.spec import Json

API_QPS = 10_000
API_PORT = 443  # of the service `kubernetes`, whose address the hub has
SCHEDULER_PORT = 10259
ETCD = "http://127.0.0.1:2379"  # the hub's own loopback: no other cluster's etcd is there
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")


@dataclass(frozen=True)
class ControlPlane:
    """A running control plane and what others need to join it."""

    site: Site
    daemons: Daemons
    authority: Authority
    administrator: KeyPair

    @property
    def server(self) -> str:
        """The API server's address."""
        return f"https://{self.site.hub_address}:{API_PORT}"

    def answers(self, path: str) -> bool:
        """Whether the API server answers the administrator's GET of that path with OK."""
        context = ssl.create_default_context(cafile=self.authority.pair.certificate)
        context.load_cert_chain(self.administrator.certificate, self.administrator.key)
        opener = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=context), urllib.request.ProxyHandler({})
        )
        try:
            with opener.open(self.server + path, timeout=2.0) as answer:
                return answer.status == HTTPStatus.OK
        except OSError:  # not listening yet, or another answer (an HTTP error is an OSError too)
            return False

    def kubeconfig_for(self, file: str, user: str, *groups: str) -> Path:
        """Write a kubeconfig of a user in these groups, as `FILE.kubeconfig` in the cluster's folder."""
        pair = self.authority.issue(file, user, organisations=groups)
        return self.authority.kubeconfig(self.site.folder / f"{file}.kubeconfig", self.server, pair)

    def start_scheduler(self, fields: Json, name: str = "kube-scheduler", flags: Sequence[str] = ()) -> None:
        """Start kube-scheduler: fields of KubeSchedulerConfiguration are laid over ours, flags added."""
        configuration = scheduler_configuration(self.kubeconfig_for(name, "system:kube-scheduler"), fields)
        file = self.site.folder / f"{name}.yaml"
        file.write_text(json.dumps(configuration))
        self.daemons.start(
            name,
            [
                program_path("kube-scheduler"),
                f"--config={file}",
                "--bind-address=127.0.0.1",
                "--authorization-always-allow-paths=/healthz,/readyz,/livez,/metrics",
                *flags,
            ],
        )
        self.daemons.wait_for(
            f"{name} is ready", lambda: network.answers(self.site.hub, "127.0.0.1", SCHEDULER_PORT)
        )


def scheduler_configuration(kubeconfig: Path, fields: Json) -> Json:
    """A KubeSchedulerConfiguration that is not held back by its client's rate, with `fields` laid over it."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": API_QPS, "burst": API_QPS},
        "leaderElection": {"leaderElect": False},
    } | fields


def start(
    site: Site,
    daemons: Daemons,
    *,
    has_controllers: bool = True,
    api_server_flags: Sequence[str] = (),
    dead_node_s: int = 12,
) -> ControlPlane:
    """Start etcd, the API server and the controller manager, and wait until the API server is ready.

    Args:
        site: Where.
        daemons: What its processes are entered in.
        has_controllers: Whether the controller manager runs. Without it objects stay as they are written: no
            node is tainted for want of a heartbeat, no volume bound, no namespace given a service account.
        api_server_flags: Flags of kube-apiserver after ours.
        dead_node_s: After how many seconds without a heartbeat a node counts as dead. Kubelets and kwok send
            one every ten, so little time above that is enough for a few nodes only.

    Raises:
        MissingPrerequisite: A program is not built.
        ComponentFailed: A program ended or was not ready in time.
    """
    keys = site.folder / "keys"
    authority = Authority(keys)
    plane = ControlPlane(site, daemons, authority, _administrator(authority))
    authority.kubeconfig(site.kubeconfig, plane.server, plane.administrator)
    signing = certificates.service_account_keys(keys)
    _start_etcd(site, daemons)
    _start_api_server(plane, signing, api_server_flags)
    daemons.wait_for("the API server is ready", lambda: plane.answers("/readyz"))
    if has_controllers:
        _start_controller_manager(plane, signing, dead_node_s)
    return plane


def _administrator(authority: Authority) -> KeyPair:
    return authority.issue("administrator", "administrator", organisations=["system:masters"])


def _start_etcd(site: Site, daemons: Daemons) -> None:
    daemons.start(
        "etcd",
        [
            program_path("etcd"),
            f"--data-dir={site.folder / 'etcd'}",
            f"--listen-client-urls={ETCD}",
            f"--advertise-client-urls={ETCD}",
            "--listen-peer-urls=http://127.0.0.1:2380",
            "--unsafe-no-fsync",  # a test cluster does not outlive the machine's crash
            "--quota-backend-bytes=4294967296",
            "--log-level=warn",
        ],
    )


def _start_api_server(plane: ControlPlane, signing: KeyPair, more_flags: Sequence[str]) -> None:
    site = plane.site
    serving = plane.authority.issue(
        "kube-apiserver",
        "kube-apiserver",
        addresses=[
            site.hub_address,
            site.service_address,
            "127.0.0.1",
            "localhost",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
        ],
    )
    kubelet_client = plane.authority.issue(
        "kube-apiserver-kubelet", "kube-apiserver-kubelet", organisations=["system:masters"]
    )
    plane.daemons.start(
        "kube-apiserver",
        [
            program_path("kube-apiserver"),
            f"--etcd-servers={ETCD}",
            f"--secure-port={API_PORT}",
            f"--advertise-address={site.hub_address}",
            f"--tls-cert-file={serving.certificate}",
            f"--tls-private-key-file={serving.key}",
            f"--client-ca-file={plane.authority.pair.certificate}",
            f"--kubelet-client-certificate={kubelet_client.certificate}",
            f"--kubelet-client-key={kubelet_client.key}",
            f"--kubelet-certificate-authority={plane.authority.pair.certificate}",
            "--kubelet-preferred-address-types=InternalIP",  # there is no DNS for node names
            f"--service-account-key-file={signing.certificate}",
            f"--service-account-signing-key-file={signing.key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            f"--service-cluster-ip-range={site.service_range}",
            "--max-requests-inflight=4000",
            "--max-mutating-requests-inflight=2000",
            "--delete-collection-workers=8",  # one by default
            "--request-timeout=5m",  # on a busy machine thousands of pods are not deleted in one minute
            "--allow-privileged=true",
            *more_flags,
        ],
    )


def _start_controller_manager(plane: ControlPlane, signing: KeyPair, dead_node_s: int) -> None:
    kubeconfig = plane.kubeconfig_for("kube-controller-manager", "system:kube-controller-manager")
    authority = plane.authority.pair
    plane.daemons.start(
        "kube-controller-manager",
        [
            program_path("kube-controller-manager"),
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            "--bind-address=127.0.0.1",
            f"--root-ca-file={authority.certificate}",
            f"--cluster-signing-cert-file={authority.certificate}",
            f"--cluster-signing-key-file={authority.key}",
            f"--service-account-private-key-file={signing.key}",
            "--use-service-account-credentials=true",
            "--leader-elect=false",
            f"--kube-api-qps={API_QPS}",
            f"--kube-api-burst={API_QPS}",
            "--node-monitor-period=1s",
            f"--node-monitor-grace-period={dead_node_s}s",
            # It writes to every node whenever their number passes 100, 500, 1,000 …, and nobody reads that.
            "--controllers=*,-ttl-controller",
        ],
    )
