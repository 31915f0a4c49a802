"""kwok as a process of the cluster, in the hub's namespace beside the control plane.

It manages the nodes with its annotation only, so real nodes live beside them. One process stands for all
fake kubelets: they share the hub's address and one port, where the API server finds their use of resources.

Traps (kwok 0.8.0): a stage's jitter that is not above its delay *is* the delay
(pkg/utils/lifecycle/lifecycle.go), so no stage of ours has one; a delay begins anew with every change of the
object, so ours are absolute times; and the stock stages set both ends of a container's time to now.
"""

import datetime as dt
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import yaml
from lightkube import Client
from lightkube.resources.core_v1 import Node

from testbed import api, network
from testbed.control_plane import ControlPlane
from testbed.kwok import manifests
from testbed.programs import program_path
from testbed.site import Site
from testbed.spec import FakeNodes, Json

LEASE_S = 40  # a kubelet's; it is renewed four times in that time
PARALLEL_STAGES = 16  # each waits for the API server most of its time
HERE = Path(__file__).parent


def start(plane: ControlPlane, client: Client, groups: tuple[FakeNodes, ...]) -> None:
    """Start kwok and create its nodes.

    They are ready, but kube-scheduler uses them only when the node controller has taken away the taint that
    every new node begins with, which takes some seconds for thousands (see `wait_until_schedulable`).

    Raises:
        MissingPrerequisite: kwok is not built.
        ComponentFailed: kwok ended, or did not answer in time.
        ApiError: A node of that name exists.
    """
    site = plane.site
    serving = plane.authority.issue("kwok-serving", "kwok", addresses=[site.hub_address])
    api.create_all(client, manifests.access())
    plane.daemons.start(
        "kwok",
        [
            program_path("kwok"),
            f"--kubeconfig={plane.kubeconfig_for('kwok', manifests.USER)}",
            f"--tls-cert-file={serving.certificate}",
            f"--tls-private-key-file={serving.key}",
            *[f"--config={file}" for file in (_write_options(site), *configuration_files())],
            "--v=WARN",  # it otherwise logs every patch
        ],
        environment={
            "KWOK_WORKDIR": str(site.folder / "kwok")
        },  # not the user's ~/.kwok, whose stages it would add
    )
    with ThreadPoolExecutor(1) as pool:
        now = dt.datetime.now(dt.UTC)
        created = pool.submit(api.create_all, client, manifests.nodes(groups, site.hub_address, now))
        plane.daemons.wait_for(
            "kwok answers", lambda: network.answers(site.hub, site.hub_address, manifests.NODE_PORT)
        )
        created.result()


def wait_until_schedulable(plane: ControlPlane, client: Client, within_s: float = 120.0) -> None:
    """Wait until no fake node has the taint of a node that is not ready.

    Raises:
        ComponentFailed: Not in time.
    """

    def are_untainted() -> bool:
        return not any(
            taint.key == "node.kubernetes.io/not-ready"
            for node in client.list(Node)
            for taint in (node.spec.taints or [] if node.spec else [])
        )

    plane.daemons.wait_for("fake nodes have lost the taint of new nodes", are_untainted, within_s)


def configuration_files() -> list[Path]:
    """Our stages, and the metrics that fake nodes have."""
    return [*sorted((HERE / "stages").glob("*.yaml")), HERE / "usage.yaml"]


def options(site: Site) -> Json:
    """What kwok is told beside its stages."""
    return {
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokConfiguration",
        "options": {
            "cidr": site.fake_pod_range,
            "nodeIP": site.hub_address,
            "nodePort": manifests.NODE_PORT,
            "serverAddress": f"{site.hub_address}:{manifests.NODE_PORT}",
            "manageNodesWithAnnotationSelector": f"{manifests.FAKE_NODE}=fake",
            "nodeLeaseDurationSeconds": LEASE_S,
            "nodeLeaseParallelism": PARALLEL_STAGES,
            "nodePlayStageParallelism": PARALLEL_STAGES,
            "podPlayStageParallelism": PARALLEL_STAGES,
        },
    }


def _write_options(site: Site) -> Path:
    file = site.folder / "kwok.yaml"
    file.write_text(yaml.safe_dump(options(site)))
    return file
