"""A node's kubelet: its rights, its configuration, its start.

It has what a kubelet has anywhere: a client certificate by which the Node authorizer knows it, a serving
certificate, and callers checked through the API server (webhook). Allocatable is exactly the node's share:
the rest of the machine is reserved.

Source: kubelet.config.k8s.io/v1beta1 of Kubernetes 1.37.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import psutil
import yaml

from testbed.control_plane import ControlPlane
from testbed.daemons import Daemon
from testbed.nodes import own_mounts, runtime
from testbed.nodes.place import NodePlace
from testbed.programs import program_path
from testbed.spec import Json, RealNode, taint

PORT = 10250
STATUS_EVERY = "2s"
LEASE_S = 8  # renewed every quarter of it
API_QPS = 1000


def prepare(place: NodePlace, spec: RealNode, plane: ControlPlane) -> None:
    """Issue the kubelet's certificates and write its configuration."""
    name = f"kubelet-{place.number}"
    plane.kubeconfig_for(name, f"system:node:{place.name}", "system:nodes")
    serving = plane.authority.issue(f"{name}-serving", place.name, addresses=[place.address, place.name])
    document = configuration(place, spec, os.cpu_count() or 1, psutil.virtual_memory().total) | {
        "tlsCertFile": str(serving.certificate),
        "tlsPrivateKeyFile": str(serving.key),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(plane.authority.pair.certificate)},
        },
    }
    (place.folder / "kubelet.yaml").write_text(yaml.safe_dump(document))


def configuration(place: NodePlace, spec: RealNode, cores: int, memory_bytes: int) -> Json:
    """A KubeletConfiguration without its certificates.

    Args:
        place: The node's place.
        spec: The node's share.
        cores: Cores of this machine.
        memory_bytes: Memory of this machine.
    """
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": place.address,
        "port": PORT,
        "healthzPort": 10248,  # on the loopback of the node's own namespace
        "readOnlyPort": 0,
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": runtime.ENDPOINT,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{place.group}",
        "cgroupsPerQOS": True,
        "enforceNodeAllocatable": [],  # the node's group has the limits, and the kubelet is outside of it
        "failCgroupV1": False,
        "failSwapOn": False,
        "kubeReserved": {
            "cpu": f"{round((cores - spec.cpus) * 1000)}m",
            "memory": str(memory_bytes - spec.memory_bytes),
        },
        # Nothing is evicted because the machine, which others use too, is short of something.
        "evictionHard": dict.fromkeys(
            (
                "memory.available",
                "nodefs.available",
                "nodefs.inodesFree",
                "imagefs.available",
                "imagefs.inodesFree",
            ),
            "0%",
        ),
        "imageGCHighThresholdPercent": 100,
        "imageMinimumGCAge": "24h",
        "maxPods": spec.max_pods,
        "registerWithTaints": [taint(text) for text in spec.taints],
        # A dead kubelet is to be noticed in seconds.
        "nodeStatusUpdateFrequency": STATUS_EVERY,
        "nodeLeaseDurationSeconds": LEASE_S,
        "clusterDNS": [place.site.dns_address],
        "resolvConf": "",
        "podLogsDir": "/var/log/pods",
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
        "makeIPTablesUtilChains": False,  # no iptables anywhere in the cluster
        "serializeImagePulls": False,
        "kubeAPIQPS": API_QPS,
        "kubeAPIBurst": API_QPS,
        "eventRecordQPS": 0,  # every event is recorded: tests read them
    }


def start(place: NodePlace, plane: ControlPlane, keeper: Daemon, labels: Mapping[str, str]) -> Daemon:
    """Start the kubelet; it registers the node by itself."""
    name = f"kubelet-{place.number}"
    command: list[str | Path] = [
        program_path("kubelet"),
        f"--config={place.folder / 'kubelet.yaml'}",
        f"--kubeconfig={place.site.folder / name}.kubeconfig",
        f"--hostname-override={place.name}",
        f"--node-ip={place.address}",
        "--root-dir=/var/lib/kubelet",
        "--cert-dir=/var/lib/kubelet/pki",
    ]
    if labels:
        command.append("--node-labels=" + ",".join(f"{key}={value}" for key, value in sorted(labels.items())))
    return own_mounts.start_process(place, plane.daemons, name, command, inside=keeper)
