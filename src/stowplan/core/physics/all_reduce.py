"""All-reduce of a training job by where its GPUs are: which links its ring loads, and how long a step takes.

* The ring. NCCL orders the ranks so that the ring enters and leaves every zone, rack, node and root complex
  once (its topology search minimises crossings). Over n GPUs every edge of it carries 2·(n−1)/n of the data
  per step (`network.ring_bytes`). So a zone, rack or node that holds some but not all of the GPUs carries
  that much out and as much in; so does every root complex that the ring leaves; and a node's interconnect
  carries it when the ring uses several root complexes there. Between GPUs of one root complex it takes the
  switch, which other rings do not share.
* Which of them is nearest follows from NCCL: peer-to-peer traffic passes PCIe switches but not the host
  bridge (`paths.cc`: the default level is PXB), beyond it traffic goes through the host's memory and, on two
  sockets, over their interconnect, for which NCCL assumes 6 GB/s on Broadwell, 10 on Skylake and 22 on
  Sapphire Rapids against 12 for PCIe 3 ×16 (`topo.h`).
* Latency. 2·(n−1) steps, of which 2·(nodes−1) cross the network (NCCL's `tuning.cc`).
* Sharing a link. Reductions come in bursts, once a step. A burst meets another ring's with the probability
  that this one reduces at the moment, its share of time in reductions d, as if they were independent; those
  that meet share alike. So a ring gets C / (1 + Σ d) of a link, over the others on it: all of it beside rings
  that hardly reduce, a fair share beside rings that do nothing else. What others send all the time (streams)
  is taken off first, but not below the share of one more ring. Rings held back elsewhere count fully, which
  is on the dark side. That the law holds for a handful of periodic jobs is a proposal.
* The step. T = (Tc^γ + Ts^γ)^(1/γ) (`network.overlapped_time_s`).

The shares of time depend on each other: who is slowed by others reduces for longer and slows them more. They
are raised from those of every ring alone until they stand; they only grow and stay below 1, so they do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan.errors import InternalError

__all__ = ["Rings", "step_rates"]

_ROUNDS: Final = 1000
_TOLERANCE: Final = 1e-9
_LEAST_BYTES_PER_S: Final = 1.0
"""What a ring gets at least, so that a dead link makes it crawl and not divide by 0."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Rings:
    """R rings and the E (ring, link) pairs in which they load a link. All times seconds, sizes bytes.

    Attributes:
        compute_s: (R,) to compute one step on the slowest of its machines.
        latency_s: (R,) of one reduction.
        overlap: (R,) γ.
        ring_bytes: (R,) that every edge carries in one step; 0: a single GPU.
        own_bytes_per_s: (R,) most that one ring gets, whatever is free: the speed of the farthest edge.
        ring: (E,) row above.
        link: (E,) index into capacities.
    """

    compute_s: Floats
    latency_s: Floats
    overlap: Floats
    ring_bytes: Floats
    own_bytes_per_s: Floats
    ring: NDArray[np.int64]
    link: NDArray[np.int64]


def step_rates(rings: Rings, capacity: Floats, other_use: Floats) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Return steps per second (R,), seconds that each reduction takes (R,), and the link that decides (R,).

    Args:
        rings: who loads what.
        capacity: (L,) bytes per second of each link; inf limits nothing.
        other_use: (L,) bytes per second that others than rings carry over it.

    The deciding link is −1 where the speed of the ring's own edges decides, or it reduces nothing.

    Raises:
        InternalError: the rates do not settle.
    """
    ceiling, foreign = capacity[rings.link], other_use[rings.link]
    duty = np.zeros(rings.ring_bytes.shape)
    for _ in range(_ROUNDS):
        own = duty[rings.ring]
        met = 1.0 + np.bincount(rings.link, own, capacity.shape[0])[rings.link] - own
        share = np.maximum((ceiling - foreign) / met, ceiling / (met + 1.0))
        share = np.where(foreign > 0.0, share, ceiling / met)
        reduce_s, decides = _reduce_s(rings, np.maximum(share, _LEAST_BYTES_PER_S))
        step_s = _overlapped(rings, reduce_s)
        before, duty = duty, reduce_s / step_s
        if (np.abs(duty - before) <= _TOLERANCE).all():
            return 1.0 / step_s, reduce_s, decides
    raise InternalError(f"the rates of {duty.size} rings did not settle in {_ROUNDS} rounds")


def _reduce_s(rings: Rings, share: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """Seconds of each reduction (R,) when its links give it `share` (E,), and the deciding link (R,)."""
    slowest = rings.own_bytes_per_s.copy()
    np.minimum.at(slowest, rings.ring, share)
    decides = np.full(slowest.shape, -1, np.int64)
    held = share <= slowest[rings.ring]
    decides[rings.ring[held][::-1]] = rings.link[held][::-1]  # the first of equals
    alone = rings.ring_bytes <= 0.0
    decides[alone] = -1
    return np.where(alone, 0.0, rings.ring_bytes / slowest + rings.latency_s), decides


def _overlapped(rings: Rings, reduce_s: Floats) -> Floats:
    """Seconds of a step (R,), as `network.overlapped_time_s` for arrays."""
    longer = np.maximum(rings.compute_s, reduce_s)
    shorter = np.minimum(rings.compute_s, reduce_s)
    return longer * (1.0 + (shorter / longer) ** rings.overlap) ** (1.0 / rings.overlap)
