"""How large the network is, and where its outputs lie: shared by training, export and serving.

Both graphs give one matrix each, so that a row is one node (or one group of tasks) and can be kept, replaced
and compared as a whole. The columns of these matrices are named here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from stowplan.errors import InvalidInput

__all__ = [
    "NODE_INPUT",
    "NODE_OUTPUT",
    "POSITION_COLUMNS",
    "TASK_INPUTS",
    "TASK_OUTPUTS",
    "NetworkShape",
    "NetworkSizes",
]

POSITION_COLUMNS: Final = 4
"""Columns of `Encoded.position`: order, depth, number of parents, upward rank."""

NODE_INPUT: Final = "node_features"
NODE_OUTPUT: Final = "nodes"
TASK_INPUTS: Final = ("task_features", "position", "cluster_features", "pooled_nodes")
TASK_OUTPUTS: Final = ("groups", "value")


class NetworkShape(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Sizes of the network that are ours to choose; the defaults are a proposal.

    Attributes:
        width: of the vectors that stand for a node and for a group of tasks.
        heads: of the attention; they share `width`.
        layers: of the transformer.
        feed_forward: width between the two linear maps of a layer.
        node_hidden: width of the first layer on the node side.
        keys: length of a node's key and of a group's query for what is preferred.
        slowdown_keys: the same for the predicted slowdown.
        frequencies: sines and cosines of each whole number of the position.
    """

    width: int = 64
    heads: int = 4
    layers: int = 2
    feed_forward: int = 128
    node_hidden: int = 96
    keys: int = 32
    slowdown_keys: int = 16
    frequencies: int = 8

    def __post_init__(self) -> None:
        """Refuse sizes that no network can have.

        Raises:
            InvalidInput: a size is below 1, or the heads do not share the width evenly.
        """
        for name in self.__struct_fields__:
            if getattr(self, name) < 1:
                raise InvalidInput(f"network: {name} is {getattr(self, name)}; it must be at least 1")
        if self.width % self.heads:
            raise InvalidInput(
                f"network: {self.heads} heads cannot share a width of {self.width}; use a multiple"
            )


class NetworkSizes(NetworkShape, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All sizes of the network: those that are ours to choose, and columns of the encoder's arrays.

    Attributes:
        task_features, cluster_features, node_features: columns of the encoder's arrays.
    """

    task_features: int
    cluster_features: int
    node_features: int

    @property
    def node_columns(self) -> Mapping[str, slice]:
        """Where in a row of the node side's matrix its parts lie."""
        return _columns(key=self.keys, slowdown_key=self.slowdown_keys, summary=self.width)

    @property
    def group_columns(self) -> Mapping[str, slice]:
        """Where in a row of the task side's matrix its parts lie."""
        return _columns(
            query=self.keys,
            slowdown_query=self.slowdown_keys,
            spread_query=self.slowdown_keys,
            spread=1,
            log_alpha=1,
            trust=1,
            order=1,
            wait=1,
            blocking=1,
        )

    @property
    def node_width(self) -> int:
        """Columns of the node side's matrix."""
        return self.node_columns["summary"].stop

    @property
    def group_width(self) -> int:
        """Columns of the task side's matrix."""
        return self.group_columns["blocking"].stop

    @property
    def pooled_width(self) -> int:
        """Length of the summary of all nodes: mean and largest of each column."""
        return 2 * self.width


def _columns(**widths: int) -> Mapping[str, slice]:
    found: dict[str, slice] = {}
    start = 0
    for name, width in widths.items():
        found[name] = slice(start, start + width)
        start += width
    return found
