"""Bid prices that also keep the nodes which some pods must have: the only ones large enough for them.

A few pods fit only on a few nodes, even empty: those with the most GPUs, cores or memory, or of one model.
Any small pod that settles there keeps them waiting until it leaves. So to the costs of `bid_price` comes
0.3 × the load of the kind of node × the room taken, in thousandths of a GPU. The load is what is asked for
per GPU of the kind, when each kind of pod spreads evenly over all GPUs of nodes that could hold it; nodes
that any pod could do without have the least. Room is the largest share of the node's GPUs, CPU or memory,
times its GPUs, so that pods without a GPU keep away too.

The weight is that of the models in `bid_price`. On the burst of `bench/burst` (seeds from 100 on) three and
ten times as much did no better.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain import CPU, CPU_COLUMN, MEMORY, MEMORY_COLUMN, PodShape
from stowplan.core.policy.interface import CycleView
from stowplan.core.policy.nodes.bid_price import BidPrice

__all__ = ["RareNodes"]

_WHOLE = 1000
_WEIGHT = 0.3


class RareNodes(BidPrice):
    """Node and GPU as by bid prices, but away from nodes that others must have."""

    def __init__(self, *, workload: Mapping[PodShape, float] | None = None) -> None:
        """Expect a `workload`, so many pods of each shape; None: what was bound and has come."""
        super().__init__(workload=workload)
        self._expected: Mapping[PodShape, float] = {}
        self._row_load: NDArray[np.float64] = np.zeros(0, dtype=np.float64)
        self._is_stale = True
        self._load_epoch = -1

    def begin(self, view: CycleView) -> None:
        """Start a cycle; nodes that came, went or changed make other loads."""
        if self.is_other_state(view):
            self._expected, self._is_stale = {}, True
        super().begin(view)
        if self._is_stale or self._load_epoch != self.feed.epoch:
            self._row_load = self._loads()
            self._is_stale, self._load_epoch = False, self.feed.epoch
            self.forget_scores()

    def expect(self, pods: Mapping[PodShape, float]) -> None:
        """Take the pods to come to be like these, so many of each shape."""
        self._expected, self._is_stale = dict(pods), True
        super().expect(pods)

    def costs(self, shape: PodShape, rows: NDArray[np.intp]) -> dict[str, NDArray[np.float64]]:
        """Return what placing `shape` costs on each of `rows`, part by part; none while nothing is known."""
        costs = super().costs(shape, rows)
        if costs and self._row_load.size == self.state.capacity:
            state = self.state
            gpus = np.count_nonzero(state.gpu_free_milli[rows] >= 0, axis=1)
            taken_milli = np.zeros(rows.size, dtype=np.float64)
            if shape.gpu is not None:
                taken_milli += shape.gpu.count * shape.gpu.milli
            for name, column in ((CPU, CPU_COLUMN), (MEMORY, MEMORY_COLUMN)):
                share = shape.requests.get(name, 0) / np.maximum(state.allocatable[rows, column], 1)
                taken_milli = np.maximum(taken_milli, _WHOLE * gpus * share)
            costs["nodes that others must have"] = _WEIGHT * taken_milli * self._row_load[rows]
        return costs

    def _loads(self) -> NDArray[np.float64]:
        """Return the load of each row's kind of node, shape (capacity,); 1 where every pod could be held."""
        state = self.state
        gpus = np.count_nonzero(state.gpu_free_milli >= 0, axis=1)
        load = np.zeros(state.capacity, dtype=np.float64)
        asking = {shape: many for shape, many in self._expected.items() if shape.gpu is not None}
        asked = sum(many * _gpus(shape) for shape, many in asking.items())
        for shape, many in asking.items():
            gpu = shape.gpu
            if gpu is None:
                continue
            columns, amounts = state.request_vector(shape.requests)
            holds = state.is_node & (gpus >= gpu.count)
            holds &= (state.allocatable[:, columns] >= amounts).all(axis=1)
            if gpu.models:
                ids = [number for number, model in enumerate(state.gpu_models) if model in gpu.models]
                holds &= np.isin(state.gpu_model_ids, ids)
            room = int(gpus[holds].sum())
            if room:
                load[holds] += many * _gpus(shape) / asked * int(gpus.sum()) / room
        return load


def _gpus(shape: PodShape) -> float:
    return shape.gpu.count * shape.gpu.milli / _WHOLE if shape.gpu is not None else 0.0
