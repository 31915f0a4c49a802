"""What the two sides of the network mean together, in NumPy, for serving.

    log slowdown(g, n) = slowdown query(g) · slowdown key(n): what physics does not foresee
    log spread(g, n)   = spread(g) + spread query(g) · slowdown key(n), within bounds
    pointer(g, n)      = −α(g) · (log prior(g, n) + trust(g) · log slowdown(g, n)) + query(g) · key(n)
    order(g)           = order prior(g) + residual(g)

`learn.network_decision` says the same in PyTorch and explains it; a test holds the two together. The log
prior is the encoder's: machine type and contention by physics (`Encoded.log_prior`). What is learned of all
groups and nodes is one matrix product: of all that a group asks for (its query, its slowdown query × −α ×
trust) and all that a node has (its key, its slowdown key). After a placement only the columns of the nodes
that changed are made anew. Products are summed in double and then rounded, so that equal nodes score the
same, whether they were computed together or one by one.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.policy.learned.sizes import NetworkSizes

__all__ = ["ALPHA_BOUNDS", "SPREAD_BOUNDS", "Groups", "Pointers", "joined_keys"]

Floats = NDArray[np.float32]

ALPHA_BOUNDS: Final = (0.05, 100.0)
"""Least and greatest weight of the log of the duration in a node's score; a proposal."""
SPREAD_BOUNDS: Final = (0.02, 2.0)
"""Least and greatest standard deviation of the log of a duration; a proposal."""


def joined_keys(sizes: NetworkSizes, nodes: Floats) -> Floats:
    """Return what the joined queries are multiplied with, a view of shape (N, keys + slowdown_keys).

    Args:
        sizes: of the network.
        nodes: (N, node_width) from the node side.
    """
    return nodes[:, : sizes.keys + sizes.slowdown_keys]


class Groups:
    """What the task side says of the groups of one cycle, ready to be asked.

    Attributes:
        alpha: (G,) weight of the log of the duration.
        trust: (G,) share of the predicted slowdown that counts in placing.
        order: (G,) what is added to the order prior.
        wait: (G,) logit of waiting, relative to the best node.
        blocking: (G,) logit of the risk that a task of the group is blocked.
        queries: (G, keys + slowdown_keys) joined queries.
    """

    __slots__ = ("_rows", "_sizes", "alpha", "blocking", "order", "queries", "trust", "wait")

    def __init__(self, sizes: NetworkSizes, rows: Floats) -> None:
        """Read `rows` (G, group_width) from the task side."""
        columns = sizes.group_columns
        low, high = ALPHA_BOUNDS
        self._sizes, self._rows = sizes, rows
        self.alpha = np.exp(np.clip(rows[:, columns["log_alpha"]], math.log(low), math.log(high)))[:, 0]
        self.trust = rows[:, columns["trust"]][:, 0]
        self.order = rows[:, columns["order"]][:, 0]
        self.wait = rows[:, columns["wait"]][:, 0]
        self.blocking = rows[:, columns["blocking"]][:, 0]
        slowdown = -(self.alpha * self.trust)[:, None] * rows[:, columns["slowdown_query"]]
        self.queries = np.concatenate((rows[:, columns["query"]], slowdown), axis=1)

    def scores_without_prior(self, group: int, nodes: Floats) -> Floats:
        """Return what is learned of nodes (N, node_width) for a group, (N,): their scores at a prior of 0."""
        return joined_keys(self._sizes, nodes) @ self.queries[group]

    def log_slowdown(self, group: int, node: Floats) -> float:
        """Return the log of the slowdown of a group on a node beyond the prior, by its row (node_width,)."""
        key = node[self._sizes.node_columns["slowdown_key"]]
        return float(self._rows[group, self._sizes.group_columns["slowdown_query"]] @ key)

    def spread(self, group: int, node: Floats) -> float:
        """Return the standard deviation of the log of the duration of a group on a node."""
        columns = self._sizes.group_columns
        key = node[self._sizes.node_columns["slowdown_key"]]
        log_spread = (
            self._rows[group, columns["spread"].start] + self._rows[group, columns["spread_query"]] @ key
        )
        low, high = SPREAD_BOUNDS
        return min(max(math.exp(float(log_spread)), low), high)


class Pointers:
    """Scores of nodes for all groups of one cycle."""

    __slots__ = ("_alpha", "_asked")

    def __init__(self, groups: Groups) -> None:
        """Ask for the groups of a cycle."""
        self._asked = groups.queries.astype(np.float64)
        self._alpha = groups.alpha.astype(np.float64)[:, None]

    def of(self, keys: Floats, log_prior: Floats) -> Floats:
        """Return the score of every node for every group, shape (G, N).

        Args:
            keys: (N, keys + slowdown_keys) from `joined_keys`.
            log_prior: (G, N) from `Encoded.log_prior`.
        """
        found = self._asked @ keys.T.astype(np.float64)
        found -= self._alpha * log_prior
        return found.astype(np.float32)
