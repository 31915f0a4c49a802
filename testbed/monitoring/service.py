"""Prometheus in the hub's namespace, and a node exporter in each real node's.

The nodes share one machine and one kernel, so the exporters tell the same of processors, memory and disks:
what the whole machine does. Only the network is each node's own. What a node's pods use is in its kubelet's
metrics (jobs `cadvisor` and `resource`), which are read from the node's control groups.
"""

from pathlib import Path

import yaml
from lightkube import Client

from testbed import api
from testbed.control_plane import ControlPlane
from testbed.monitoring import configuration, debian, interface
from testbed.spec import ClusterSpec

RETENTION_TIME = "2h"
RETENTION_SIZE = "512MB"

# It reads /sys/class/net, which shows this machine's links to a process that only entered the namespace.
WITHOUT = ("netclass",)


def start(plane: ControlPlane, spec: ClusterSpec) -> None:
    """Start Prometheus and the node exporters; returns when it answers queries.

    It takes up its targets within the five seconds after that, and scrapes each within five more.

    Raises:
        MissingPrerequisite: Debian's packages cannot be had.
        ComponentFailed: One ended, or was not ready in time.
    """
    for number in range(1, len(spec.real_nodes) + 1):
        _start_exporter(plane, number)
    client = api.connect(plane.site.kubeconfig)
    try:
        _start_prometheus(plane, spec, client)
    finally:
        client.close()
    plane.daemons.wait_for("Prometheus is ready", lambda: interface.is_ready(plane.site))


def _start_exporter(plane: ControlPlane, number: int) -> None:
    site = plane.site
    plane.daemons.start(
        f"node-exporter-{number}",
        [
            debian.program("prometheus-node-exporter", "prometheus-node-exporter"),
            f"--web.listen-address={site.node_address(number)}:{configuration.NODE_EXPORTER_PORT}",
            *(f"--no-collector.{name}" for name in WITHOUT),
            "--log.level=warn",
        ],
        namespace=site.node_namespace(number),
    )


def _start_prometheus(plane: ControlPlane, spec: ClusterSpec, client: Client) -> None:
    api.create_all(client, configuration.rights())
    plane.daemons.start(
        "prometheus",
        [
            debian.program("prometheus", "prometheus"),
            f"--config.file={_write_configuration(plane, spec)}",
            f"--storage.tsdb.path={plane.site.folder / 'prometheus'}",
            f"--storage.tsdb.retention.time={RETENTION_TIME}",
            f"--storage.tsdb.retention.size={RETENTION_SIZE}",
            f"--web.listen-address=:{configuration.PORT}",  # of the hub's namespace
            "--log.level=warn",
        ],
    )


def _write_configuration(plane: ControlPlane, spec: ClusterSpec) -> Path:
    user = plane.authority.issue(configuration.USER, configuration.USER)
    written = configuration.configuration(configuration.scraped(plane, spec), plane.authority.pair, user)
    file = plane.site.folder / "prometheus.yaml"
    file.write_text(yaml.safe_dump(written))
    return file
