"""Objects that only clusters of an emphasis apart have: devices with claims to them, and controllers of pods.

The first because our core leaves pods with resource claims to kube-scheduler on purpose, the second because a
controller that really runs would change its pods.
"""

from __future__ import annotations

from typing import Final

from testbed.differential.generator.world import Manifest, World

__all__ = ["device_claim", "devices", "own"]

_DRIVER: Final = "gpu.example.com"
_RESOURCE: Final = "resource.k8s.io/v1"
_OWNERS: Final = {"ReplicaSet": "apps/v1", "StatefulSet": "apps/v1", "ReplicationController": "v1"}


def devices(world: World) -> list[Manifest]:
    """Return a class of devices, and what some nodes have of it."""
    described: Manifest = {
        "apiVersion": _RESOURCE,
        "kind": "DeviceClass",
        "metadata": {"name": _DRIVER},
        "spec": {"selectors": [{"cel": {"expression": f'device.driver == "{_DRIVER}"'}}]},
    }
    return [described, *(_slice(world, name) for name in world.nodes if world.chance(0.4))]


def _slice(world: World, node: str) -> Manifest:
    return {
        "apiVersion": _RESOURCE,
        "kind": "ResourceSlice",
        "metadata": {"name": f"slice-{node}"},
        "spec": {
            "driver": _DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"d{number}"} for number in range(world.pick((1, 2)))],
        },
    }


def device_claim(world: World, namespace: str) -> Manifest:
    """Return a claim to a device, allocated on some node or still to be."""
    claim: Manifest = {
        "apiVersion": _RESOURCE,
        "kind": "ResourceClaim",
        "metadata": {"name": f"device-{world.number()}", "namespace": namespace},
        "spec": {"devices": {"requests": [{"name": "one", "exactly": {"deviceClassName": _DRIVER}}]}},
    }
    if world.chance(0.4):
        node = world.pick(world.nodes)
        here = {"key": "metadata.name", "operator": "In", "values": [node]}
        claim["status"] = {
            "allocation": {
                "devices": {"results": [{"request": "one", "driver": _DRIVER, "pool": node, "device": "d0"}]},
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [here]}]},
            }
        }
    return claim


def own(world: World, pods: list[Manifest]) -> list[Manifest]:
    """Return controllers of pods, and make them the owners of most pods that they select."""
    made: list[Manifest] = []
    for number in range(4):
        kind = world.pick(tuple(_OWNERS))
        namespace, labels = world.pick(world.namespaces), {"app": world.pick(("web", "db", "batch"))}
        owner: Manifest = {
            "apiVersion": _OWNERS[kind],
            "kind": kind,
            "metadata": {"name": f"owner-{number}", "namespace": namespace, "uid": f"owner-{number}"},
            "spec": _spec(kind, f"owner-{number}", labels),
        }
        made.append(owner)
        reference = {
            "apiVersion": owner["apiVersion"],
            "kind": kind,
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "controller": True,
        }
        for pod in pods:
            metadata = pod["metadata"]
            is_selected = metadata["namespace"] == namespace and metadata["labels"].items() >= labels.items()
            if is_selected and "ownerReferences" not in metadata and world.chance(0.8):
                metadata["ownerReferences"] = [reference]
    return made


def _spec(kind: str, name: str, labels: dict[str, str]) -> Manifest:
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "img"}]}}
    if kind == "ReplicationController":
        return {"replicas": 0, "selector": labels, "template": template}
    spec: Manifest = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    return {**spec, "serviceName": name} if kind == "StatefulSet" else spec
