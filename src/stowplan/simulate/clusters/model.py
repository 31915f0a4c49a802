"""What a simulation runs on: nodes, the network between them, and what disturbs them.

`Node.hardware` says what one machine can do; `Fabric` what lies between machines. Distances are the five link
classes of the physics: same PCIe root complex, same node, same rack, same zone, other zone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, fields

import numpy as np

from stowplan.core.domain import RACK_LABEL, ZONE_LABEL, Node, WorkProfile
from stowplan.core.physics.vocabulary import LinkClass, Resource
from stowplan.errors import InvalidInput, InvalidObject

__all__ = ["BackgroundTenant", "CapacityChange", "Cluster", "Drift", "Fabric", "Link"]


@dataclass(frozen=True, slots=True)
class Link:
    """Bandwidth (bytes per second; 0: not known, limits nothing) and one-way latency (seconds)."""

    bytes_per_s: float = 0.0
    latency_s: float = 0.0

    def __post_init__(self) -> None:
        """Refuse numbers that no link has."""
        for item in fields(self):
            number: float = getattr(self, item.name)
            if not (math.isfinite(number) and number >= 0.0):
                raise InvalidInput(f"link: {item.name} is {number}; it must be a finite number ≥ 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fabric:
    """The network between two ends, by how far apart they are, and what a rack and a zone share.

    The five links are what one pair of ends can get: between GPUs on one PCIe root complex, in one node,
    between nodes of one rack, of one zone, and of two zones. `rack_uplink` and `zone_uplink` are shared, in
    each direction, by everything that leaves or enters the rack or the zone, `node_interconnect` by what
    passes between the root complexes of a node; 0 limits nothing.
    """

    same_root_complex: Link = field(default_factory=Link)
    same_node: Link = field(default_factory=Link)
    same_rack: Link = field(default_factory=Link)
    same_zone: Link = field(default_factory=Link)
    other_zone: Link = field(default_factory=Link)
    rack_uplink_bytes_per_s: float = 0.0
    zone_uplink_bytes_per_s: float = 0.0
    node_interconnect_bytes_per_s: float = 0.0

    def __post_init__(self) -> None:
        """Refuse uplinks that cannot be."""
        for name in ("rack_uplink_bytes_per_s", "zone_uplink_bytes_per_s", "node_interconnect_bytes_per_s"):
            number: float = getattr(self, name)
            if not (math.isfinite(number) and number >= 0.0):
                raise InvalidInput(f"fabric: {name} is {number}; it must be a finite number ≥ 0")

    def link(self, distance: LinkClass) -> Link:
        """Return the link between two ends at `distance`."""
        match distance:
            case LinkClass.SAME_ROOT_COMPLEX:
                return self.same_root_complex
            case LinkClass.SAME_NODE:
                return self.same_node
            case LinkClass.SAME_RACK:
                return self.same_rack
            case LinkClass.SAME_ZONE:
                return self.same_zone
            case LinkClass.OTHER_ZONE:
                return self.other_zone


@dataclass(frozen=True, slots=True)
class BackgroundTenant:
    """Work on a node that the scheduler does not see: a neighbour on the same machine, a daemon, a backup.

    `work` begins at `first_s` and again `every_s` seconds after each beginning (None: once).
    """

    name: str
    node: str
    work: WorkProfile
    first_s: float = 0.0
    every_s: float | None = None

    def starts_s(self, until_s: float) -> Iterator[float]:
        """Yield the beginnings before `until_s`."""
        if self.every_s is None:
            if self.first_s < until_s:
                yield self.first_s
            return
        count = 0
        while (start_s := self.first_s + count * self.every_s) < until_s:
            yield start_s
            count += 1


@dataclass(frozen=True, slots=True)
class CapacityChange:
    """At `time_s`, `resource` of `node` becomes `factor` times its nominal capacity."""

    time_s: float
    node: str
    resource: Resource
    factor: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """A "static" resource that is not: each node alternates between normal and degraded, independently.

    The two states last exponentially distributed times (a two-state Markov chain in continuous time). With
    `levels` given, every change into the degraded state draws its factor from them (for example the measured
    quantiles of a drift law); else it is `degraded_factor`.
    """

    nodes: tuple[str, ...]
    resource: Resource
    mean_normal_s: float
    mean_degraded_s: float
    degraded_factor: float = 0.05
    levels: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a chain that cannot be."""
        for name in ("mean_normal_s", "mean_degraded_s"):
            number: float = getattr(self, name)
            if not (math.isfinite(number) and number > 0.0):
                raise InvalidInput(f"drift: {name} is {number}; it must be a finite number above 0")
        for factor in (self.degraded_factor, *self.levels):
            if not (math.isfinite(factor) and factor > 0.0):
                raise InvalidInput(f"drift: factor {factor} must be a finite number above 0")

    def changes(self, rng: np.random.Generator, until_s: float) -> tuple[CapacityChange, ...]:
        """Draw the changes before `until_s`, node by node, sorted by time (ties by node order)."""
        drawn: list[CapacityChange] = []
        for node in self.nodes:
            time_s = float(rng.exponential(self.mean_normal_s))
            while time_s < until_s:
                factor = float(rng.choice(self.levels)) if self.levels else self.degraded_factor
                drawn.append(CapacityChange(time_s, node, self.resource, factor))
                time_s += float(rng.exponential(self.mean_degraded_s))
                if time_s < until_s:
                    drawn.append(CapacityChange(time_s, node, self.resource, 1.0))
                time_s += float(rng.exponential(self.mean_normal_s))
        return tuple(sorted(drawn, key=lambda change: change.time_s))


