"""Bid prices: place where what the pods to come could have done with the room is worth least.

A placement costs, in thousandths of a GPU, what the node loses of its worth to the pods expected:

- of its gaps: what is left of each GPU is worth its best filling at the prices of `gap_prices`, and the whole
  GPUs of a node together more than each alone where requests for several could have taken them;
- 0.03 × stranded GPU, in expectation: what stays free because CPU, or memory, ran out (`outlook.Need`);
- 0.3 × the load of the GPU's model × the GPU taken: how much GPU is asked for per GPU free, when every pod
  spreads over the models that it accepts, so that models which some pods must have are left to them.

The gaps decide first, which is why the rest weighs little. Costs are in whole thousandths; equals go to the
lowest row. The pods to come are taken to ask for as much GPU as is free, in the proportions of the workload;
prices are adjusted whenever a hundredth of the pods that fill the cluster came or went. No pod is turned
away: prices say where, not whether.

Source: K. Talluri, G. van Ryzin, "An Analysis of Bid-Price Controls for Network Revenue Management",
Management Science 44(11), 1998, where room is sold at dual prices. That only differences between nodes count,
and the last two terms, are ours; their weights were chosen on openb (seeds from 100 on) and matter little
between a third and three times as much.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain import CPU, MEMORY, PendingTask, PodShape
from stowplan.core.policy.interface import CycleView
from stowplan.core.policy.nodes.gap_prices import LEVEL_MILLI, LEVELS, GapPrices
from stowplan.core.policy.nodes.outlook import Outlook
from stowplan.core.policy.nodes.rowwise import RowwiseRule, Spare
from stowplan.core.policy.nodes.workload import SeenWorkload

__all__ = ["BidPrice"]

_WHOLE = 1000
_STRANDED_WEIGHT = 0.03
_LOAD_WEIGHT = 0.3
_ADJUSTMENTS = 100
_NO_ROOM = 1e6


class BidPrice(RowwiseRule):
    """Node and GPU by the least loss of worth to the pods to come."""

    def __init__(self, *, workload: Mapping[PodShape, float] | None = None) -> None:
        """Expect a `workload`, so many pods of each shape; None: what was bound and has come."""
        super().__init__()
        self._spare = Spare(self)
        self._given = workload
        self._seen = SeenWorkload()
        self._outlook: Outlook | None = None
        self._prices: GapPrices | None = None
        self._last_prices: Mapping[tuple[int, int], float] = {}
        self._load: NDArray[np.float64] = np.zeros(1, dtype=np.float64)
        self._priced_epoch = self._priced_length = self._interval = 0

    @property
    def forgets(self) -> bool:
        """No: prices go on from where they were."""
        return False

    def begin(self, view: CycleView) -> None:
        """Start a cycle: take in the tasks that came since the last one."""
        is_new = self.is_other_state(view)
        pods = self._given if is_new else None
        if self._given is None:
            pods = self._seen.take_in(view, anew=is_new)
        super().begin(view)
        if is_new:
            self._outlook, self._prices, self._last_prices = None, None, {}
        if pods is not None:
            self.expect(pods)

    def expect(self, pods: Mapping[PodShape, float]) -> None:
        """Take the pods to come to be like these, so many of each shape."""
        self._outlook, self._prices = Outlook.of(pods), None
        self.forget_scores()

    def key_of(self, shape: PodShape) -> Hashable:
        """Only CPU, memory and the size of the GPU request matter."""
        gpu = shape.gpu
        requested = (gpu.count, gpu.milli) if gpu is not None else None
        return shape.requests.get(CPU, 0), shape.requests.get(MEMORY, 0), requested

    def scores_of(self, shape: PodShape) -> NDArray[np.float64]:
        """Return the scores of all rows for `shape`, shape (capacity,), at prices that are up to date."""
        if self._outlook is not None:
            self._adjust_prices(self._outlook)
        return super().scores_of(shape)

    def score_rows(self, shape: PodShape, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return the negative cost per row, in whole thousandths of a GPU."""
        return -np.round(sum(self.costs(shape, rows).values(), np.zeros(rows.size, dtype=np.float64)))

    def choose_gpus(self, task: PendingTask, row: int) -> tuple[int, ...] | None:
        """Return the GPUs where shares cost least; whole GPUs are left to the decoder."""
        gpu = task.task.shape.gpu
        if gpu is None or gpu.milli >= _WHOLE or self._prices is None:
            return None
        gpus_left = self._spare.gpus_left(np.array([row], dtype=np.intp))
        costs = self._share_costs(self._prices, gpu.milli, gpus_left)[0]
        return tuple(sorted(np.argsort(costs, kind="stable")[: gpu.count].tolist()))

    def contributions(self, task: PendingTask, row: int) -> Mapping[str, float]:
        """Return the parts of the cost, as they lower the score."""
        costs = self.costs(task.task.shape, np.array([row], dtype=np.intp))
        return {name: -float(cost[0]) for name, cost in costs.items()}

    def costs(self, shape: PodShape, rows: NDArray[np.intp]) -> dict[str, NDArray[np.float64]]:
        """Return what placing `shape` costs on each of `rows`, part by part; none while nothing is known."""
        if self._outlook is None or self._prices is None:
            return {}
        gpu, state = shape.gpu, self.state
        gpus_left = self._spare.gpus_left(rows)
        free_milli = gpus_left.sum(axis=1)
        costs: dict[str, NDArray[np.float64]] = {}
        after_milli = free_milli
        if gpu is not None:
            if gpu.milli >= _WHOLE:
                costs["room for other GPU requests"] = self._whole_costs(self._prices, gpu.count, gpus_left)
            else:
                each = np.sort(self._share_costs(self._prices, gpu.milli, gpus_left), axis=1)
                costs["room for other GPU requests"] = each[:, : gpu.count].sum(axis=1)
            taken_milli = gpu.count * gpu.milli
            after_milli = np.maximum(free_milli - taken_milli, 0)
            costs["GPU model"] = _LOAD_WEIGHT * taken_milli * self._load[state.gpu_model_ids[rows]]
        for need in self._outlook.needs:
            left = state.allocatable[rows, need.column] - state.requested[rows, need.column]
            after = left - shape.requests.get(need.name, 0)
            more = need.stranded_milli(after_milli, after) - need.stranded_milli(free_milli, left)
            costs[f"GPU without {need.name}"] = _STRANDED_WEIGHT * more
        return costs

    @staticmethod
    def _whole_costs(prices: GapPrices, count: int, gpus_left: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the worth lost with `count` whole GPUs, shape (n,)."""
        wholes = np.count_nonzero(gpus_left == _WHOLE, axis=1)
        return prices.whole_worth[wholes] - prices.whole_worth[np.maximum(wholes - count, 0)]

    @staticmethod
    def _share_costs(prices: GapPrices, milli: int, gpus_left: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the worth lost with a share, by GPU, shape (n, gpus); much where it does not fit."""
        is_whole = gpus_left == _WHOLE
        wholes = np.count_nonzero(is_whole, axis=1)
        opened = prices.whole_worth[wholes] - prices.whole_worth[np.maximum(wholes - 1, 0)]
        before = np.where(is_whole, opened[:, None], prices.gap_worth[gpus_left // LEVEL_MILLI])
        after = prices.gap_worth[np.maximum(gpus_left - milli, 0) // LEVEL_MILLI]
        return np.where(gpus_left >= milli, before - after, _NO_ROOM)

    def _adjust_prices(self, outlook: Outlook) -> None:
        """Adjust the prices, if enough has changed."""
        feed, state = self.feed, self.state
        feed.catch_up()
        is_same = self._prices is not None and self._priced_epoch == feed.epoch
        if is_same and feed.length - self._priced_length < self._interval:
            return
        gpus_left = np.maximum(state.gpu_free_milli, 0).astype(np.int64)
        most = gpus_left.shape[1]
        if self._prices is None or self._prices.whole_worth.size != most + 1:
            self._prices = GapPrices(outlook.rates, most, self._last_prices)
        is_whole = gpus_left == _WHOLE
        gaps = np.bincount(gpus_left[~is_whole] // LEVEL_MILLI, minlength=LEVELS + 1)
        wholes = np.bincount(np.count_nonzero(is_whole, axis=1), minlength=most + 1)
        self._prices.adjust(gaps, wholes, float(gpus_left.sum()))
        self._last_prices = self._prices.prices()
        free_milli = np.zeros(len(state.gpu_models) + 1, dtype=np.int64)
        np.add.at(free_milli, state.gpu_model_ids, gpus_left.sum(axis=1))
        load = outlook.model_load(state.gpu_models, free_milli[:-1])  # the last is where ABSENT, −1, points
        self._load = np.append(load, 0.0)
        capacity_milli = _WHOLE * np.count_nonzero(state.gpu_free_milli >= 0)
        self._interval = max(int(capacity_milli / outlook.pod_milli / _ADJUSTMENTS), 1)
        self._priced_epoch, self._priced_length = feed.epoch, feed.length
        self.forget_scores()
