"""The constants of the physics in one value, each with the source it was taken from.

* `dram_latency_coefficient`, `dram_saturation`: law with data. Mess (MICRO '24) bandwidth–latency curves give
  c = 0.194 on Skylake DDR4 and 0.137 on Graviton3 DDR5 with saturation 1.10; maximum error 9 % and 4 %, in
  sample. The default lies between.
* `cfs_period_s`: law. Linux kernel documentation, CFS bandwidth control: 100 ms by default.
* `solver_sweeps`: proposal. At most 33 sweeps were seen in 6,193 random solves; 200 bounds the time.
* `solver_tolerance`, `load_tolerance`: proposals. Far below the 1e-6 to which the peer solver is matched.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from stowplan.errors import InvalidInput

__all__ = ["PhysicsLaws"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PhysicsLaws:
    """Constants of the contention laws. Immutable; pass another value to study another machine."""

    dram_latency_coefficient: float = 0.165
    """c in λ(ρ) = 1 + c·ρ/(s−ρ); dimensionless, 0 switches latency inflation off."""
    dram_saturation: float = 1.1
    """s in the same law: the load, relative to the highest achieved bandwidth, where latency diverges."""
    cfs_period_s: float = 0.1
    """Period over which a CPU quota is enforced, seconds."""
    solver_sweeps: int = 200
    """Upper bound of sweeps of the fixed point; beyond it the defined fallback scales the violators down."""
    solver_tolerance: float = 1e-12
    """Relative change of the levels below which the fixed point is reached."""
    load_tolerance: float = 1e-9
    """Difference of the memory load, 0 … 1, below which latency and rates agree."""

    def __post_init__(self) -> None:
        """Refuse constants under which the laws have no meaning.

        Raises:
            InvalidInput: a constant is out of range; the message names it.
        """
        checks = (
            ("dram_latency_coefficient", self.dram_latency_coefficient >= 0.0),
            ("dram_saturation", self.dram_saturation > 1.0),
            ("cfs_period_s", self.cfs_period_s > 0.0),
            ("solver_sweeps", self.solver_sweeps >= 1),
            ("solver_tolerance", 0.0 < self.solver_tolerance < 1e-3),
            ("load_tolerance", 0.0 < self.load_tolerance < 1e-3),
        )
        for name, holds in checks:
            number = float(getattr(self, name))
            if not holds or not math.isfinite(number):
                raise InvalidInput(f"PhysicsLaws.{name} is {number}; see its range in the class description")
