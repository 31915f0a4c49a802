"""How many GPUs are free under one PCIe root complex: what a task of several GPUs wants to find together."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain import Node

__all__ = ["GpuRooms"]

_WHOLE_MILLI = 1000


class GpuRooms:
    """Root complexes of the GPUs, by row of a cluster state and place of the GPU on its node."""

    def __init__(self) -> None:
        """Know no node."""
        self._root_of: NDArray[np.int32] = np.empty(
            (0, 0), np.int32
        )  # −1: no such GPU, or its root is unknown
        self._roots = 0

    def grow(self, rows: int) -> None:
        """Make room for `rows` rows."""
        more = rows - len(self._root_of)
        if more > 0:
            self._root_of = np.pad(self._root_of, ((0, more), (0, 0)), constant_values=-1)

    def set(self, row: int, node: Node) -> None:
        """Note the GPUs of the node in `row`."""
        names = [gpu.root_complex for gpu in node.hardware.gpus]
        wider = len(names) - self._root_of.shape[1]
        if wider > 0:
            self._root_of = np.pad(self._root_of, ((0, 0), (0, wider)), constant_values=-1)
        self._root_of[row] = -1
        number_of = {name: number for number, name in enumerate(sorted({*names} - {""}))}
        self._root_of[row, : len(names)] = [number_of.get(name, -1) for name in names]
        self._roots = max(self._roots, len(number_of))

    def most_together(self, rows: NDArray[np.intp], free_milli: NDArray[np.int32]) -> NDArray[np.float64]:
        """Return the most GPUs that are wholly free under one root complex, float64 (rows,).

        Args:
            rows: of the state.
            free_milli: (rows, gpus) free thousandths of each, −1 where there is no such GPU.

        NaN where a node has no GPU of which the root complex is known.
        """
        roots = self._root_of[rows]
        free = free_milli[:, : roots.shape[1]] >= _WHOLE_MILLI
        most = np.where((roots >= 0).any(axis=1), 0.0, math.nan)
        for root in range(self._roots):
            most = np.maximum(most, (free & (roots == root)).sum(axis=1))
        return most
