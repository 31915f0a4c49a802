"""Storage: classes, drivers, volumes, claims, made when a pod wants a claim of some kind.

Kinds of claims, by what they put to the test:

* `zone`: bound to a volume with zone or region labels.
* `limit`: bound to a CSI volume that counts towards the node's limit.
* `reach`: bound to a volume with node affinity.
* `wait`: waits for its first consumer; a driver makes the volume (topology, reported capacity).
* `static`: waits for its first consumer; volumes are there already.
* `alone`: bound, ReadWriteOncePod.
* `moved`: bound to a volume of an in-tree plugin that has moved to CSI.
* `odd`: whatever may be wrong with a claim: unbound, lost, being deleted, half bound, its volume missing …

Free volumes all differ in size, no claim has two volumes reserved for it, and no two reported capacities of a
class overlap: of such, kube-scheduler takes whichever its hash table yields first, and so contradicts itself.
"""

from __future__ import annotations

from typing import Final

from testbed.differential.generator.nodes import HOST, ZONE
from testbed.differential.generator.relations import node_term
from testbed.differential.generator.volumes import moved_volume, volume, zone_labels
from testbed.differential.generator.world import Manifest, World

__all__ = ["add_csi", "claim_for", "csi_nodes", "ephemeral_claim"]

_BIND_COMPLETED: Final = {"pv.kubernetes.io/bind-completed": "yes"}
_OLD_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
_DRIVERS: Final = ("disk.example.com", "file.example.com")
_MOVED_DRIVERS: Final = ("pd.csi.storage.gke.io", "ebs.csi.aws.com")
_MOVED_PLUGINS: Final = ("kubernetes.io/gce-pd", "kubernetes.io/aws-ebs")
_CLASSES: Final[dict[str, Manifest]] = {
    "now": {"provisioner": "disk.example.com"},
    "wait-any": {"provisioner": "file.example.com", "volumeBindingMode": "WaitForFirstConsumer"},
    "wait-zone": {
        "provisioner": "disk.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": ["za", "zc"]}]}],
    },
    "wait-rack": {
        "provisioner": "disk.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [
            {"matchLabelExpressions": [{"key": ZONE, "values": ["zb"]}, {"key": "disk", "values": ["ssd"]}]},
            {"matchLabelExpressions": [{"key": "rack", "values": ["r1", "r2"]}]},
        ],
    },
    "wait-room": {"provisioner": "room.example.com", "volumeBindingMode": "WaitForFirstConsumer"},
    "local": {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"},
    "moved": {"provisioner": "kubernetes.io/gce-pd", "volumeBindingMode": "WaitForFirstConsumer"},
}
_MIB: Final = 1024**2


def _class(world: World, name: str) -> str:
    """Return the name of a storage class, made at the first call."""
    if name not in world.used:
        world.used.add(name)
        one: Manifest = {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": name},
            **_CLASSES[name],
        }
        if name == "wait-any" and world.chance(0.6):
            one["metadata"]["annotations"] = {"storageclass.kubernetes.io/is-default-class": "true"}
        world.early.append(one)
        if name == "local":
            _add_free_volumes(world)
        if name == "wait-room":
            _add_capacities(world)
    return name


def _add_free_volumes(world: World) -> None:
    reserved: set[tuple[str, str]] = set()
    for size in world.rng.sample(range(100, 1000), world.rng.randint(8, 25)):
        if world.chance(0.5):
            place: Manifest | None = {
                "matchExpressions": [{"key": HOST, "operator": "In", "values": [world.pick(world.nodes)]}]
            }
        elif world.chance(0.6):
            place = {
                "matchExpressions": [{"key": ZONE, "operator": "In", "values": world.some(world.zones, 1, 2)}]
            }
        else:
            place = node_term(world, with_fields=False) if world.chance(0.7) else None
        driver = _DRIVERS[0] if world.chance(0.2) else None
        one = volume(world, size_bytes=size * _MIB, storage_class="local", place=place, driver=driver)
        if world.chance(0.1):
            one["spec"]["volumeMode"] = "Block"
        elif driver is not None and world.chance(0.5):
            one["spec"]["volumeAttributesClassName"] = "quick"
        if world.chance(0.3):
            one["metadata"]["labels"] = {"tier": world.pick(("fast", "slow"))}
        if world.chance(0.08):
            one["status"] = {"phase": world.pick(("Released", "Failed", "Pending"))}
        holder = (world.pick(world.namespaces), world.pick(("static-0", "static-1", "other")))
        if world.chance(0.08) and holder not in reserved:
            reserved.add(holder)
            one["spec"]["claimRef"] = {
                "kind": "PersistentVolumeClaim",
                "apiVersion": "v1",
                "namespace": holder[0],
                "name": holder[1],
            }
        world.early.append(one)


