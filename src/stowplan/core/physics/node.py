"""One node: the rates of all tasks on it, and what slows each.

The entry that simulator, look-ahead and encoder share. Work is measured in seconds alone on the reference
machine. A task's rate x is 1 there. On a node it is

    alone = speed (task × machine) · quota · GPU sharing          what the task could do here by itself
    own   = alone / stall(λ(ρ))                                   memory latency under the node's load
    x     = min(own, θ_r·weight_r / demand_r over all resources)  bottleneck max fairness

where the load ρ depends on the rates. ρ is found by a bracketed Newton search around the whole fixed point: a
plain iteration would diverge near saturation, where λ is steep. A waiting core is a busy core, so cores per
unit of work grow with the stall.

The combined model is a proposal; its parts carry their own marks (`waterfill`, `bottleneck`, `dram`, `cpu`,
`disk`, `gpu`,
`machine`).

Attribution: of each second, x is work. The rest is told apart in this order, each step counted as what it
adds to the time per unit of work: machine, quota, GPU, memory latency; what remains is due to the one
resource that binds. The parts add up to 1 − x exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.physics.bottleneck import NOT_CONVERGED, bottleneck_rates
from stowplan.core.physics.compile import compiled, inner
from stowplan.core.physics.dram import latency_factor, stall_factor
from stowplan.core.physics.laws import PhysicsLaws
from stowplan.core.physics.vocabulary import CAUSE_COUNT, RESOURCE_COUNT, Cause, Resource
from stowplan.errors import InvalidInput

__all__ = ["CAUSE_OF_RESOURCE", "NodeRates", "node_rates", "solve_node"]

_CPU: Final = int(Resource.CPU)
_DRAM: Final = int(Resource.DRAM)

CAUSE_OF_RESOURCE: Final = np.array(
    [
        Cause.CPU,
        Cause.DRAM_BANDWIDTH,
        Cause.DISK,
        Cause.DISK,
        Cause.NETWORK,
        Cause.NETWORK,
        Cause.PCIE,
    ],
    np.int64,
)
"""`Cause` of a task that a `Resource` binds."""


@inner
def _rates_at(
    latency: float,
    count: int,
    demand: NDArray[np.float64],
    weight: NDArray[np.float64],
    capacity: NDArray[np.float64],
    cores: NDArray[np.float64],
    alone: NDArray[np.float64],
    cap: NDArray[np.float64],
    exposed: NDArray[np.float64],
    sweeps: int,
    tolerance: float,
    level: NDArray[np.float64],
    rate: NDArray[np.float64],
    binding: NDArray[np.int64],
    stall: NDArray[np.float64],
    own: NDArray[np.float64],
    wanted: NDArray[np.float64],
    busy: NDArray[np.int64],
) -> int:
    """Solve the rates for a given memory latency; arguments as in `solve_node`."""
    for i in range(count):
        stall[i] = stall_factor(exposed[i], latency)
        own[i] = min(alone[i] / stall[i], cap[i])
        demand[i, 0] = cores[i] * stall[i]
    return bottleneck_rates(
        count, demand, weight, capacity, own, sweeps, tolerance, level, rate, binding, wanted, busy
    )


@inner
def _load(count: int, demand: NDArray[np.float64], rate: NDArray[np.float64], bandwidth: float) -> float:
    """ρ: memory traffic relative to the bandwidth, 0 … 1."""
    traffic = 0.0
    for i in range(count):
        traffic += demand[i, 1] * rate[i]
    if traffic <= 0.0:
        return 0.0
    return min(traffic / bandwidth, 1.0) if bandwidth > 0.0 else 1.0


@compiled
def solve_node(
    count: int,
    demand: NDArray[np.float64],
    weight: NDArray[np.float64],
    capacity: NDArray[np.float64],
    cores: NDArray[np.float64],
    alone: NDArray[np.float64],
    cap: NDArray[np.float64],
    exposed: NDArray[np.float64],
    coefficient: float,
    saturation: float,
    sweeps: int,
    tolerance: float,
    load_tolerance: float,
    guess: float,
    level: NDArray[np.float64],
    rate: NDArray[np.float64],
    binding: NDArray[np.int64],
    stall: NDArray[np.float64],
    own: NDArray[np.float64],
    wanted: NDArray[np.float64],
    busy: NDArray[np.int64],
) -> tuple[float, int]:
    """Solve one node for its first `count` tasks, n.

    R resources: any prefix of `Resource` that includes DRAM.

    Args:
        count: n ≤ rows of the arrays.
        demand: (≥n, R) units per unit of work; column CPU is overwritten with `cores` · stall.
        weight: (≥n, R) > 0.
        capacity: (R,) units per second; inf = never a bottleneck.
        cores: (≥n,) core-seconds per unit of work at idle memory.
        alone: (≥n,) rate of the task by itself on this node at idle memory.
        cap: (≥n,) rate that something outside the node allows (a link of the fabric); inf = nothing does.
        exposed: (≥n,) m, share of the time alone that waits on memory.
        coefficient: c of the latency law.
        saturation: s of the latency law.
        sweeps: bound of the fixed point.
        tolerance: relative, of the fixed point.
        load_tolerance: absolute, of the load.
        guess: load at which the search starts, 0 … 1; the last solution is a good one.
        level: (R,) out: θ; inf = not full.
        rate: (≥n,) out: work per second.
        binding: (≥n,) out: `Resource` that binds, −1 = none.
        stall: (≥n,) out: time per work relative to idle memory.
        own: (≥n,) out: rate if no resource of the node were full.
        wanted: (≥n,) scratch.
        busy: (R,) scratch.

    Returns:
        The load ρ, and the sweeps used or `NOT_CONVERGED`.
    """
    bandwidth = capacity[1]
    sensitive = False
    for i in range(count):
        if exposed[i] > 0.0:
            sensitive = True
    if coefficient <= 0.0 or bandwidth == np.inf:
        sensitive = False
    low = 0.0
    high = 1.0
    # Without anybody who waits on memory, latency is as in an idle machine and one solve is all.
    load = min(max(guess, 0.0), 1.0) if sensitive else 0.0
    last_miss = 0.0
    total = 0
    converged = False
    for step in range(100):
        used = _rates_at(
            latency_factor(load, coefficient, saturation), count, demand, weight, capacity, cores, alone,
            cap, exposed, sweeps, tolerance, level, rate, binding, stall, own, wanted, busy,
        )  # fmt: skip
        # A solve on the way need not settle: its rates fit, and only the last one counts.
        settled = used >= 0
        total += max(used, 0)
        miss = _load(count, demand, rate, bandwidth) - load
        if not sensitive:
            return load + miss, total if settled else NOT_CONVERGED
        if abs(miss) <= load_tolerance:
            converged = settled
            break
        if miss > 0.0:
            low = load
        else:
            high = load
        if high - low <= 1e-15:
            break
        # Newton: whoever memory or the disk does not bind goes slower as latency grows.
        rest = saturation - load
        slope = -1.0
        for i in range(count):
            if binding[i] <= 0 and rate[i] < cap[i]:
                slope -= (
                    demand[i, 1]
                    * rate[i]
                    * exposed[i]
                    / (stall[i] * bandwidth)
                    * (coefficient * saturation / (rest * rest))
                )
        after = load - miss / slope
        # Every third step halves the bracket, so that a kinked curve cannot stall the search.
        if not low < after < high or (step % 3 == 2 and abs(miss) > 0.5 * abs(last_miss)):
            after = 0.5 * (low + high)
        last_miss = miss
        load = after
    return load, total if converged else NOT_CONVERGED


@dataclass(frozen=True, slots=True)
class NodeRates:
    """What happens on one node with n tasks on it."""

    rate_per_s: NDArray[np.float64]
    """(n,) work seconds per second."""
    lost: NDArray[np.float64]
    """(n, CAUSE_COUNT) share of each second lost, by `Cause`; a row sums to 1 − rate."""
    used_per_s: NDArray[np.float64]
    """(R,) use of each resource."""
    memory_load: float
    """ρ, 0 … 1."""
    converged: bool
    """False: the fixed point did not settle and the rates were scaled down to fit."""

    @property
    def slowdown(self) -> NDArray[np.float64]:
        """(n,) time relative to alone on the reference machine; inf at rate 0."""
        with np.errstate(divide="ignore"):
            return 1.0 / self.rate_per_s


def node_rates(
    demand: NDArray[np.float64],
    capacity: NDArray[np.float64],
    *,
    weight: NDArray[np.float64] | None = None,
    speed: NDArray[np.float64] | None = None,
    quota: NDArray[np.float64] | None = None,
    gpu: NDArray[np.float64] | None = None,
    exposed: NDArray[np.float64] | None = None,
    laws: PhysicsLaws | None = None,
) -> NodeRates:
    """Rates and attribution for the n tasks of one node.

    Args:
        demand: (n, RESOURCE_COUNT) units per second of work on the reference machine, ≥ 0.
        capacity: (RESOURCE_COUNT,) units per second, inf = never a bottleneck.
        weight: (n, RESOURCE_COUNT) > 0: `cpu.weight`, cores for DRAM, outstanding bytes for the disk,
        connections for the network; equal when absent.
        speed: (n,) of the task on this machine relative to the reference; 1 when absent.
        quota: (n,) `cpu.quota_rate`; 1 when absent.
        gpu: (n,) `gpu.shared_gpu_speed`; 1 when absent.
        exposed: (n,) share of time alone that waits on memory, 0 … 1; 0 when absent.
        laws: constants; the defaults when absent.

    Raises:
        InvalidInput: an array has another shape, or a number is negative or NaN.
    """
    laws = laws or PhysicsLaws()
    count: int = demand.shape[0]
    if demand.shape != (count, RESOURCE_COUNT) or capacity.shape != (RESOURCE_COUNT,):
        raise InvalidInput(
            f"demand {demand.shape} and capacity {capacity.shape}; "
            f"expected (n, {RESOURCE_COUNT}) and ({RESOURCE_COUNT},)"
        )
    weight = np.ones_like(demand) if weight is None else weight
    speed = np.ones(count) if speed is None else speed
    quota = np.ones(count) if quota is None else quota
    gpu = np.ones(count) if gpu is None else gpu
    exposed = np.zeros(count) if exposed is None else exposed
    given = {"weight": weight, "speed": speed, "quota": quota, "gpu": gpu, "exposed": exposed}
    for name, array in {"demand": demand, "capacity": capacity, **given}.items():
        bad = ~(array >= 0.0)
        if bad.any():
            raise InvalidInput(f"{name} holds {float(array[bad][0])}; it must be a number of 0 or more")
        if name in given and array.shape[0] != count:
            raise InvalidInput(f"{name} has {array.shape[0]} rows; demand has {count}")
    alone = speed * quota * gpu
    work_demand = np.array(demand, np.float64)
    level, busy = np.empty(RESOURCE_COUNT), np.empty(RESOURCE_COUNT, np.int64)
    rate, stall, own, wanted = np.empty(count), np.empty(count), np.empty(count), np.empty(count)
    binding = np.empty(count, np.int64)
    load, sweeps = solve_node(
        count, work_demand, weight, capacity, demand[:, _CPU] / speed, alone,
        np.full(count, np.inf), exposed,
        laws.dram_latency_coefficient, laws.dram_saturation, laws.solver_sweeps, laws.solver_tolerance,
        laws.load_tolerance, 0.5,
        level, rate, binding, stall, own, wanted, busy,
    )  # fmt: skip
    lost = np.zeros((count, CAUSE_COUNT))
    lost[:, Cause.MACHINE] = rate * (1.0 / speed - 1.0)
    lost[:, Cause.CPU] = rate * (1.0 / (speed * quota) - 1.0 / speed)
    lost[:, Cause.GPU] = rate * (1.0 / alone - 1.0 / (speed * quota))
    lost[:, Cause.DRAM_LATENCY] = rate * (stall - 1.0) / alone
    bound = np.flatnonzero(binding >= 0)
    lost[bound, CAUSE_OF_RESOURCE[binding[bound]]] += 1.0 - rate[bound] / own[bound]
    return NodeRates(rate, lost, rate @ work_demand, load, sweeps != NOT_CONVERGED)
