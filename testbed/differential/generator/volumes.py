"""PersistentVolumes, and disks that a pod names itself."""

from __future__ import annotations

from typing import Final

from testbed.differential.generator.nodes import BETA_REGION, BETA_ZONE, REGION, ZONE
from testbed.differential.generator.world import Manifest, World

__all__ = ["inline_disk", "moved_volume", "volume", "zone_labels"]

_MIB: Final = 1024**2
_DISKS: Final = ("d1", "d2", "d3")


def volume(
    world: World,
    *,
    size_bytes: int,
    storage_class: str,
    place: Manifest | None,
    driver: str | None = None,
) -> Manifest:
    """Return a volume that is available.

    Args:
        world: Where it is made.
        size_bytes: Its capacity.
        storage_class: Its class, "" for none.
        place: A node selector term, the nodes that reach it; None: all.
        driver: The CSI driver that made it; None: no driver did.
    """
    name = f"pv-{world.number()}"
    spec: Manifest = {
        "capacity": {"storage": str(size_bytes)},
        "accessModes": ["ReadWriteOnce"] if world.chance(0.8) else ["ReadWriteOnce", "ReadOnlyMany"],
    }
    if storage_class:
        spec["storageClassName"] = storage_class
    if driver is None:
        spec["nfs"] = {"server": "nfs.example.com", "path": f"/{name}"}
    else:
        handle = name if world.chance(0.9) else f"shared-{world.rng.randrange(3)}"
        spec["csi"] = {"driver": driver, "volumeHandle": handle}
    if place is not None:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [place]}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": spec,
        "status": {"phase": "Available"},
    }


def zone_labels(world: World) -> dict[str, str]:
    """Return zone or region labels of a volume: stable or beta, one value or several."""
    values = {
        ZONE: (*world.zones, "za__zb", "zb__zc", "zx", "za____zb"),
        REGION: ("east", "west", "east__west"),
        BETA_ZONE: (*world.zones, "zb__zc"),
        BETA_REGION: ("east", "west"),
    }
    keys = world.pick(((ZONE,), (ZONE,), (ZONE, REGION), (REGION,), (BETA_ZONE,), (BETA_REGION, ZONE)))
    return {key: world.pick(values[key]) for key in keys}


def moved_volume(world: World, *, storage_class: str, place: Manifest | None) -> Manifest:
    """Return a volume of an in-tree plugin whose work CSI drivers have taken over."""
    one = volume(world, size_bytes=1024 * _MIB, storage_class=storage_class, place=place)
    name = one["metadata"]["name"]
    spec = one["spec"]
    del spec["nfs"]
    spec |= world.pick(
        (
            {"gcePersistentDisk": {"pdName": name}},
            {"gcePersistentDisk": {"pdName": name}},
            {"awsElasticBlockStore": {"volumeID": world.pick((name, f"aws://za/vol-{name}"))}},
            {"azureDisk": {"diskName": name, "diskURI": f"/subscriptions/x/{name}", "kind": "Managed"}},
            {"cinder": {"volumeID": name}},
            {"portworxVolume": {"volumeID": name}},
        )
    )
    if world.chance(0.6):
        one["metadata"]["labels"] = zone_labels(world)
    if place is None and world.chance(0.6):
        key = world.pick((ZONE, BETA_ZONE, ZONE, REGION))
        values = world.some(world.zones, 1, 2) if key != REGION else ["east"]
        term = {"matchExpressions": [{"key": key, "operator": "In", "values": values}]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    return one


def inline_disk(world: World) -> Manifest:
    """Return the source of a volume that a pod names itself and may have to share."""
    disk = world.pick(_DISKS)
    read_only = {"readOnly": True} if world.chance(0.4) else {}
    match world.rng.randrange(4):
        case 0:
            return {"gcePersistentDisk": {"pdName": disk, **read_only}}
        case 1:
            return {"awsElasticBlockStore": {"volumeID": disk, **read_only}}
        case 2:
            portal = world.pick(("10.1.0.1:3260", "10.1.0.2:3260"))
            target = f"iqn.2001-04.com.example:{disk}"
            return {"iscsi": {"targetPortal": portal, "iqn": target, "lun": 0, **read_only}}
        case _:
            source: Manifest = {
                "image": disk,
                "monitors": world.some(("m1:6789", "m2:6789", "m3:6789"), 1, 2),
            }
            if world.chance(0.4):
                source["pool"] = world.pick(("rbd", "other"))
            return {"rbd": {**source, **read_only}}