def _add_capacities(world: World) -> None:
    world.used.add("room.example.com")
    driver: Manifest = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": {"name": "room.example.com"},
        "spec": {"storageCapacity": world.chance(0.85)},
    }
    world.early.append(driver)
    for storage_class in ("wait-room", "wait-any"):
        zones = world.some(world.zones, 0, len(world.zones))
        while zones:
            count = world.pick((1, 1, 2))
            world.early.append(_capacity(world, storage_class, zones[:count]))
            del zones[:count]


def _capacity(world: World, storage_class: str, zones: list[str]) -> Manifest:
    """Return what a driver reports of some zones. No two overlap: kube-scheduler takes either then."""
    one: Manifest = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {"name": f"room-{world.number()}", "namespace": world.pick(world.namespaces)},
        "storageClassName": storage_class,
    }
    if world.chance(0.9):
        one["capacity"] = world.pick(("0", "100Mi", "500Mi", "2Gi"))
    if "capacity" in one and world.chance(0.3):  # without, the scores of kube-scheduler 1.37 panic
        one["maximumVolumeSize"] = world.pick(("50Mi", "300Mi", "3Gi"))
    if len(zones) == 1 and world.chance(0.7):
        one["nodeTopology"] = {"matchLabels": {ZONE: zones[0]}}
    elif world.chance(0.95):
        one["nodeTopology"] = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": zones}]}
    return one


def add_csi(world: World) -> None:
    """Add drivers; that of `wait-room` is there as soon as its class is."""
    for name in (*_DRIVERS, *_MOVED_DRIVERS):
        if world.chance(0.4):
            spec: Manifest = {}
            if world.chance(0.3):
                spec["preventPodSchedulingIfMissing"] = True
            if world.chance(0.1):
                spec["storageCapacity"] = True
            world.early.append(
                {
                    "apiVersion": "storage.k8s.io/v1",
                    "kind": "CSIDriver",
                    "metadata": {"name": name},
                    "spec": spec,
                }
            )


def csi_nodes(world: World) -> list[Manifest]:
    """Return the CSINodes, with limits, and VolumeAttachments."""
    made: list[Manifest] = []
    is_tight = world.has("limits")
    for name in world.nodes:
        if not world.chance(0.9):
            continue
        drivers: list[Manifest] = []
        for driver in (*_DRIVERS, *_MOVED_DRIVERS, "room.example.com"):
            if world.chance(0.85):
                one: Manifest = {"name": driver, "nodeID": name}
                if world.chance(0.8):
                    one["allocatable"] = {"count": world.pick((1, 2, 3)) if is_tight else 30}
                drivers.append(one)
        metadata: Manifest = {"name": name}
        if world.chance(0.5):
            plugins = world.some(_MOVED_PLUGINS, 1, 2)
            metadata["annotations"] = {"storage.alpha.kubernetes.io/migrated-plugins": ",".join(plugins)}
        made.append(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "CSINode",
                "metadata": metadata,
                "spec": {"drivers": drivers},
            }
        )
    return [*made, *_attachments(world)] if is_tight else made


def _attachments(world: World) -> list[Manifest]:
    volumes = [one["metadata"]["name"] for one in world.early if one["kind"] == "PersistentVolume"]
    return [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "VolumeAttachment",
            "metadata": {"name": f"attached-{number}"},
            "spec": {
                "attacher": world.pick(_DRIVERS),
                "nodeName": world.pick(world.nodes),
                "source": {"persistentVolumeName": world.pick(volumes)},
            },
        }
        for number in range(world.rng.randint(0, 10) if volumes else 0)
    ]


def claim_for(world: World, namespace: str, kind: str) -> str:
    """Return the name of a claim of that kind: one that is there, or a new one."""
    known = world.claims.setdefault((namespace, kind), [])
    if known and world.chance(0.5):
        return world.pick(known)
    name = f"{kind}-{len(known)}"
    known.append(name)
    claim = _claim(
        namespace, name, modes=["ReadWriteOnce"], size=world.pick(("1Mi", "50Mi", "150Mi", "450Mi"))
    )
    match kind:
        case "wait":
            claim["spec"]["storageClassName"] = _class(
                world, world.pick(("wait-any", "wait-zone", "wait-rack", "wait-room", "wait-room", "moved"))
            )
            if world.chance(0.1):
                claim["metadata"]["annotations"] = {_SELECTED_NODE: world.pick(world.nodes)}
        case "static":
            _let_match(world, claim)
        case "odd":
            if _make_odd(world, claim):
                return name
        case _:
            _bind(world, claim, kind)
    world.early.append(claim)
    return name


