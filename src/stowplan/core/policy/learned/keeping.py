"""Rows of the node side, kept from cycle to cycle: only nodes whose features changed are computed anew."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stowplan.core.encoder import Encoded, Encoder
from stowplan.core.policy.learned.graphs import Graphs

__all__ = ["KeptNodes"]


class KeptNodes:
    """The rows of all nodes of one encoder, as of their features now.

    Attributes:
        rows: float32 (N, node_width).
    """

    __slots__ = ("_encoder", "_epoch", "_features", "_graphs", "rows")

    def __init__(self, encoder: Encoder, graphs: Graphs) -> None:
        """Keep what `graphs` says of the nodes of `encoder`, which nobody else asks for changes."""
        self._encoder = encoder
        self._graphs = graphs
        self._epoch = -1
        self._features: NDArray[np.float32] = np.empty((0, 0), np.float32)
        self.rows: NDArray[np.float32] = np.empty((0, 0), np.float32)

    def begin(self, encoded: Encoded) -> None:
        """Catch up with a cycle.

        Raises:
            InternalError: the network gives numbers that are not finite.
        """
        changed = self._encoder.refresh_nodes()
        features = encoded.node_features
        if encoded.node_epoch != self._epoch or features is not self._features:
            self._epoch = -1  # so that a failure leaves nothing behind that looks right
            self.rows = self._graphs.node_rows(features)
            self._epoch, self._features = encoded.node_epoch, features
        elif changed.size:
            self._replace(changed)

    def catch_up(self) -> NDArray[np.intp]:
        """Catch up within a cycle; return the places of the nodes that changed, ascending.

        Raises:
            InternalError: the network gives numbers that are not finite.
        """
        changed = self._encoder.refresh_nodes()
        if changed.size:
            self._replace(changed)
        return changed

    def _replace(self, changed: NDArray[np.intp]) -> None:
        epoch, self._epoch = self._epoch, -1
        self.rows[changed] = self._graphs.node_rows(self._features[changed])
        self._epoch = epoch
