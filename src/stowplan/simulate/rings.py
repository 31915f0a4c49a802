"""Where the ring of a training gang runs: over which links of the kernel, and who of its workers pays.

The geometry is that of `core.physics.all_reduce`. What a node, rack or zone sends and receives is paid by the
workers there in equal parts. A worker has at most `FLOW_SLOTS` flows in the kernel; a ninth (a pod on two
root complexes in a job over several zones) is left out there, but counts for the ring.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain import RACK_LABEL, ZONE_LABEL, Training
from stowplan.core.physics.network import LinkSpeeds, farthest, ring_bytes
from stowplan.core.physics.vocabulary import LinkClass
from stowplan.simulate.clusters.model import Cluster, Fabric
from stowplan.simulate.hardware import Machines

__all__ = ["Ring", "RingMaker", "Worker"]


@dataclass(frozen=True, slots=True)
class Worker:
    """One task of a gang: its node (index in the cluster) and the GPUs that it holds there."""

    node: int
    gpus: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Ring:
    """The ring of one gang.

    Attributes:
        gpus: in all.
        nodes: that they are on.
        distance: how far apart its farthest neighbours are.
        bytes_per_step: over every edge.
        own_bytes_per_s: most that it gets; `latency_s`: of one reduction.
        links: ids of the kernel's links that it loads, each once.
        flows: per worker (link, share of `bytes_per_step`) that it pays.
    """

    gpus: int
    nodes: int
    distance: LinkClass
    bytes_per_step: float
    own_bytes_per_s: float
    latency_s: float
    links: tuple[int, ...]
    flows: tuple[tuple[tuple[int, float], ...], ...]


class RingMaker:
    """Makes rings on the machines of one cluster."""

    def __init__(self, cluster: Cluster, machines: Machines) -> None:
        """Number the racks and zones. Speeds that the fabric does not tell are those of `LinkSpeeds`."""
        self._machines = machines
        zones: dict[str | None, int] = {}
        racks: dict[tuple[int, str | None], int] = {}
        self._zone = [zones.setdefault(node.label(ZONE_LABEL), len(zones)) for node in cluster.nodes]
        self._rack = [
            racks.setdefault((zone, node.label(RACK_LABEL)), len(racks))
            for zone, node in zip(self._zone, cluster.nodes, strict=True)
        ]
        self._speeds = _speeds(cluster.fabric)

    def ring(self, training: Training, workers: Sequence[Worker]) -> Ring:
        """Return the ring over the GPUs of `workers`; a worker without GPUs is one rank on its node."""
        ranks = [
            (worker.node, self._machines.root_of_gpu[worker.node][gpu])
            for worker in workers
            for gpu in worker.gpus
        ]
        ranks += [(worker.node, 0) for worker in workers if not worker.gpus]
        nodes = [node for node, _ in ranks]
        distance = farthest(
            np.array([self._zone[node] for node in nodes]),
            np.array([self._rack[node] for node in nodes]),
            np.array(nodes),
            np.array([root for _, root in ranks]),
        )
        payers = self._payers(workers)
        flows: list[list[tuple[int, float]]] = [[] for _ in workers]
        for link, paying in payers.items():
            for worker in paying:
                flows[worker].append((link, 1.0 / len(paying)))
        steps, crossings = 2 * (len(ranks) - 1), 2 * (len(set(nodes)) - 1)
        near = LinkClass.SAME_NODE if distance > LinkClass.SAME_ROOT_COMPLEX else distance
        latency = self._speeds.step_latency_s
        return Ring(
            gpus=len(ranks),
            nodes=len(set(nodes)),
            distance=distance,
            bytes_per_step=ring_bytes(training.gradient_bytes, len(ranks)),
            own_bytes_per_s=self._speeds.bytes_per_s[distance],
            latency_s=(steps - crossings) * latency[near] + crossings * latency[distance],
            links=tuple(payers),
            flows=tuple(tuple(of_worker) for of_worker in flows),
        )

    def _payers(self, workers: Sequence[Worker]) -> dict[int, list[int]]:
        """Return the links that the ring loads, and the workers behind each; those that limit first."""
        nodes = self._machines.nodes
        zones = self._uplinks(workers, self._zone, nodes.zone_up_link, nodes.zone_down_link)
        racks = self._uplinks(workers, self._rack, nodes.rack_up_link, nodes.rack_down_link)
        return {**zones, **racks, **self._inside(workers)}

    def _uplinks(
        self,
        workers: Sequence[Worker],
        place_of: Sequence[int],
        up: NDArray[np.int64],
        down: NDArray[np.int64],
    ) -> dict[int, list[int]]:
        """Return the uplinks of the zones or racks that the ring leaves, with the workers in them."""
        places: dict[int, list[int]] = {}
        for index, worker in enumerate(workers):
            places.setdefault(place_of[worker.node], []).append(index)
        if len(places) == 1 or not up.size:
            return {}
        nodes = [workers[members[0]].node for members in places.values()]
        links = [(int(up[node]), int(down[node])) for node in nodes]
        return {
            link: members
            for both, members in zip(links, places.values(), strict=True)
            for link in both
            if link >= 0
        }

    def _inside(self, workers: Sequence[Worker]) -> dict[int, list[int]]:
        """Return the NICs, interconnects and root complexes that the ring passes, with the workers there."""
        machines, nodes = self._machines, self._machines.nodes
        on_node: dict[int, list[int]] = {}
        on_root: dict[int, dict[int, list[int]]] = {}
        for index, worker in enumerate(workers):
            on_node.setdefault(worker.node, []).append(index)
            of_node = on_root.setdefault(worker.node, {})
            for root in dict.fromkeys(machines.root_of_gpu[worker.node][gpu] for gpu in worker.gpus):
                of_node.setdefault(root, []).append(index)
        payers: dict[int, list[int]] = {}
        leaves_node = len(on_node) > 1
        for node, members in on_node.items():
            if leaves_node:
                payers[nodes.nic_up_link(node)] = payers[nodes.nic_down_link(node)] = members
            crosses = len(on_root[node]) > 1
            if crosses and machines.interconnect[node] >= 0:
                payers[int(machines.interconnect[node])] = members
            if crosses or leaves_node:
                for root, there in on_root[node].items():
                    payers[nodes.root_complex_link(node, root)] = there
        return payers


def _speeds(fabric: Fabric) -> LinkSpeeds:
    known = LinkSpeeds()
    links = [fabric.link(distance) for distance in LinkClass]
    return LinkSpeeds(
        tuple(link.bytes_per_s or default for link, default in zip(links, known.bytes_per_s, strict=True)),
        tuple(link.latency_s or default for link, default in zip(links, known.step_latency_s, strict=True)),
    )
