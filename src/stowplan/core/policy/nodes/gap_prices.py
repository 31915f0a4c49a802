"""What free GPU is worth, gap by gap, given the requests to come: dual prices of a packing programme.

A gap is what is left of one GPU. Let N gaps of each size and supplies S of each kind of request be there; the
programme fills gaps with requests so that most GPU is used. Its dual gives each kind a price μ ≥ 0, high
where requests are scarcer than the gaps that suit them, and each gap h a worth, the best filling at what
requests bring net of their price: a knapsack, w(h) = max(w(h - 1), max over k of s_k - μ_k + w(h - s_k)). A
hole that only a few small requests could fill is worth little once there are more such holes than requests;
the requests that could fill it are worth nothing elsewhere. The whole GPUs of one node are worth W(n), which
counts requests for several of them likewise.

The prices are those that minimise Σ S μ + Σ N w. They follow by steps against the subgradient, S minus what
the best fillings use, from where they were: gaps and supplies change little between two adjustments. The
worths are those at the mean of the last steps, since single steps swing.

Sources: P. C. Gilmore, R. E. Gomory, "A Linear Programming Approach to the Cutting-Stock Problem", Operations
Research 9(6), 1961 (fillings as knapsacks over duals); M. Held, P. Wolfe, H. P. Crowder, "Validation of
subgradient optimization", Mathematical Programming 6, 1974.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

__all__ = ["LEVELS", "LEVEL_MILLI", "GapPrices"]

LEVELS = 100
"""Into how many levels a GPU is divided: gaps are rounded down to one, requests up."""
LEVEL_MILLI = 1000 // LEVELS

_STEPS = 10
_STEP_MILLI = 4.0


class GapPrices:
    """Prices of requests and worths of gaps, all in thousandths of a GPU.

    Attributes:
        gap_worth: w by level, shape (LEVELS + 1,).
        whole_worth: W by number of whole free GPUs on a node, shape (most + 1,).
    """

    def __init__(
        self, rates: Mapping[tuple[int, int], float], most: int, start: Mapping[tuple[int, int], float]
    ) -> None:
        """Price the requests of a workload.

        Args:
            rates: requests to come per thousandth of GPU that is asked for, by (GPUs, thousandths of each).
            most: how many GPUs a node has at most.
            start: prices to go on from; requests that it does not name start at 0.
        """
        self._singles: list[int] = sorted(milli for count, milli in rates if count == 1)
        self._counts: list[int] = sorted(count for count, _ in rates if count > 1)
        requests = self._requests()
        self._rate = np.array([rates[request] for request in requests], dtype=np.float64)
        self._levels: NDArray[np.intp] = -(-np.array(self._singles, dtype=np.intp) // LEVEL_MILLI)
        brings_milli = (LEVEL_MILLI * self._levels).tolist() + [1000 * count for count in self._counts]
        self._brings_milli = np.array(brings_milli, dtype=np.float64)
        self._price = np.array([start.get(request, 0.0) for request in requests], dtype=np.float64)
        below = np.arange(LEVELS + 1, dtype=np.intp)[:, None] - self._levels
        self._below: NDArray[np.intp] = np.maximum(below, 0)
        self._too_small = below < 0
        self._most = most
        self._solve(self._price)

    def _requests(self) -> list[tuple[int, int]]:
        return [(1, milli) for milli in self._singles] + [(count, 1000) for count in self._counts]

    def prices(self) -> dict[tuple[int, int], float]:
        """Return μ by request."""
        return dict(zip(self._requests(), self._price.tolist(), strict=True))

    def adjust(self, gaps: NDArray[np.int64], wholes: NDArray[np.int64], supply_milli: float) -> None:
        """Move the prices towards what holds now.

        Args:
            gaps: number of GPUs that are partly free, by level, shape (LEVELS + 1,).
            wholes: number of nodes, by how many whole free GPUs they have, shape (most + 1,).
            supply_milli: how much GPU the requests to come ask for together.
        """
        supply = self._rate * supply_milli
        mean = np.zeros_like(self._price)
        for step in range(_STEPS):
            self._solve(self._price)
            # One more than the supply: else requests that are rarer than one would move prices most.
            excess = (supply - self._used(gaps, wholes)) / (supply + 1.0)
            self._price -= _STEP_MILLI * np.clip(excess, -1.0, 1.0)
            np.clip(self._price, 0.0, self._brings_milli, out=self._price)
            if step >= _STEPS // 2:
                mean += self._price / (_STEPS - _STEPS // 2)
        self._solve(mean)

    def _solve(self, price: NDArray[np.float64]) -> None:
        """Set the worths at `price`, and with which request a best filling of each gap begins."""
        net = self._brings_milli - price
        single, several = net[: self._levels.size], net[self._levels.size :]
        worth = np.zeros(LEVELS + 1, dtype=np.float64)
        while True:  # each round allows one request more in a gap
            filled = np.where(self._too_small, -np.inf, single + worth[self._below])
            better = np.maximum.accumulate(filled.max(axis=1, initial=0.0))
            if np.array_equal(better, worth):
                break
            worth = better
        self.gap_worth = worth
        # The smallest gap of the same worth is filled alike, and something does fill it exactly.
        self._same: NDArray[np.intp] = np.searchsorted(worth, worth).astype(np.intp)
        if single.size:
            self._first: NDArray[np.intp] = filled.argmax(axis=1)
        whole_worth = [0.0]
        self._several: list[int] = [-1]  # index into counts; −1: the last GPU is filled as a gap
        for number in range(1, self._most + 1):
            best, choice = whole_worth[number - 1] + float(worth[LEVELS]), -1
            for index, count in enumerate(self._counts):
                if count <= number and float(several[index]) + whole_worth[number - count] > best:
                    best, choice = float(several[index]) + whole_worth[number - count], index
            whole_worth.append(best)
            self._several.append(choice)
        self.whole_worth = np.array(whole_worth, dtype=np.float64)

    def _used(self, gaps: NDArray[np.int64], wholes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return how many requests of each kind the best fillings use."""
        used = np.zeros_like(self._price)
        to_fill = gaps.astype(np.float64)
        nodes: list[float] = wholes.astype(np.float64).tolist()
        for number in range(self._most, 0, -1):
            index = self._several[number]
            if index >= 0:
                used[self._levels.size + index] += nodes[number]
                nodes[number - self._counts[index]] += nodes[number]
            else:
                to_fill[LEVELS] += nodes[number]
                nodes[number - 1] += nodes[number]
        single = used[: self._levels.size]
        while True:
            to_fill = np.bincount(self._same, weights=to_fill, minlength=LEVELS + 1)
            to_fill[0] = 0.0  # worth nothing, stays empty
            (levels,) = to_fill.nonzero()
            if not levels.size:
                return used
            first, many = self._first[levels], to_fill[levels]
            single += np.bincount(first, weights=many, minlength=single.size)
            to_fill = np.bincount(levels - self._levels[first], weights=many, minlength=LEVELS + 1)
