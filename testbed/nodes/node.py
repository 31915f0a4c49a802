"""A real node: started, hurt as real faults do, and ended."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from testbed import cgroups, network
from testbed.control_plane import ControlPlane
from testbed.daemons import Daemon
from testbed.nodes import kubelet, limits, own_mounts, runtime
from testbed.nodes.limits import DiskLimit
from testbed.nodes.place import NodePlace
from testbed.spec import RealNode

_log = logging.getLogger(__name__)


@dataclass
class RunningNode:
    """A running real node.

    Attributes:
        spec: What it was asked to be.
        disk_limit: What its disk throttle holds on this machine.
    """

    place: NodePlace
    spec: RealNode
    plane: ControlPlane
    disk_limit: DiskLimit
    keeper: Daemon

    @property
    def name(self) -> str:
        """Its name in Kubernetes."""
        return self.place.name

    @property
    def number(self) -> int:
        """Its number, counted from 1."""
        return self.place.number

    @property
    def address(self) -> str:
        """Its address in the cluster."""
        return self.place.address

    @property
    def containerd_socket(self) -> Path:
        """The socket of its containerd, as this machine sees it."""
        return self.place.containerd_socket

    @property
    def disk_throttled(self) -> bool:
        """Whether its pods are held to the disk rates that were asked for."""
        return self.disk_limit is not DiskLimit.NONE

    def start_runtime(self) -> None:
        """Start containerd; containers that outlived an earlier one are found again.

        Raises:
            ComponentFailed: It ended or did not answer in time.
        """
        runtime.start(self.place, self.plane.daemons, self.keeper)

    def kill_runtime(self) -> None:
        """Kill containerd as a crash would; its containers go on."""
        self._kill(f"containerd-{self.number}")

    def start_kubelet(self) -> None:
        """Start the kubelet; returns at once, the node's status tells when it is ready."""
        kubelet.start(self.place, self.plane, self.keeper, self.spec.labels)

    def kill_kubelet(self) -> None:
        """Kill the kubelet as a crash would; its pods go on."""
        self._kill(f"kubelet-{self.number}")

    def stop(self) -> None:
        """End all that runs on the node and take it off the network, as a machine that is switched off.

        The node stays in Kubernetes, which will find it gone; its files stay until the cluster ends. A node
        that is off stays off.
        """
        daemons = self.plane.daemons
        # Whoever started it: what stays in the node's network namespace would keep that, and the link, alive.
        ended = [d for d in daemons.running.values() if d.namespace == self.place.namespace]
        for daemon in ended:
            daemons.forget(daemon.name)
        for group in (self.place.daemons_group, self.place.group):
            cgroups.end_members(group)
            cgroups.remove(group)
        for daemon in ended:
            daemon.kill()
        if (network.NAMESPACES / self.place.namespace).exists():
            network.leave(self.place.site, self.number)

    def _kill(self, name: str) -> None:
        self.plane.daemons.running[name].kill()
        self.plane.daemons.forget(name)


def start(plane: ControlPlane, number: int, spec: RealNode, images: Sequence[str]) -> RunningNode:
    """Start a real node; it joins the cluster by itself and is ready a few seconds later.

    Args:
        plane: The control plane that it joins.
        number: Counted from 1; the node is named `node-NUMBER`.
        spec: Its share of this machine, its labels and taints.
        images: Images of the catalogue that it has from the start.

    Raises:
        MissingPrerequisite: This machine cannot give it that share.
        ComponentFailed: A part of it did not start.
    """
    limits.check(number, spec)
    place = NodePlace(plane.site, number)
    network.join(plane.site, number)
    place.folder.mkdir()
    disk_limit = limits.apply(place, spec)
    keeper = own_mounts.make(place, plane.daemons)
    runtime.prepare(place, spec, disk_limit, images)
    kubelet.prepare(place, spec, plane)
    node = RunningNode(place, spec, plane, disk_limit, keeper)
    if not node.disk_throttled and (spec.disk_read_bytes_per_s or spec.disk_write_bytes_per_s):
        _log.warning(
            "%s: its disk cannot be throttled (no blkio or io controller, or not on a disk): it runs without",
            node.name,
        )
    node.start_runtime()
    node.start_kubelet()
    return node
