"""Where a real node's things are: folder, control groups and socket, by the cluster's name and its number."""

from dataclasses import dataclass
from pathlib import Path

from testbed.errors import MissingPrerequisite
from testbed.site import Site

LONGEST_SOCKET_PATH = 107  # bytes, by the kernel's struct sockaddr_un


@dataclass(frozen=True)
class NodePlace:
    """One real node's place on the machine.

    Attributes:
        number: Counted from 1.
    """

    site: Site
    number: int

    @property
    def name(self) -> str:
        """The name of the node in Kubernetes."""
        return f"node-{self.number}"

    @property
    def folder(self) -> Path:
        """Where its files are, as this machine sees them."""
        return self.site.folder / self.name

    @property
    def address(self) -> str:
        """Its address in the cluster."""
        return self.site.node_address(self.number)

    @property
    def namespace(self) -> str:
        """Its network namespace."""
        return self.site.node_namespace(self.number)

    @property
    def group(self) -> str:
        """The control group that holds its pods together, in every hierarchy."""
        return f"{self.site.control_group}/{self.name}"

    @property
    def daemons_group(self) -> str:
        """The group of its kubelet and containerd, with the shims that containerd starts; no limit is on it.

        Apart from the pods' group, since the kubelet owns what is below that, and apart from the other
        nodes', so that one node can be ended alone.
        """
        return f"{self.site.control_group}/daemons-{self.number}"

    @property
    def containerd_socket(self) -> Path:
        """The socket of its containerd, as this machine sees it.

        Raises:
            MissingPrerequisite: The path is too long for a socket.
        """
        path = self.folder / "run" / "containerd.sock"
        if len(bytes(path)) > LONGEST_SOCKET_PATH:
            raise MissingPrerequisite(
                f"{path} is {len(bytes(path))} bytes long, a socket's path may have {LONGEST_SOCKET_PATH}: "
                "name a shorter cache folder with STOWPLAN_CACHE"
            )
        return path
