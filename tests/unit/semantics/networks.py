"""Networks with known distances, and pings on them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stowplan.core.semantics import NamedPlaces, RttSamples

BASES_S = (60e-6, 250e-6, 900e-6, 30e-3)
"""Round trips within a rack, within a zone, between zones, far."""


@dataclass(frozen=True)
class Network:
    """Where nodes really are; distance classes 1 … 4 as `DistanceClass` counts them."""

    regions: NDArray[np.int64]
    zones: NDArray[np.int64]
    racks: NDArray[np.int64]

    @property
    def size(self) -> int:
        return self.zones.size

    @property
    def truth(self) -> NDArray[np.int64]:
        """Class of each pair, (n, n)."""

        def same(places: NDArray[np.int64]) -> NDArray[np.bool_]:
            return places[:, None] == places[None, :]

        classes = np.where(
            same(self.racks), 1, np.where(same(self.zones), 2, np.where(same(self.regions), 3, 4))
        )
        np.fill_diagonal(classes, 0)
        return classes

    def names(self) -> NamedPlaces:
        """Labels that tell the truth."""
        return NamedPlaces(zones=self.zones, racks=self.racks)


def network(regions: int = 1, zones: int = 2, racks: int = 3, nodes: int = 5) -> Network:
    """A regular network; counts are per the level above."""
    index = np.arange(regions * zones * racks * nodes)
    rack = index // nodes
    return Network(regions=index // (nodes * racks * zones), zones=rack // racks, racks=rack)


def pings(
    net: Network,
    random: np.random.Generator,
    *,
    share: float = 1.0,
    rounds: int = 10,
    bases_s: tuple[float, ...] = BASES_S,
    now_s: float = 1000.0,
) -> RttSamples:
    """Ping over a random `share` of the ordered pairs, each with its own path length and noise of queues."""
    origins, targets = np.nonzero(~np.eye(net.size, dtype=np.bool_))
    kept = np.flatnonzero(random.random(origins.size) < share)
    origins, targets = origins[kept], targets[kept]
    path = random.uniform(0.9, 1.1, (net.size, net.size))
    path = np.minimum(path, path.T)
    base_s = np.array((0.0, *bases_s))[net.truth[origins, targets]] * path[origins, targets]
    noise = 1.0 + random.exponential(0.3, (rounds, origins.size))
    noise[random.random(noise.shape) < 0.02] *= 20.0  # a burst somewhere on the way
    return RttSamples(
        origins=np.tile(origins, rounds),
        targets=np.tile(targets, rounds),
        rtt_s=(base_s * noise).ravel(),
        times_s=np.repeat(now_s - 5.0 * np.arange(rounds), origins.size).astype(np.float64),
    )
