"""Delay between real nodes: a relay in the hub holds every packet that goes from one node to another.

The kernels that the cluster runs on may lack netem. All traffic between nodes is routed by the hub, each on a
link of its own, so a routing rule per link sends what is for another node, or its pods, into a TUN device; a
small program (`relay/relay.c`) holds each packet and writes it back, and the hub routes it on. Traffic to the
control plane and between pods of one node does not pass through it. Without the relay's process nothing
passes between nodes.
"""

import mmap
import re
import struct
from dataclasses import dataclass
from pathlib import Path

from testbed import network
from testbed.control_plane import ControlPlane
from testbed.daemons import Daemon
from testbed.errors import MissingPrerequisite
from testbed.images import compiled_program
from testbed.site import Site

DEVICE = "delay"
TABLE = 100  # of the hub's routing tables; nothing else of ours uses one
LONGEST_S = 10.0
# struct shared of relay.c: delay, passed, dropped, late in all, latest; the first is ours to write.
_SHARED = struct.Struct("=5Q")
_NS_PER_S = 1e9


@dataclass(frozen=True)
class Counts:
    """What the relay did since it started.

    Attributes:
        passed: Packets that it gave back.
        dropped: Packets that found the queue full, or that the hub did not take back.
        mean_late_s: How much longer than the delay a packet was held, on average.
        worst_late_s: The same for the packet that was held longest.
    """

    passed: int
    dropped: int
    mean_late_s: float
    worst_late_s: float


class DelayRelay:
    """The running relay of one cluster."""

    def __init__(self, plane: ControlPlane, daemon: Daemon, file: Path) -> None:
        self.plane = plane
        self.daemon = daemon
        with file.open("r+b") as handle:
            self._shared = mmap.mmap(handle.fileno(), _SHARED.size)

    def set(self, delay_s: float) -> None:
        """Change the one-way delay, from the next packet to leave on.

        Raises:
            MissingPrerequisite: No delay, or one that is too long.
        """
        self._shared[:8] = _delay_field(delay_s)

    def end(self) -> None:
        """Take the delay away; what is held is lost."""
        hub = self.plane.site.hub
        network.ip_in(hub, *(f"rule delete iif node{number}" for number in _nodes(self.plane.site)))
        self.plane.daemons.forget(self.daemon.name)
        self.daemon.end()
        network.ip_in(hub, f"tuntap delete dev {DEVICE} mode tun")
        self._shared.close()

    def counts(self) -> Counts:
        """What it did since it started."""
        _, passed, dropped, late_ns, worst_ns = _SHARED.unpack(self._shared[:])
        return Counts(passed, dropped, late_ns / max(passed, 1) / _NS_PER_S, worst_ns / _NS_PER_S)


def delay_between(plane: ControlPlane, delay_s: float) -> DelayRelay:
    """Hold every packet between two real nodes, and between their pods, for a time.

    Called once, after the nodes joined the network.

    Args:
        plane: The cluster's control plane.
        delay_s: One-way delay in seconds, so a round trip takes twice that.

    Raises:
        MissingPrerequisite: No delay, or one that is too long; no compiler.
        ComponentFailed: The relay did not start.
    """
    site = plane.site
    field = _delay_field(delay_s)
    program = compiled_program("relay", Path(__file__).resolve().parent)
    shared = site.folder / "delay"
    shared.write_bytes(field.ljust(_SHARED.size, b"\0"))
    network.ip_in(site.hub, f"tuntap add dev {DEVICE} mode tun", f"link set {DEVICE} up")
    daemon = plane.daemons.start("delay-relay", [program, DEVICE, shared])
    plane.daemons.wait_for("the delay relay runs", lambda: b"relaying" in daemon.log.read_bytes(), 10.0)
    network.ip_in(site.hub, *_routes(site, _nodes(site)))
    return DelayRelay(plane, daemon, shared)


def _delay_field(delay_s: float) -> bytes:
    if not 0 <= delay_s <= LONGEST_S:  # not a number fails too
        raise MissingPrerequisite(f"delay_s={delay_s!r}: must be from 0 to {LONGEST_S:g} seconds")
    return struct.pack("=Q", round(delay_s * _NS_PER_S))


def _nodes(site: Site) -> list[int]:
    """Numbers of the real nodes on the network, by the names of their namespaces."""
    names = (path.name for path in network.NAMESPACES.glob(f"{site.hub}-*"))
    found = (re.fullmatch(rf"{re.escape(site.hub)}-(\d+)", name) for name in names)
    return sorted(int(match[1]) for match in found if match)


def _routes(site: Site, numbers: list[int]) -> list[str]:
    """Commands that send what comes from one node and is for another into the device."""
    commands: list[str] = []
    for number in numbers:
        targets = (f"{site.node_address(number)}/32", site.pod_range(number))
        commands += [f"route add {target} dev {DEVICE} table {TABLE}" for target in targets]
        commands.append(f"rule add iif node{number} lookup {TABLE}")
    return commands