@dataclass(frozen=True, slots=True)
class Cluster:
    """Nodes with distinct names, the fabric between them, and what disturbs them.

    Raises:
        InvalidObject: no node, two of one name, or a disturbance of a node that is not there.
    """

    name: str
    nodes: tuple[Node, ...]
    fabric: Fabric = field(default_factory=Fabric)
    background: tuple[BackgroundTenant, ...] = ()
    drift: tuple[Drift, ...] = ()
    source: str = ""
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the names."""
        if not self.nodes:
            raise InvalidObject(f"cluster {self.name!r} has no nodes; give it at least one")
        names: set[str] = set()
        for node in self.nodes:
            if node.name in names:
                raise InvalidObject(
                    f"cluster {self.name!r}: node {node.name!r} occurs twice; names must be unique"
                )
            names.add(node.name)
        for tenant in self.background:
            if tenant.node not in names:
                raise InvalidObject(
                    f"cluster {self.name!r}: background tenant {tenant.name!r} is on the unknown node "
                    f"{tenant.node!r}"
                )
        for drift in self.drift:
            unknown = [name for name in drift.nodes if name not in names]
            if unknown:
                raise InvalidObject(
                    f"cluster {self.name!r}: drift of {drift.resource.name} names unknown {unknown[0]!r}"
                )

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self.nodes)

    @property
    def cores(self) -> float:
        """Allocatable cores over all nodes."""
        return sum(node.allocatable.get("cpu", 0) for node in self.nodes) / 1000

    @staticmethod
    def distance(one: Node, other: Node) -> LinkClass:
        """Return how far apart two nodes are, by their rack and zone labels; equal nodes are `SAME_NODE`.

        Racks of one name in two zones are different racks. A node without a label counts as in the rack or
        zone of the nodes that lack it too.
        """
        if one.name == other.name:
            return LinkClass.SAME_NODE
        if one.label(ZONE_LABEL) != other.label(ZONE_LABEL):
            return LinkClass.OTHER_ZONE
        if one.label(RACK_LABEL) != other.label(RACK_LABEL):
            return LinkClass.SAME_ZONE
        return LinkClass.SAME_RACK
