"""Reader of Stowplan's own cluster files: `apiVersion: stowplan/v1`, `kind: Cluster` (docs/FORMATS.md).

Nodes come in groups of equal machines, spread evenly over the racks and zones that a group names. Rates are
Kubernetes quantities per second. Everything is checked: unknown keys, units, signs, absurd amounts, names
used twice; messages name the field by its path.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal

import msgspec

from stowplan.core.domain import (
    CPU,
    HOSTNAME_LABEL,
    MACHINE_TYPE_LABEL,
    MEMORY,
    PODS,
    RACK_LABEL,
    ZONE_LABEL,
    Disk,
    Gpu,
    Hardware,
    Node,
    Resources,
    Taint,
    freeze_labels,
)
from stowplan.core.physics.vocabulary import Resource
from stowplan.errors import InvalidFile, InvalidInput, InvalidObject
from stowplan.simulate.clusters.model import BackgroundTenant, Cluster, Drift, Fabric, Link
from stowplan.simulate.fields import (
    MOST_BYTES,
    MOST_CORES,
    MOST_RATE,
    Quantity,
    Strict,
    amount,
    convert,
    effect,
    seconds,
)
from stowplan.simulate.files import parse_yaml
from stowplan.simulate.laws import DriftLaw, Law
from stowplan.simulate.workfields import WorkFields, work_of

__all__ = ["parse"]

_MOST_NODES: Final = 100_000
_MOST_OPERATIONS: Final = 1e9
_PODS_PER_NODE: Final = 110
_RESOURCES: Final = {item.name.lower().replace("_", "-"): item for item in Resource}


class _Disk(Strict):
    base: Quantity
    base_iops: Quantity = 0
    burst: Quantity = 0
    burst_iops: Quantity = 0
    credits: Quantity = 0


class _Nic(Strict):
    up: Quantity
    down: Quantity


class _Gpus(Strict):
    model: str
    count: int = 1
    root_complex: str = ""


class _Taint(Strict):
    key: str
    effect: str
    value: str = ""


class _Group(Strict):
    name: str
    cores: Quantity
    memory: Quantity
    count: int = 1
    machine_type: str = ""
    zones: tuple[str, ...] = ()
    racks: tuple[str, ...] = ()
    pods: int = _PODS_PER_NODE
    allocatable: dict[str, Quantity] = msgspec.field(default_factory=dict[str, Quantity])
    dram: Quantity = 0
    nic: Quantity | _Nic = 0
    pcie: Quantity = 0
    disks: tuple[_Disk, ...] = ()
    gpus: tuple[_Gpus, ...] = ()
    labels: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    taints: tuple[_Taint, ...] = ()
    unschedulable: bool = False


class _Link(Strict):
    bandwidth: Quantity = 0
    latency: Quantity = 0


class _Fabric(Strict):
    same_root_complex: _Link = msgspec.field(default_factory=_Link)
    same_node: _Link = msgspec.field(default_factory=_Link)
    same_rack: _Link = msgspec.field(default_factory=_Link)
    same_zone: _Link = msgspec.field(default_factory=_Link)
    other_zone: _Link = msgspec.field(default_factory=_Link)
    rack_uplink: Quantity = 0
    zone_uplink: Quantity = 0
    node_interconnect: Quantity = 0


class _Tenant(Strict):
    name: str
    nodes: tuple[str, ...]
    work: WorkFields
    first: Quantity = 0
    every: Quantity | None = None


class _Drift(Strict):
    nodes: tuple[str, ...]
    resource: str
    mean_normal: Quantity
    mean_degraded: Quantity
    factor: float | None = None
    law: str | None = None
    below: float = 0.9


class _Metadata(Strict):
    name: str


class _Spec(Strict):
    nodes: tuple[_Group, ...]
    fabric: _Fabric = msgspec.field(default_factory=_Fabric)
    background: tuple[_Tenant, ...] = ()
    drift: tuple[_Drift, ...] = ()


class _Manifest(Strict):
    api_version: Literal["stowplan/v1"]
    kind: Literal["Cluster"]
    metadata: _Metadata
    spec: _Spec


def parse(text: str, path: Path, load_law: Callable[[Path], Law]) -> Cluster:
    """Return the cluster of a file; `load_law` reads the drift laws that it names, relative to the file.

    Raises:
        InvalidFile, InvalidObject, InvalidQuantity: something in it is unusable; the message names file and
        field.
    """
    documents = parse_yaml(text, str(path))
    if len(documents) > 1:
        raise InvalidFile(f"{path}: holds {len(documents)} documents; put one cluster in a file")
    spec = (manifest := convert(documents[0], _Manifest, str(path))).spec
    if sum(max(group.count, 0) for group in spec.nodes) > _MOST_NODES:
        raise InvalidFile(f"{path}: spec.nodes has more than {_MOST_NODES} nodes; lower the counts")
    names_of: dict[str, tuple[str, ...]] = {}
    nodes: list[Node] = []
    for index, group in enumerate(spec.nodes):
        where = f"{path}: spec.nodes[{index}]"
        if group.name in names_of:
            raise InvalidObject(f"{where}: a group {group.name!r} occurs twice; names must be unique")
        made = _nodes(group, where)
        names_of[group.name] = tuple(node.name for node in made)
        nodes += made
    background: list[BackgroundTenant] = []
    for index, tenant in enumerate(spec.background):
        background += _tenants(tenant, names_of, f"{path}: spec.background[{index}]")
    drift = tuple(
        _drift(item, names_of, path.parent, load_law, f"{path}: spec.drift[{index}]")
        for index, item in enumerate(spec.drift)
    )
    try:
        return Cluster(
            manifest.metadata.name,
            tuple(nodes),
            fabric=_fabric(spec.fabric, f"{path}: spec.fabric"),
            background=tuple(background),
            drift=drift,
            source=str(path),
        )
    except InvalidObject as error:
        raise InvalidObject(f"{path}: {error}") from None


def _nodes(group: _Group, where: str) -> list[Node]:
    if group.count < 1:
        raise InvalidFile(f"{where}.count: is {group.count}; give at least 1")
    if group.pods < 1:
        raise InvalidFile(f"{where}.pods: is {group.pods}; a node takes at least 1")
    cores = amount(group.cores, f"{where}.cores", most=MOST_CORES)
    memory_bytes = amount(group.memory, f"{where}.memory", most=MOST_BYTES)
    if cores == 0 or memory_bytes == 0:
        raise InvalidFile(
            f"{where}: has {group.cores} cores and {group.memory} of memory; a node needs some of both"
        )
    nic_up, nic_down = (
        (group.nic.up, group.nic.down) if isinstance(group.nic, _Nic) else (group.nic, group.nic)
    )
    hardware = Hardware(
        cores=cores,
        dram_bytes_per_s=amount(group.dram, f"{where}.dram", most=MOST_RATE),
        nic_up_bytes_per_s=amount(nic_up, f"{where}.nic", most=MOST_RATE),
        nic_down_bytes_per_s=amount(nic_down, f"{where}.nic", most=MOST_RATE),
        pcie_bytes_per_s=amount(group.pcie, f"{where}.pcie", most=MOST_RATE),
        disks=tuple(_disk(disk, f"{where}.disks[{index}]") for index, disk in enumerate(group.disks)),
        gpus=_gpus(group.gpus, where),
        machine_type=group.machine_type,
    )
    allocatable = _allocatable(group, cores, memory_bytes, where)
    taints = tuple(
        Taint(taint.key, taint.value, effect(taint.effect, f"{where}.taints[{index}]"))
        for index, taint in enumerate(group.taints)
    )
    nodes: list[Node] = []
    for number in range(group.count):
        name = group.name if group.count == 1 else f"{group.name}-{number}"
        labels = dict(group.labels)
        labels[HOSTNAME_LABEL] = name
        if group.machine_type:
            labels[MACHINE_TYPE_LABEL] = group.machine_type
        if group.zones:
            labels[ZONE_LABEL] = group.zones[number % len(group.zones)]
        if group.racks:
            labels[RACK_LABEL] = group.racks[number % len(group.racks)]
        nodes.append(
            Node(name, allocatable, freeze_labels(labels), taints, group.unschedulable, hardware=hardware)
        )
    return nodes


def _allocatable(group: _Group, cores: float, memory_bytes: float, where: str) -> Resources:
    whole = Resources({CPU: round(1000 * cores), MEMORY: round(memory_bytes), PODS: group.pods})
    try:
        given = Resources.from_quantities(group.allocatable)
    except InvalidInput as error:
        raise type(error)(f"{where}.allocatable: {error}") from None
    for name in (CPU, MEMORY):
        if given.get(name, 0) > whole[name]:
            raise InvalidFile(
                f"{where}.allocatable.{name}: {group.allocatable[name]} is more than the machine has"
            )
    return whole.replaced(given)


def _disk(fields: _Disk, where: str) -> Disk:
    base, burst = (
        amount(rate, f"{where}.{key}", most=MOST_RATE)
        for rate, key in ((fields.base, "base"), (fields.burst, "burst"))
    )
    base_iops, burst_iops = (
        amount(rate, f"{where}.{key}", most=_MOST_OPERATIONS)
        for rate, key in ((fields.base_iops, "baseIops"), (fields.burst_iops, "burstIops"))
    )
    if base == 0:
        raise InvalidFile(f"{where}.base: is 0; a disk moves some bytes per second")
    if 0 < burst < base or 0 < burst_iops < base_iops:
        raise InvalidFile(f"{where}.burst: is below the base; a burst is faster, or leave it out")
    credits_bytes = amount(fields.credits, f"{where}.credits", most=MOST_BYTES)
    if burst and not credits_bytes:
        raise InvalidFile(f"{where}.credits: is 0 but a burst is given; say how many bytes the bucket holds")
    return Disk(base, base_iops, burst, burst_iops, credits_bytes)


def _gpus(groups: tuple[_Gpus, ...], where: str) -> tuple[Gpu, ...]:
    gpus: list[Gpu] = []
    for index, group in enumerate(groups):
        if not 0 < group.count <= 64:
            raise InvalidFile(f"{where}.gpus[{index}].count: is {group.count}; a node has 1 to 64")
        gpus += [Gpu(group.model, group.root_complex)] * group.count
    return tuple(gpus)


def _fabric(fields: _Fabric, where: str) -> Fabric:
    def link(item: _Link, key: str) -> Link:
        return Link(
            amount(item.bandwidth, f"{where}.{key}.bandwidth", most=MOST_RATE),
            seconds(item.latency, f"{where}.{key}.latency"),
        )

    return Fabric(
        same_root_complex=link(fields.same_root_complex, "sameRootComplex"),
        same_node=link(fields.same_node, "sameNode"),
        same_rack=link(fields.same_rack, "sameRack"),
        same_zone=link(fields.same_zone, "sameZone"),
        other_zone=link(fields.other_zone, "otherZone"),
        rack_uplink_bytes_per_s=amount(fields.rack_uplink, f"{where}.rackUplink", most=MOST_RATE),
        zone_uplink_bytes_per_s=amount(fields.zone_uplink, f"{where}.zoneUplink", most=MOST_RATE),
        node_interconnect_bytes_per_s=amount(
            fields.node_interconnect, f"{where}.nodeInterconnect", most=MOST_RATE
        ),
    )


def _names(groups: tuple[str, ...], names_of: dict[str, tuple[str, ...]], where: str) -> tuple[str, ...]:
    """Return the names of nodes that a list of groups and single nodes stands for, each once."""
    single = {name for names in names_of.values() for name in names}
    found: dict[str, None] = {}
    for group in groups:
        if group not in names_of and group not in single:
            raise InvalidFile(
                f"{where}.nodes: {group!r} is neither a group nor a node; known groups: {', '.join(names_of)}"
            )
        found.update(dict.fromkeys(names_of.get(group, (group,))))
    if not found:
        raise InvalidFile(f"{where}.nodes: is empty; name at least one group or node")
    return tuple(found)


def _tenants(fields: _Tenant, names_of: dict[str, tuple[str, ...]], where: str) -> list[BackgroundTenant]:
    work = work_of(fields.work, f"{where}.work")
    first_s = seconds(fields.first, f"{where}.first")
    every_s = None if fields.every is None else seconds(fields.every, f"{where}.every")
    if every_s == 0.0:
        raise InvalidFile(
            f"{where}.every: is 0; give the seconds from one beginning to the next, or leave it out"
        )
    return [
        BackgroundTenant(fields.name, node, work, first_s, every_s)
        for node in _names(fields.nodes, names_of, where)
    ]


def _drift(
    fields: _Drift,
    names_of: dict[str, tuple[str, ...]],
    folder: Path,
    load_law: Callable[[Path], Law],
    where: str,
) -> Drift:
    if fields.resource not in _RESOURCES:
        raise InvalidFile(
            f"{where}.resource: is {fields.resource!r}; it must be one of {', '.join(_RESOURCES)}"
        )
    if (fields.factor is None) == (fields.law is None):
        raise InvalidFile(f"{where}: must give either factor or law; give one of the two")
    levels: tuple[float, ...] = ()
    if fields.law is not None:
        law = load_law(folder / fields.law)
        if not isinstance(law, DriftLaw):
            raise InvalidFile(f"{where}.law: {fields.law} is a {type(law).__name__}; a drift law is needed")
        levels = law.degraded_levels(fields.below)
    try:
        return Drift(
            nodes=_names(fields.nodes, names_of, where),
            resource=_RESOURCES[fields.resource],
            mean_normal_s=seconds(fields.mean_normal, f"{where}.meanNormal"),
            mean_degraded_s=seconds(fields.mean_degraded, f"{where}.meanDegraded"),
            degraded_factor=1.0 if fields.factor is None else fields.factor,
            levels=levels,
        )
    except InvalidInput as error:
        if str(error).startswith(where):
            raise
        raise InvalidFile(f"{where}: {error}") from None
