"""The contention law in NumPy, for many nodes at once: what a policy believes about tasks that share a node.

The same law and constants as the simulator's compiled solver (`core.physics.node`): bottleneck max fairness
in resource units, memory latency that grows with the load on memory, and the load found as the fixed point of
both. The compiled solver takes one node at a time and serves simulation; this one takes a batch of candidate
nodes, needs no compiler, and so runs where decisions are served. A test holds the two together on random
nodes.

Sources: T. Bonald, J. Roberts, "Multi-Resource Fairness: Objectives, Algorithms and Performance", SIGMETRICS
2015 (bottleneck max fairness); P. Esmaili-Dokht et al., "A Mess of Memory System Benchmarking, Simulation and
Application Profiling", MICRO 2024 (the curves behind the latency law).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stowplan.core.physics.laws import PhysicsLaws
from stowplan.core.physics.vocabulary import Resource

__all__ = ["NodeBatch", "predicted_rates"]

_CPU = int(Resource.CPU)
_DRAM = int(Resource.DRAM)
_LOAD_STEPS = 40


@dataclass(frozen=True, slots=True)
class NodeBatch:
    """N nodes with up to K tasks each, R resources as in `Resource`; places without a task have `alone` 0.

    Attributes:
        demand: (N, K, R) units per second of work on the reference machine, ≥ 0; cores in the CPU column are
            those at
            idle memory on this machine.
        weight: (N, K, R) > 0.
        capacity: (N, R) units per second, inf: never a bottleneck.
        alone: (N, K) work per second of each task by itself on this node at idle memory.
        exposed: (N, K) share of the time alone that waits on memory, 0–1.
    """

    demand: NDArray[np.float64]
    weight: NDArray[np.float64]
    capacity: NDArray[np.float64]
    alone: NDArray[np.float64]
    exposed: NDArray[np.float64]


def predicted_rates(batch: NodeBatch, laws: PhysicsLaws, *, tolerance: float = 1e-6) -> NDArray[np.float64]:
    """Return the work per second of every task on every node, shape (N, K).

    Args:
        batch: the nodes and their tasks.
        laws: the constants.
        tolerance: of the memory load, 0–1.
    """
    bandwidth = batch.capacity[:, _DRAM]
    is_sensitive = (
        (batch.exposed > 0.0).any(axis=1) & np.isfinite(bandwidth) & (laws.dram_latency_coefficient > 0.0)
    )
    load = np.zeros(len(bandwidth), dtype=np.float64)
    rates = _rates_at(batch, load, laws)
    if not is_sensitive.any():
        return rates
    # What is missing at a load falls as the load grows: at 0 it is ≥ 0, at 1 it is ≤ 0, and 0 there means
    # saturated.
    low, high = np.zeros_like(load), np.ones_like(load)
    miss_low = np.where(is_sensitive, _load(batch, rates), 0.0)
    rates = _rates_at(batch, is_sensitive.astype(np.float64), laws)
    miss_high = np.where(is_sensitive, _load(batch, rates) - 1.0, -1.0)
    first: NDArray[np.float64] = miss_low / np.maximum(miss_low - miss_high, 1e-30)
    load = np.where(is_sensitive, np.where(miss_high >= 0.0, 1.0, first), 0.0)
    for _ in range(_LOAD_STEPS):
        rates = _rates_at(batch, load, laws)
        miss = np.where(is_sensitive, _load(batch, rates) - load, 0.0)
        if np.abs(miss).max() <= tolerance:
            break
        # Regula falsi; the end that stays is halved (the Illinois rule), so that a kinked curve cannot stall
        # it.
        is_above = miss > 0.0
        miss_low, miss_high = (
            np.where(is_above, miss, miss_low * 0.5),
            np.where(is_above, miss_high * 0.5, miss),
        )
        low, high = np.where(is_above, load, low), np.where(is_above, high, load)
        step = (high - low) * np.clip(miss_low / np.maximum(miss_low - miss_high, 1e-30), 0.0, 1.0)
        load = np.where(np.abs(miss) <= tolerance, load, low + step)
    return rates


def _load(batch: NodeBatch, rates: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ρ per node: memory traffic relative to the bandwidth, 0–1, shape (N,)."""
    traffic = (batch.demand[:, :, _DRAM] * rates).sum(axis=1)
    return np.minimum(traffic / batch.capacity[:, _DRAM], 1.0)


def _rates_at(batch: NodeBatch, load: NDArray[np.float64], laws: PhysicsLaws) -> NDArray[np.float64]:
    latency = 1.0 + laws.dram_latency_coefficient * load / (laws.dram_saturation - load)
    stall = 1.0 + batch.exposed * (latency[:, None] - 1.0)
    own = batch.alone / stall
    demand = batch.demand.copy()
    demand[:, :, _CPU] *= stall  # a core that waits is busy
    totals = np.einsum("nkr,nk->nr", demand, own)
    busy = np.flatnonzero((totals > batch.capacity).any(axis=0)).tolist()
    if not busy:
        return own
    allowed = np.full(demand.shape, np.inf)  # rate that each resource's level allows
    ratio = np.divide(batch.weight, demand, out=np.full(demand.shape, np.inf), where=demand > 0.0)
    levels = np.full((len(own), demand.shape[2]), np.inf)
    for _ in range(laws.solver_sweeps):
        is_settled = True
        for r in busy:
            others = [other for other in busy if other != r]
            cap = np.minimum(own, allowed[:, :, others].min(axis=2)) if others else own
            level = _water_level(
                demand[:, :, r] * cap, batch.weight[:, :, r], demand[:, :, r], batch.capacity[:, r]
            )
            is_settled &= bool(np.isclose(level, levels[:, r], rtol=1e-9, atol=0.0).all())
            levels[:, r] = level
            allowed[:, :, r] = level[:, None] * ratio[:, :, r]
        if is_settled or len(busy) == 1:
            break
    return np.minimum(own, allowed[:, :, busy].min(axis=2))


def _water_level(
    wanted: NDArray[np.float64],
    weight: NDArray[np.float64],
    demand: NDArray[np.float64],
    capacity: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return θ per node with Σ min(wanted, θ·weight) = capacity, inf where all fits, shape (N,)."""
    weight = np.where(demand > 0.0, weight, 0.0)
    share = np.divide(wanted, weight, out=np.zeros_like(wanted), where=weight > 0.0)
    order = np.argsort(share, axis=1)
    share = np.take_along_axis(share, order, axis=1)
    wanted = np.take_along_axis(wanted, order, axis=1)
    weight = np.take_along_axis(weight, order, axis=1)
    total = wanted.sum(axis=1)
    rest = capacity[:, None] - (np.cumsum(wanted, axis=1) - wanted)
    open_weight = weight[:, ::-1].cumsum(axis=1)[:, ::-1]
    level = np.divide(rest, open_weight, out=np.full_like(rest, np.inf), where=open_weight > 0.0)
    first = (level <= share).argmax(axis=1)
    found = np.take_along_axis(level, first[:, None], axis=1)[:, 0]
    return np.where(total > capacity, found, np.inf)
