"""The rule on PCIe root complexes: a node that would spread a pod's GPUs keeps a share of its score (R13).

Applied in the decoder, to whatever policy, because it is the operator's (`RuleTable.spread_factor`) and not
the model's. A score is no physical amount and may be negative: such a one is divided by the factor, so that
the node falls behind in either case. Nodes of which it is not known whether they would spread the GPUs keep
their score.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain import ClusterState, GpuRequest, Node
from stowplan.core.semantics.root_complexes import (
    RootComplexFit,
    free_gpus_by_root_complex,
    root_complex_fit,
    root_complexes_of,
)

__all__ = ["RootComplexes"]


class RootComplexes:
    """Where the GPUs of each row hang, kept as long as the nodes are the same."""

    def __init__(self, state: ClusterState) -> None:
        """Read nothing yet."""
        self._state = state
        self._nodes: list[Node | None] = []
        self._roots: NDArray[np.int32] = np.zeros((0, 0), np.int32)

    def spreads(self, request: GpuRequest) -> NDArray[np.bool_]:
        """Tell on which rows the GPUs of `request` would be of several root complexes, bool (capacity,)."""
        state = self._state
        if self._nodes != state.nodes:  # compares by identity first
            self._nodes = list(state.nodes)
            self._roots = root_complexes_of(self._nodes)[0]
        free = state.gpu_free_milli[: len(self._nodes), : self._roots.shape[1]]
        counts = free_gpus_by_root_complex(free, self._roots, milli=request.milli)
        return root_complex_fit(counts, request.count) == RootComplexFit.SPREAD

    def weigh(self, scores: NDArray[np.float64], request: GpuRequest, factor: float) -> NDArray[np.float64]:
        """Return the scores (capacity,) with `factor` applied to rows that would spread the GPUs."""
        spread = self.spreads(request)
        return np.where(spread, np.where(scores >= 0.0, scores * factor, scores / factor), scores)