def _let_match(world: World, claim: Manifest) -> None:
    """Leave a claim to the volumes that are there, with a condition now and then."""
    spec = claim["spec"]
    spec["storageClassName"] = _class(world, "local")
    if world.chance(0.2):
        spec["selector"] = {"matchLabels": {"tier": world.pick(("fast", "slow"))}}
    if world.chance(0.1):
        spec["volumeMode"] = "Block"
    if world.chance(0.1):
        spec["accessModes"] = [world.pick(("ReadWriteMany", "ReadOnlyMany"))]
    if world.chance(0.1):
        spec["volumeAttributesClassName"] = "quick"
    if world.chance(0.1):
        claim["metadata"]["annotations"] = {_OLD_CLASS: spec.pop("storageClassName")}


def _claim(namespace: str, name: str, *, modes: list[str], size: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace, "uid": f"claim-{namespace}-{name}"},
        "spec": {"accessModes": modes, "resources": {"requests": {"storage": size}}, "storageClassName": ""},
    }


def _bind(world: World, claim: Manifest, kind: str) -> Manifest:
    """Bind a claim to a new volume of its kind; return the volume, which is among the objects."""
    place = node_term(world, with_fields=False) if kind == "reach" else None
    if kind == "reach" and world.chance(0.5):
        place = {
            "matchExpressions": [{"key": ZONE, "operator": "In", "values": world.some(world.zones, 1, 2)}]
        }
    if kind == "moved":
        one = moved_volume(world, storage_class="", place=place)
    else:
        driver = world.pick(_DRIVERS) if kind in ("limit", "alone") or world.chance(0.3) else None
        one = volume(world, size_bytes=1024 * _MIB, storage_class="", place=place, driver=driver)
    if kind == "zone":
        one["metadata"]["labels"] = zone_labels(world)
    if kind == "alone":
        claim["spec"]["accessModes"] = one["spec"]["accessModes"] = ["ReadWriteOncePod"]
    _tie(claim, one)
    world.early.append(one)
    return one


def _tie(claim: Manifest, one: Manifest) -> None:
    """Bind both ways, as the volume controller leaves them."""
    claim["metadata"].setdefault("annotations", {}).update(_BIND_COMPLETED)
    claim["spec"]["volumeName"] = one["metadata"]["name"]
    claim["status"] = {
        "phase": "Bound",
        "accessModes": claim["spec"]["accessModes"],
        "capacity": dict(one["spec"]["capacity"]),
    }
    one["spec"]["claimRef"] = {
        "kind": "PersistentVolumeClaim",
        "apiVersion": "v1",
        "namespace": claim["metadata"]["namespace"],
        "name": claim["metadata"]["name"],
        "uid": claim["metadata"]["uid"],
    }
    one["status"] = {"phase": "Bound"}


def _make_odd(world: World, claim: Manifest) -> bool:
    """Make something about a claim wrong; tell whether that is its absence."""
    match world.rng.randrange(9):
        case 0:
            return True
        case 1:
            claim["spec"]["storageClassName"] = _class(world, "now")
        case 2:
            claim["spec"]["storageClassName"] = "no-such-class"
        case 3:
            _class(world, "wait-any")
            del claim["spec"]["storageClassName"]  # the default class, if that is one
        case 4:
            _bind(world, claim, "reach")
            claim["status"] = {"phase": "Lost"}
        case 5:
            _bind(world, claim, "reach")
            claim["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            claim["metadata"]["finalizers"] = ["kubernetes.io/pvc-protection"]
        case 6:
            claim["spec"]["volumeName"] = "no-such-volume"
            claim["metadata"]["annotations"] = dict(_BIND_COMPLETED)
        case 7:
            _bind(world, claim, "zone")
            del claim["metadata"]["annotations"]  # the volume is named, the binding not finished
        case _:
            pass  # no class, no volume
    return False


def ephemeral_claim(world: World, pod: Manifest, volume_name: str, *, is_bound: bool) -> Manifest:
    """Return the source of an ephemeral volume of a pod, of which its metadata are given.

    Its claim is among the objects, mostly made for this pod; that of a pod that runs always is, and is bound.
    """
    spec: Manifest = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "20Mi"}},
        "storageClassName": _class(world, world.pick(("wait-zone", "wait-any"))),
    }
    if is_bound or world.chance(0.9):
        name = f"{pod['name']}-{volume_name}"
        claim = _claim(pod["namespace"], name, modes=["ReadWriteOnce"], size="20Mi")
        claim["spec"]["storageClassName"] = spec["storageClassName"]
        owner = pod["uid"] if is_bound or world.chance(0.85) else "another-pod"
        claim["metadata"]["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "Pod", "name": pod["name"], "uid": owner, "controller": True}
        ]
        if is_bound or world.chance(0.4):
            claim["spec"]["storageClassName"] = ""
            _bind(world, claim, world.pick(("reach", "limit")))
        world.early.append(claim)
    return {"volumeClaimTemplate": {"spec": spec}}
