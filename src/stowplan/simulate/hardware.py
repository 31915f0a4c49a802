"""From a described cluster to the kernel's machines and links.

What the description leaves open limits nothing, with one exception: a node whose cores are not told has those
that it offers as allocatable, because a node that computed without bound would make every placement equal.

Simplifications, each where the kernel has one of what a node may have many: the disks of a node are one disk
of their summed rates and buckets, and every root complex of a node has the same bandwidth. What passes
between root complexes of a node shares one link; only rings of training jobs are known to do so. Traffic of
tasks leaves the rack (to storage or other tasks) but stays in the zone, unless a profile names links itself.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain import CPU, MEMORY, RACK_LABEL, ZONE_LABEL, Node
from stowplan.errors import InvalidInput
from stowplan.simulate.clusters.model import Cluster, Fabric
from stowplan.simulate.kernel import KernelNodes
from stowplan.simulate.kernel.tables import ROOT_COMPLEXES

__all__ = ["Machines"]


@dataclass(frozen=True, slots=True)
class Machines:
    """The kernel's view of a cluster, and the little that the simulator must translate besides.

    Rows are in the order of `cluster.nodes`.

    Attributes:
        nodes: what the kernel is built on.
        machine_types: distinct machine types, sorted.
        type_of: int64 (nodes,); index into `machine_types`.
        root_of_gpu: per node the root complex of each of its GPUs, counted from 0 in order of first mention.
        has_rack_links: whether the racks' uplinks limit anything.
        interconnect: int64 (nodes,); link id of what lies between the root complexes of a node, −1: no limit.
    """

    nodes: KernelNodes
    machine_types: tuple[str, ...]
    type_of: NDArray[np.int64]
    root_of_gpu: tuple[tuple[int, ...], ...]
    has_rack_links: bool
    interconnect: NDArray[np.int64]

    @classmethod
    def of(cls, cluster: Cluster) -> Machines:
        """Translate.

        Raises:
            InvalidInput: a node has more root complexes than the kernel takes; the message names it.
        """
        nodes = cluster.nodes
        roots = tuple(_roots(node) for node in nodes)
        types = tuple(sorted({node.hardware.machine_type for node in nodes}))
        type_index = {name: index for index, name in enumerate(types)}
        links, rack_up, rack_down, zone_up, zone_down = _links(nodes, cluster.fabric)
        interconnect, links = _interconnects(roots, cluster.fabric, links)
        disk_rates = np.array([_disk(node) for node in nodes], dtype=np.float64)
        root_count = max((max(per_gpu, default=0) + 1 for per_gpu in roots), default=1)
        pcie = np.array([_known(node.hardware.pcie_bytes_per_s) for node in nodes])
        return cls(
            nodes=KernelNodes(
                cpu_cores=np.array([_cores(node) for node in nodes]),
                memory_bytes=np.array([_known(float(node.allocatable.get(MEMORY, 0))) for node in nodes]),
                dram_bytes_per_s=np.array([_known(node.hardware.dram_bytes_per_s) for node in nodes]),
                disk_bytes_per_s=disk_rates[:, 0],
                disk_base_bytes_per_s=disk_rates[:, 1],
                disk_bucket_bytes=disk_rates[:, 2],
                disk_operations_per_s=disk_rates[:, 3],
                nic_up_bytes_per_s=np.array([_known(node.hardware.nic_up_bytes_per_s) for node in nodes]),
                nic_down_bytes_per_s=np.array([_known(node.hardware.nic_down_bytes_per_s) for node in nodes]),
                pcie_bytes_per_s=np.repeat(pcie[:, None], root_count, axis=1),
                link_bytes_per_s=links,
                rack_up_link=rack_up,
                rack_down_link=rack_down,
                zone_up_link=zone_up,
                zone_down_link=zone_down,
            ),
            machine_types=types,
            type_of=np.array([type_index[node.hardware.machine_type] for node in nodes], dtype=np.int64),
            root_of_gpu=roots,
            has_rack_links=bool((rack_up >= 0).any()),
            interconnect=interconnect,
        )


def _known(amount: float) -> float:
    """Return the amount; one that is not known limits nothing."""
    return amount if amount > 0.0 else math.inf


def _cores(node: Node) -> float:
    return _known(node.hardware.cores if node.hardware.cores > 0.0 else node.allocatable.get(CPU, 0) / 1000.0)


def _disk(node: Node) -> tuple[float, float, float, float]:
    """Return burst and base rate (bytes/s), bucket (bytes) and operations per second of all disks."""
    base = burst = bucket = operations = 0.0
    for disk in node.hardware.disks:
        has_bucket = disk.credits_bytes > 0.0
        base += disk.base_bytes_per_s
        burst += max(disk.burst_bytes_per_s, disk.base_bytes_per_s) if has_bucket else disk.base_bytes_per_s
        operations += max(disk.burst_iops, disk.base_iops) if has_bucket else disk.base_iops
        bucket += disk.credits_bytes
    return _known(burst), _known(base), bucket, _known(operations)


def _roots(node: Node) -> tuple[int, ...]:
    index_of: dict[str, int] = {}
    roots = tuple(index_of.setdefault(gpu.root_complex, len(index_of)) for gpu in node.hardware.gpus)
    if len(index_of) > ROOT_COMPLEXES:
        raise InvalidInput(
            f"node {node.name!r} has {len(index_of)} PCIe root complexes; it may have {ROOT_COMPLEXES}"
        )
    return roots


def _interconnects(
    roots: Sequence[Sequence[int]], fabric: Fabric, links: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the link between the root complexes of each node, and all links with these at the end."""
    rate = fabric.node_interconnect_bytes_per_s
    ids = np.full(len(roots), -1, dtype=np.int64)
    if rate > 0.0:
        several = [index for index, of_gpus in enumerate(roots) if len(set(of_gpus)) > 1]
        ids[several] = len(links) + np.arange(len(several))
        links = np.concatenate([links, np.full(len(several), rate)])
    return ids, links


def _links(
    nodes: Sequence[Node], fabric: Fabric
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the fabric's links (bytes per second) and which of them each node's traffic takes, −1: none."""
    zones: list[Hashable] = [node.label(ZONE_LABEL) for node in nodes]
    racks: list[Hashable] = [(zone, node.label(RACK_LABEL)) for zone, node in zip(zones, nodes, strict=True)]
    links: list[float] = []
    taken: list[NDArray[np.int64]] = []
    for rate, place_of in ((fabric.rack_uplink_bytes_per_s, racks), (fabric.zone_uplink_bytes_per_s, zones)):
        if rate <= 0.0:
            taken += [np.full(len(nodes), -1, dtype=np.int64)] * 2
            continue
        up_of: dict[Hashable, int] = {}
        for place in place_of:
            if place not in up_of:
                up_of[place] = len(links)
                links += [rate, rate]
        up = np.array([up_of[place] for place in place_of], dtype=np.int64)
        taken += [up, up + 1]
    return np.array(links, dtype=np.float64), taken[0], taken[1], taken[2], taken[3]
