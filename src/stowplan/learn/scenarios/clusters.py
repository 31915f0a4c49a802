"""A random cluster: nodes of the drawn types in zones and racks, hidden tenants, and resources that drift.

Tenants request nothing and take a part or all of a machine's memory bandwidth, disk, network or cores for
minutes, again and again; drift is the two-state chain of the simulator, shallow as cloud VMs show it or down
to a few per cent as shared disks can fall. A policy sees both only in the nodes' readings.
"""

from __future__ import annotations

import math

import numpy as np

from stowplan.core.domain import (
    CPU,
    HOSTNAME_LABEL,
    MACHINE_TYPE_LABEL,
    MEMORY,
    PODS,
    RACK_LABEL,
    ZONE_LABEL,
    Labels,
    Node,
    Phase,
    Resources,
    WorkProfile,
)
from stowplan.core.physics.vocabulary import Resource
from stowplan.learn.scenarios.chance import log_uniform
from stowplan.learn.scenarios.demands import KEPT
from stowplan.learn.scenarios.machines import MachineType
from stowplan.learn.scenarios.ranges import Ranges
from stowplan.simulate.clusters import Cluster
from stowplan.simulate.clusters.model import BackgroundTenant, Drift, Fabric, Link

__all__ = ["draw_cluster"]

_MIB = float(1 << 20)
_DRIFTING = (Resource.DRAM, Resource.DISK, Resource.NIC_DOWN, Resource.NIC_UP)
_POD_LIMIT = 110
_MOST_CORES = 480.0
"""Of a cluster, about: the tasks of an episode could not load more."""


def draw_cluster(
    rng: np.random.Generator, ranges: Ranges, types: tuple[MachineType, ...], name: str
) -> Cluster:
    """Draw nodes of every type, what lies between them and what presses on them."""
    mean_cores = math.fsum(kind.hardware.cores for kind in types) / len(types)
    most = min(ranges.nodes[1], max(round(_MOST_CORES / mean_cores), ranges.nodes[0]))
    count = max(round(log_uniform(rng, ranges.nodes[0], most)), len(types))
    shares = rng.dirichlet(np.full(len(types), 2.0))
    of_type = [*range(len(types)), *rng.choice(len(types), count - len(types), p=shares).tolist()]
    zones = int(rng.integers(1, 4))
    racks = int(rng.integers(1, 5))
    kept_cores, kept_memory = float(rng.uniform(KEPT[0], 1.0)), float(rng.uniform(KEPT[1], 0.95))
    nodes = tuple(
        _node(f"{types[kind].name}-{number}", types[kind], number, (zones, racks), (kept_cores, kept_memory))
        for number, kind in enumerate(sorted(of_type))
    )
    return Cluster(
        name,
        nodes,
        fabric=_draw_fabric(rng),
        background=_draw_tenants(rng, ranges, nodes),
        drift=_draw_drift(rng, ranges, nodes),
    )


def _node(
    name: str, kind: MachineType, number: int, places: tuple[int, int], kept: tuple[float, float]
) -> Node:
    zones, racks = places
    labels: Labels = tuple(
        sorted(
            (
                (HOSTNAME_LABEL, name),
                (MACHINE_TYPE_LABEL, kind.name),
                (ZONE_LABEL, f"zone-{number % zones}"),
                (RACK_LABEL, f"rack-{number // zones % racks}"),
            )
        )
    )
    allocatable = Resources(
        {
            CPU: math.floor(1000 * kind.hardware.cores * kept[0]),
            MEMORY: math.floor(kind.memory_bytes * kept[1]),
            PODS: _POD_LIMIT,
        }
    )
    return Node(name, allocatable, labels, hardware=kind.hardware)


def _draw_fabric(rng: np.random.Generator) -> Fabric:
    local = float(rng.uniform(500.0, 3000.0)) * _MIB
    return Fabric(
        same_rack=Link(local, 6e-5),
        same_zone=Link(local, 2e-4),
        other_zone=Link(local * float(rng.uniform(0.2, 0.8)), float(rng.uniform(5e-4, 3e-3))),
        rack_uplink_bytes_per_s=local * float(rng.uniform(2.0, 8.0)),
        zone_uplink_bytes_per_s=local * float(rng.uniform(1.0, 6.0)),
    )


def _draw_tenants(
    rng: np.random.Generator, ranges: Ranges, nodes: tuple[Node, ...]
) -> tuple[BackgroundTenant, ...]:
    share = float(rng.uniform(0.0, ranges.tenant_share))
    tenants: list[BackgroundTenant] = []
    for node in nodes:
        if rng.random() >= share:
            continue
        every_s = 60.0 * log_uniform(rng, 4.0, 60.0)
        length_s = every_s * float(rng.uniform(0.15, 0.8))
        work = WorkProfile((_tenant_phase(rng, ranges, node, length_s),))
        first_s = float(rng.uniform(-length_s, every_s))  # some are under way when the run begins
        tenants.append(BackgroundTenant(f"tenant-{node.name}", node.name, work, max(first_s, 0.0), every_s))
    return tuple(tenants)


def _tenant_phase(rng: np.random.Generator, ranges: Ranges, node: Node, length_s: float) -> Phase:
    hardware, strength = node.hardware, float(rng.uniform(*ranges.tenant_strength))
    kind = rng.random()
    if kind < 0.4:
        return Phase(
            length_s,
            cpu_cores=float(rng.uniform(0.2, 1.5)),
            dram_bytes_per_s=strength * hardware.dram_bytes_per_s,
            latency_share=0.3,
        )
    if kind < 0.7:
        of_writes = float(rng.random())
        return Phase(
            length_s,
            cpu_cores=0.2,
            disk_read_bytes_per_s=(1.0 - of_writes) * strength * hardware.disks[0].base_bytes_per_s,
            disk_write_bytes_per_s=of_writes * strength * hardware.disks[0].base_bytes_per_s,
            disk_queue_bytes=log_uniform(rng, 0.25, 16.0) * _MIB,
        )
    if kind < 0.85:
        is_down = rng.random() < 0.5
        return Phase(
            length_s,
            cpu_cores=0.2,
            nic_down_bytes_per_s=strength * hardware.nic_down_bytes_per_s if is_down else 0.0,
            nic_up_bytes_per_s=0.0 if is_down else strength * hardware.nic_up_bytes_per_s,
        )
    return Phase(length_s, cpu_cores=strength * hardware.cores, dram_bytes_per_s=1e9)


def _draw_drift(rng: np.random.Generator, ranges: Ranges, nodes: tuple[Node, ...]) -> tuple[Drift, ...]:
    types = sorted({node.hardware.machine_type for node in nodes})
    drifts: list[Drift] = []
    for resource in _DRIFTING:
        if rng.random() >= ranges.drift_share:
            continue
        chosen = set(rng.choice(types, int(rng.integers(1, len(types) + 1)), replace=False).tolist())
        names = tuple(node.name for node in nodes if node.hardware.machine_type in chosen)
        is_deep = rng.random() < 0.4
        drifts.append(
            Drift(
                nodes=names,
                resource=resource,
                mean_normal_s=60.0 * float(rng.uniform(15.0, 120.0)),
                mean_degraded_s=60.0 * float(rng.uniform(2.0, 15.0)),
                levels=(log_uniform(rng, 0.02, 0.3),)
                if is_deep
                else tuple(np.sort(rng.uniform(0.4, 0.95, 5)).tolist()),
            )
        )
    return tuple(drifts)
