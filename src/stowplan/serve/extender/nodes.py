"""The nodes that a question is about, as far as they are known here.

kube-scheduler's watch and ours run beside each other, so it may ask about a node that the state has not seen.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain import ClusterState

__all__ = ["known_nodes"]


def known_nodes(state: ClusterState, names: Sequence[str]) -> tuple[Sequence[str], NDArray[np.intp]]:
    """Return those of `names` that are nodes of `state`, in their order, and their rows, shape (known,)."""
    rows = state.rows_of(names)
    if (rows < 0).any():
        names = [name for name, row in zip(names, rows.tolist(), strict=True) if row >= 0]
        rows = rows[rows >= 0]
    return names, rows
