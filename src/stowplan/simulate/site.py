"""The machines as two sides see them: the scheduler's cluster state, and the kernel that runs the work.

The two agree about who is bound where; they differ, on purpose, about nodes that broke and were not noticed
yet. All changes of nodes go through here, so that overlapping disturbances of one resource multiply instead
of undoing each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain import ClusterState, Node, NodeRemoved, NodeSet, Taint, TaintEffect, validate_state
from stowplan.core.physics.laws import PhysicsLaws
from stowplan.core.physics.vocabulary import Resource
from stowplan.errors import InternalError
from stowplan.simulate.clusters.model import Cluster
from stowplan.simulate.hardware import Machines
from stowplan.simulate.kernel.kernel import FluidKernel

__all__ = ["Condition", "Site"]

_LINKS = (Resource.NIC_UP, Resource.NIC_DOWN)
_LEAST_LEFT = 1e-18  # of what is not a link, so that a capacity without bound stays one
UNREACHABLE = Taint("node.kubernetes.io/unreachable", "", TaintEffect.NO_SCHEDULE)
RECLAIMED = Taint("stowplan.io/spot-reclaim", "", TaintEffect.NO_SCHEDULE)


@dataclass(slots=True)
class Condition:
    """What is the matter with one node.

    `episode` counts its outages: what was planned for one is void in the next. `is_mute`: nobody hears from
    its tasks.
    """

    taints: set[Taint] = field(default_factory=set[Taint])
    episode: int = 0
    is_out: bool = False
    is_mute: bool = False
    is_gone: bool = False
    comes_back: bool = False


class Site:
    """Nodes by index in `cluster.nodes` (the kernel's row) or by row of the state; the two may differ.

    Attributes:
        node_of_row: int64 (state capacity,); node index on each row of the state, −1: none.
        conditions: one per node.
        contention: whether tasks slow each other down.
    """

    def __init__(self, cluster: Cluster, laws: PhysicsLaws, *, contention: bool) -> None:
        """Build both sides."""
        self.contention = contention
        self.nodes = cluster.nodes
        self.machines = Machines.of(cluster)
        self.state = ClusterState()
        for node in cluster.nodes:
            self.state.apply(NodeSet(node))
        self.kernel = FluidKernel(self.machines.nodes, laws=laws, contention=contention)
        self.node_of_row: NDArray[np.int64] = np.full(self.state.capacity, -1, dtype=np.int64)
        self.index_of = {node.name: index for index, node in enumerate(cluster.nodes)}
        for name, row in self.state.rows():
            self.node_of_row[row] = self.index_of[name]
        self.conditions = [Condition() for _ in cluster.nodes]
        self._factors: dict[tuple[int, Resource], dict[object, float]] = {}
        self._link_factors: dict[int, dict[object, float]] = {}

    @property
    def expects_nodes(self) -> bool:
        """Whether some node is away or closed to new pods and will be back."""
        return any(c.comes_back and (c.is_out or c.is_gone or c.taints) for c in self.conditions)

    def keys_on(self, node: int) -> list[str]:
        """Return the keys of the pods bound to a node."""
        row = self.state.row(self.nodes[node].name)
        return list(self.state.pods_on[row]) if row >= 0 else []

    # ---- capacities -----------------------------------------------------------------------------

    def scale(self, node: int, resource: Resource, source: object, factor: float) -> None:
        """Have `source` leave `factor` of a node's resource; 1 ends its influence. Sources multiply.

        A resource whose capacity the cluster does not tell limits nothing, whatever is left of it.
        """
        if resource == Resource.PCIE:
            for root_complex in range(self.machines.nodes.root_complexes):
                self.scale_root_complex(node, root_complex, source, factor)
            return
        factors = self._factors.setdefault((node, resource), {})
        left = _combined(factors, source, factor)
        self.kernel.set_node_capacity(node, resource, left if resource in _LINKS else max(left, _LEAST_LEFT))

    def scale_root_complex(self, node: int, root_complex: int, source: object, factor: float) -> None:
        """Have `source` leave `factor` of a PCIe root complex; a node that lacks it is not touched."""
        if root_complex < self.machines.nodes.root_complexes:
            link = self.machines.nodes.root_complex_link(node, root_complex)
            factors = self._link_factors.setdefault(link, {})
            self.kernel.set_link_capacity(link, _combined(factors, source, factor))

    def root_complex_share(self, node: int) -> float | None:
        """Return what is left of the weakest PCIe root complex of a node with GPUs; None: it has none."""
        links = [
            self.machines.nodes.root_complex_link(node, root)
            for root in dict.fromkeys(self.machines.root_of_gpu[node])
        ]
        shares = [math.prod(self._link_factors.get(link, {}).values()) for link in links]
        return min(shares, default=None)

    # ---- conditions -----------------------------------------------------------------------------

    def stop(self, node: int) -> None:
        """Have the tasks of a node stand still."""
        self.kernel.set_node_state(node, up=False)

    def resume(self, node: int) -> None:
        """Have the tasks of a node go on."""
        self.kernel.set_node_state(node, up=True)

    def taint(self, node: int, taint: Taint) -> None:
        """Close a node to new pods."""
        self.conditions[node].taints.add(taint)
        self._describe(node)

    def untaint(self, node: int, taint: Taint) -> None:
        """Take a taint off, if the node has it."""
        if taint in self.conditions[node].taints:
            self.conditions[node].taints.discard(taint)
            self._describe(node)

    def take_away(self, node: int) -> None:
        """Remove a node, which has no pods any more, from the cluster."""
        row = self.state.row(self.nodes[node].name)
        self.state.apply(NodeRemoved(self.nodes[node].name))
        self.node_of_row[row] = -1
        self.conditions[node].is_gone = True
        self.conditions[node].taints.clear()
        self.stop(node)

    def put_back(self, node: int) -> None:
        """Return a node that was taken away, empty."""
        self.conditions[node].is_gone = False
        self._describe(node)
        self.node_of_row[self.state.row(self.nodes[node].name)] = node
        self.resume(node)

    def _describe(self, node: int) -> None:
        described: Node = self.nodes[node]
        taints = self.conditions[node].taints
        if taints:
            described = replace(described, taints=(*described.taints, *sorted(taints)))
        self.state.apply(NodeSet(described))

    # ---- checking -------------------------------------------------------------------------------

    def validate(self) -> None:
        """Check both sides and that they agree about the nodes.

        Raises:
            InternalError: an invariant does not hold.
        """
        validate_state(self.state)
        self.kernel.validate()
        present = {name for name, _ in self.state.rows()}
        for node, condition in zip(self.nodes, self.conditions, strict=True):
            if (node.name in present) == condition.is_gone:
                raise InternalError(
                    f"node {node.name!r} is gone: {condition.is_gone}, but known: {node.name in present}"
                )
        for name, row in self.state.rows():
            if self.nodes[int(self.node_of_row[row])].name != name:
                raise InternalError(
                    f"row {row} holds {name!r} but is mapped to node {int(self.node_of_row[row])}"
                )
        over = (self.state.requested > self.state.allocatable) & self.state.is_node[:, None]
        if over.any():
            row, column = np.argwhere(over)[0].tolist()
            raise InternalError(f"node {self.state.node(row).name!r} is overcommitted in column {column}")


def _combined(factors: dict[object, float], source: object, factor: float) -> float:
    if factor == 1.0:
        factors.pop(source, None)
    else:
        factors[source] = factor
    return math.prod(factors.values())
