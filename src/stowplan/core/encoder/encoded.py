"""What the encoder hands on: arrays of one cycle, for networks, and the raw numbers behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.physics.laws import PhysicsLaws
from stowplan.core.policy.stretch import Asked, Held, estimated_stretch

__all__ = ["EMPTIER", "Encoded"]

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Ints = NDArray[np.intp]

EMPTIER: Final = 1e-4
"""How much longer, relative, a task is taken to run on a full node than on an empty one that is equal else:
too little to count, and enough to choose between equals as the rules do. A proposal."""
_LAWS: Final = PhysicsLaws()
_ALL: Final = slice(None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """A cycle as arrays: G groups of pending tasks that are alike, N nodes, P pending tasks, T machine types.

    Everything is finite, but for the raw numbers. Groups are in the order of priority class, least remaining
    work of the workflow, longest way to an exit, and arrival; nodes in the order of their rows.

    The node arrays are the encoder's own: `Encoder.refresh_nodes` changes them within a cycle, and the next
    cycle too. Copy what is to be kept. The other arrays are of this cycle alone.

    Attributes:
        schema_id: of the columns.
        task_features: float32 (G, schema.task.width); scores, then masks.
        position: float32 (G, 4); place in the topological order, depth in edges, number of parents (counts,
            for sinusoids), upward rank as a share of the longest of the workflow.
        order_prior: float32 (G,); −log of the remaining expected seconds of the workflow.
        priority: int64 (G,); priority class, which goes before any order.
        cluster_features: float32 (schema.cluster.width,).
        asked_per_s: float32 (G, RESOURCE_COUNT); units of each `Resource` per second of work.
        exposed: float32 (G,); share of the time by itself that waits on memory.
        quota: float32 (G,); share of its speed that a limit on cores leaves.
        node_features: float32 (N, schema.node.width).
        load: float32 (N, RESOURCE_COUNT); what runs there asks for, units per second, known or hidden.
        capacity: float32 (N, RESOURCE_COUNT); what there is of it as measured, huge where it is not known.
        busy: float32 (N,); mean requested share of cores and memory.
        log_factor_of_type: float32 (G, T); log of the time factor of the group's work on a machine type.
        type_of_node: intp (N,); index of the node's machine type.
        node_rows: intp (N,); row of the node in the cluster state.
        node_epoch: grows when nodes came or went: what was kept by place of a node is void.
        group_of: intp (P,); group of each pending task of the view, −1 for those that must wait for a later
            cycle.
        members: of each group the indexes into `view.pending`, in order of arrival.
        raw_task: float64 (G, columns) in physical units, NaN where not known, whatever is switched off.
        raw_node: float64 (N, columns), the same of nodes.
        raw_cluster: float64 (columns,), the same of the cluster.
    """

    schema_id: str
    task_features: Floats
    position: Floats
    order_prior: Floats
    priority: NDArray[np.int64]
    cluster_features: Floats
    asked_per_s: Floats
    exposed: Floats
    quota: Floats
    node_features: Floats
    load: Floats
    capacity: Floats
    busy: Floats
    log_factor_of_type: Floats
    type_of_node: Ints
    node_rows: Ints
    node_epoch: int
    group_of: Ints
    members: Sequence[Sequence[int]]
    raw_task: Doubles
    raw_node: Doubles
    raw_cluster: Doubles

    def log_factor(self, groups: Ints | slice = _ALL, places: Ints | slice = _ALL) -> Floats:
        """Return the log of the time factor of groups on nodes, float32; 0 where nothing is known."""
        return self.log_factor_of_type[groups][:, self.type_of_node[places]]

    def log_prior(self, groups: Ints | slice = _ALL, places: Ints | slice = _ALL) -> Floats:
        """Return the log of how long tasks take on nodes as they are now, over what is expected of them.

        It is what is known without a network: the log of the time factor, of the estimated stretch by what
        runs there, and a little for nodes that are not empty (`EMPTIER`).

        Args:
            groups: some of the G groups.
            places: some of the N nodes.

        Returns:
            float32 (groups, places).
        """
        asked = Asked(self.asked_per_s[groups], self.exposed[groups], self.quota[groups])
        held = Held(self.load[places], self.capacity[places])
        found = estimated_stretch(asked, held, _LAWS).astype(np.float32, copy=False)
        np.log(found, out=found)
        found += self.log_factor(groups, places)
        found += np.float32(EMPTIER) * self.busy[places]
        return found

    def log_prior_at(self, group: int, place: int) -> float:
        """Return the log prior of one group on one node."""
        return float(self.log_prior(np.array([group]), np.array([place]))[0, 0])
