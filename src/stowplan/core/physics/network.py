"""Network: what an all-reduce costs, by how far apart its ranks are, and how it overlaps with computing.

* Ring all-reduce moves 2·(n−1)/n of the data over every link of the ring and takes 2·(n−1) steps. Law with
  data: NVIDIA nccl-tests
  `PERFORMANCE.md`; latency per step 5.0 to 5.4 µs for 16 to 64 ranks (published runs), constant as the law
  says.
* Overlap T = (Tc^γ + Ts^γ)^(1/γ). Law with data: the form of Pollux (Qiao et al., OSDI 2021); on Sia's
  placements it predicts held-out placements within 5 to 8 % (`fits`).
* Five speeds by distance. The defaults are what NCCL itself assumes (`topo.h`, `tuning.cc`: PCIe 3 ×16 12
  GB/s, Skylake inter-socket 10 GB/s, 100 Gb/s NIC 12 GB/s); beyond the rack the factor is a proposal: an
  oversubscription of 3:1 per level.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stowplan.core.physics.compile import compiled
from stowplan.core.physics.vocabulary import LinkClass
from stowplan.errors import InvalidInput

__all__ = ["LinkSpeeds", "farthest", "overlapped_time_s", "ring_bytes", "ring_time_s"]


@compiled
def ring_bytes(data_bytes: float, ranks: int) -> float:
    """Bytes that each link of the ring carries in one all-reduce of `data_bytes` over `ranks`."""
    return 2.0 * (ranks - 1) / ranks * data_bytes if ranks > 1 else 0.0


@compiled
def ring_time_s(data_bytes: float, ranks: int, bytes_per_s: float, step_latency_s: float) -> float:
    """Time of one ring all-reduce when the slowest link gives `bytes_per_s`, seconds."""
    if ranks <= 1:
        return 0.0
    return ring_bytes(data_bytes, ranks) / bytes_per_s + 2.0 * (ranks - 1) * step_latency_s


@compiled
def overlapped_time_s(compute_s: float, communicate_s: float, gamma: float) -> float:
    """Time of a step that communicates while it computes; γ = 1 adds them, γ → ∞ takes the longer."""
    longer, shorter = max(compute_s, communicate_s), min(compute_s, communicate_s)
    if longer <= 0.0 or shorter <= 0.0:
        return longer
    return longer * math.pow(1.0 + math.pow(shorter / longer, gamma), 1.0 / gamma)


@dataclass(frozen=True, slots=True)
class LinkSpeeds:
    """Speed and latency between two ends by their distance; one entry per `LinkClass`, nearest first."""

    bytes_per_s: tuple[float, ...] = (12e9, 10e9, 12e9 * 0.85, 4e9, 4e9 / 3.0)
    step_latency_s: tuple[float, ...] = (5.7e-6, 5.7e-6, 14e-6, 20e-6, 500e-6)

    def __post_init__(self) -> None:
        """Refuse tables of another length or with unusable numbers.

        Raises:
            InvalidInput: a table does not have one positive entry per class.
        """
        for name, numbers, lowest in (
            ("bytes_per_s", self.bytes_per_s, math.ulp(0.0)),
            ("step_latency_s", self.step_latency_s, 0.0),
        ):
            if len(numbers) != len(LinkClass) or not all(lowest <= number < math.inf for number in numbers):
                raise InvalidInput(
                    f"LinkSpeeds.{name} is {numbers}; it needs {len(LinkClass)} finite positive numbers"
                )

    def ring_time_s(self, data_bytes: float, ranks: int, distance: LinkClass) -> float:
        """Time of one all-reduce whose farthest neighbours are at `distance`, nothing else on the links."""
        return ring_time_s(data_bytes, ranks, self.bytes_per_s[distance], self.step_latency_s[distance])


def farthest(
    zone: NDArray[np.int64],
    rack: NDArray[np.int64],
    node: NDArray[np.int64],
    root_complex: NDArray[np.int64],
) -> LinkClass:
    """Class of the slowest link of a ring over n ranks, each array (n,) telling where a rank is."""
    ladder = (
        (zone, LinkClass.OTHER_ZONE),
        (rack, LinkClass.SAME_ZONE),
        (node, LinkClass.SAME_RACK),
        (root_complex, LinkClass.SAME_NODE),
    )
    for places, distance in ladder:
        if places.size and (places != places[0]).any():
            return distance
    return LinkClass.SAME_ROOT_COMPLEX
