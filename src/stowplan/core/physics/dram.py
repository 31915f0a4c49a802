"""DRAM: latency grows with load long before bandwidth is used up.

Law with data: λ(ρ) = 1 + c·ρ/(s−ρ), ρ = traffic / highest achieved bandwidth, s = 1.10, fitted on the
bandwidth–latency curves that Mess publishes (Esmaili-Dokht et al., MICRO 2024): c = 0.194 with at most 9.3 %
error on Skylake with six DDR4-2666, c = 0.137 with 4.0 % on Graviton3 with eight DDR5-4800. In sample, two
machines. At ρ = 0.75 latency is ×1.35 to ×1.49: the knee is soft.

Proposal: a task that waits on memory for a share m of its time alone takes 1 + m·(λ−1) times as long.
"""

from __future__ import annotations

from stowplan.core.physics.compile import compiled

__all__ = ["latency_factor", "stall_factor"]


@compiled
def latency_factor(load: float, coefficient: float, saturation: float) -> float:
    """λ: memory latency relative to an idle machine, ≥ 1, at `load` ρ in 0 … 1 (larger counts as 1)."""
    rho = min(max(load, 0.0), 1.0)
    return 1.0 + coefficient * rho / (saturation - rho)


@compiled
def stall_factor(exposed: float, latency: float) -> float:
    """Time per unit of work relative to idle memory, ≥ 1: the `exposed` share m waits λ times as long."""
    return 1.0 + exposed * (latency - 1.0)
