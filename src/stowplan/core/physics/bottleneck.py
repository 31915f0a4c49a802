"""Bottleneck max fairness: the rates of tasks that need several shared resources at once.

Task i at rate x uses demand[i, r]·x of resource r. In the solution every task is held back either by itself
or by one resource that is full and of which nobody with the same weight gets more, counted in units of that
resource
(Bonald and Roberts, *Multi-Resource Fairness*, 2015; the idea behind SimGrid's `bmf` solver, with which this
agrees to 1e-6). Fairness counts resource units, not progress: a light user of a full bus is not slowed by two
heavy ones.

Law with data as far as the solver goes (the peer comparison); that contended hardware settles there is a
proposal, measured within 11 % for pairs of memory streams.

The solution is one level θ per resource: x_i = min(own_i, min_r θ_r·weight_ir / demand_ir). Levels are found
by filling one resource after another given what the others allow (Gauss–Seidel), two sweeps in the median.
The sweeps are bounded; when they do not settle, rates are scaled down until no resource is overloaded, and
the caller is told.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stowplan.core.physics.compile import compiled, inner

__all__ = ["NEARLY", "NOT_CONVERGED", "PATIENCE", "bottleneck_rates"]

NOT_CONVERGED = -1
PATIENCE = 150
"""Sweeps after which levels are damped."""
NEARLY = 1e-8
"""Relative change of a level in the last sweep allowed that still counts as settled."""


@inner
def _fill_one(
    resource: int,
    count: int,
    demand: NDArray[np.float64],
    weight: NDArray[np.float64],
    capacity: float,
    own: NDArray[np.float64],
    level: NDArray[np.float64],
    busy: NDArray[np.int64],
    busy_count: int,
    wanted: NDArray[np.float64],
) -> float:
    """Find the level of one resource given the levels of the other busy ones; inf when it is not full."""
    total = 0.0
    total_weight = 0.0
    for i in range(count):
        need = demand[i, resource]
        if need <= 0.0:
            wanted[i] = 0.0
            continue
        cap = own[i]
        for b in range(busy_count):
            other = busy[b]
            if other != resource and demand[i, other] > 0.0:
                cap = min(cap, level[other] * weight[i, other] / demand[i, other])
        wanted[i] = need * cap
        total += wanted[i]
        total_weight += weight[i, resource]
    if total <= capacity:
        return np.inf
    found = capacity / total_weight
    satisfied = -1
    while True:
        rest = capacity
        open_weight = 0.0
        below = 0
        for i in range(count):
            if demand[i, resource] <= 0.0:
                continue
            if wanted[i] <= found * weight[i, resource]:
                rest -= wanted[i]
                below += 1
            else:
                open_weight += weight[i, resource]
        if below == satisfied or open_weight <= 0.0:
            return found
        satisfied = below
        found = max(found, rest / open_weight)


@compiled
def bottleneck_rates(
    count: int,
    demand: NDArray[np.float64],
    weight: NDArray[np.float64],
    capacity: NDArray[np.float64],
    own: NDArray[np.float64],
    sweeps: int,
    tolerance: float,
    level: NDArray[np.float64],
    rate: NDArray[np.float64],
    binding: NDArray[np.int64],
    wanted: NDArray[np.float64],
    busy: NDArray[np.int64],
) -> int:
    """Solve for the rates of the first `count` tasks; returns sweeps used, or `NOT_CONVERGED`.

    Args:
        count: tasks n ≤ rows of the arrays below.
        demand: (≥n, R) units of resource per unit of work, ≥ 0.
        weight: (≥n, R) > 0.
        capacity: (R,) units per second, ≥ 0, inf allowed.
        own: (≥n,) rate of each task when nothing is shared, ≥ 0, work per second.
        sweeps: bound on the Gauss–Seidel sweeps.
        tolerance: relative change of the levels that ends them.
        level: (R,) out: θ, units per second and weight; inf = not full.
        rate: (≥n,) out: work per second.
        binding: (≥n,) out: the resource that holds the task back, −1 = itself.
        wanted: (≥n,) scratch.
        busy: (R,) scratch.
    """
    resources = capacity.shape[0]
    busy_count = 0
    for r in range(resources):
        level[r] = 0.0
    for i in range(count):
        for r in range(resources):
            level[r] += demand[i, r] * own[i]
    for r in range(resources):
        if level[r] > capacity[r]:
            busy[busy_count] = r
            busy_count += 1
        level[r] = np.inf
    used = 0
    change = np.inf if busy_count > 0 else 0.0
    while change > tolerance and used < sweeps:
        used += 1
        change = 0.0
        for b in range(busy_count):
            r = int(busy[b])
            before = level[r]
            after = _fill_one(r, count, demand, weight, capacity[r], own, level, busy, busy_count, wanted)
            # Against the smaller: a level that became inf has changed, and others may depend on it. A
            # resource # that is full alone depends on none.
            if after != before and busy_count > 1:
                change = max(change, abs(after - before) / min(after, before))
            if used > PATIENCE and after != before and before < np.inf:
                # Levels that chase each other in a circle: go half the way only.
                after = np.sqrt(before * after) if after < np.inf else 4.0 * before
            level[r] = after
    for i in range(count):
        rate[i] = own[i]
        binding[i] = -1
        for b in range(busy_count):
            r = int(busy[b])
            if demand[i, r] > 0.0:
                allowed = level[r] * weight[i, r] / demand[i, r]
                if allowed < rate[i]:
                    rate[i] = allowed
                    binding[i] = r
    if change <= max(tolerance, NEARLY):
        return used
    scale_to_fit(count, demand, capacity, rate, binding)
    return NOT_CONVERGED


@compiled
def scale_to_fit(
    count: int,
    demand: NDArray[np.float64],
    capacity: NDArray[np.float64],
    rate: NDArray[np.float64],
    binding: NDArray[np.int64],
) -> None:
    """Scale down, evenly, all users of each overloaded resource: the defined fallback; rates only fall."""
    for r in range(capacity.shape[0]):
        total = 0.0
        for i in range(count):
            total += demand[i, r] * rate[i]
        if total > capacity[r]:
            factor = capacity[r] / total
            for i in range(count):
                if demand[i, r] > 0.0:
                    rate[i] *= factor
                    binding[i] = r
