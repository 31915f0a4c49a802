"""Nodes and what describes them: labels, taints, what is allocatable, images, declared features.

Only what a real API server keeps when a node is made. Taints that the node controller would set or lift by
itself (not-ready, unreachable) and their tolerations, which admission adds to every pod, are left out.
"""

from __future__ import annotations

from typing import Final

from testbed.differential.generator.world import Manifest, World

__all__ = [
    "DECLARED_FEATURES",
    "EXTENDED",
    "HOST",
    "IMAGES",
    "REGION",
    "TAINT_KEYS",
    "ZONE",
    "node",
]

HOST: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION: Final = "failure-domain.beta.kubernetes.io/region"
TAINT_KEYS: Final = ("dedicated", "gpu", "example.com/maintenance")
EXTENDED: Final = ("example.com/gpu", "vendor.example/fpga")
DECLARED_FEATURES: Final = ("RestartAllContainersOnContainerExits", "ExtendWebSocketsToKubelet")
IMAGES: Final[dict[str, int]] = {
    "registry.example/tool:1": 40 * 1024**2,
    "registry.example/tool:2": 300 * 1024**2,
    "registry.example/big:latest": 1500 * 1024**2,
    "registry.example/small:1": 5 * 1024**2,
    "registry.example/model@sha256:" + "ab" * 32: 900 * 1024**2,
}
"""Images by name, with their sizes in bytes."""

_ZONES: Final = ("za", "zb", "zc")
_LABELS: Final[dict[str, tuple[float, tuple[str, ...]]]] = {
    BETA_ZONE: (0.1, _ZONES),
    BETA_REGION: (0.05, ("east", "west")),
    "disk": (0.8, ("ssd", "hdd", "nvme")),
    "generation": (0.7, ("1", "2", "5", "10", "007", "x1", "9223372036854775808")),
    "topology.gke.io/zone": (0.1, _ZONES),
    "topology.ebs.csi.aws.com/zone": (0.1, _ZONES),
    "empty": (0.2, ("",)),
}
"""Further labels: how likely each is, and its values."""
_MEMORY: Final = ("8Gi", "16G", "24Gi", "31.5Gi", "65536Mi", "68719476736")
_TIGHT_CPU: Final = ("250m", "0.5", "999m", "1", "1500m", "2")
_TIGHT_MEMORY: Final = ("128Mi", "256M", "512Mi", "1Gi", "1000000k")
_TIGHT_PODS: Final = ("0", "1", "2", "3")


def node(world: World, number: int, name: str) -> Manifest:
    """Return a node."""
    spec: Manifest = {}
    if world.has("unschedulable", 0.4):
        spec["unschedulable"] = True
    if world.has("taints", 0.7) or (world.has("scores") and world.chance(0.4)):
        spec["taints"] = _taints(world)
    allocatable = _allocatable(world)
    status: Manifest = {"capacity": dict(allocatable), "allocatable": allocatable}
    if world.chance(0.03):
        del status["allocatable"]  # then all of the capacity is
    if world.has("scores", 0.9):
        status["images"] = [
            {"names": [image], "sizeBytes": IMAGES[image]} for image in world.some(tuple(IMAGES), 1, 4)
        ]
    if world.has("node-features", 0.6):
        status["declaredFeatures"] = sorted(world.some(DECLARED_FEATURES, 1, 2))
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": _labels(world, number, name)},
        "spec": spec,
        "status": status,
    }


def _labels(world: World, number: int, name: str) -> dict[str, str]:
    labels: dict[str, str] = {}
    if world.chance(0.97):
        labels[HOST] = name if world.chance(0.99) else world.pick(world.nodes)
    if world.chance(0.93):
        zone = world.zones[number % len(world.zones)] if world.chance(0.8) else world.pick(world.zones)
        labels[ZONE] = zone
        if world.chance(0.9):
            labels[REGION] = "east" if zone in ("za", "zb") else "west"
    if world.chance(0.85):
        labels["rack"] = f"r{number % 7}"
    for key, (probability, values) in _LABELS.items():
        if world.chance(probability):
            labels[key] = world.pick(values)
    return labels


def _taints(world: World) -> list[Manifest]:
    taints: dict[tuple[str, str], Manifest] = {}
    for _ in range(world.rng.randint(1, 2)):
        key = world.pick(TAINT_KEYS)
        effect = world.pick(("NoSchedule", "NoSchedule", "NoExecute", "PreferNoSchedule"))
        taint = {"key": key, "effect": effect}
        if world.chance(0.7):
            taint["value"] = world.pick(("a", "b"))
        taints[key, effect] = taint
    if world.chance(0.05):
        key = "node.kubernetes.io/unschedulable"
        taints[key, "NoSchedule"] = {"key": key, "effect": "NoSchedule"}
    return list(taints.values())


def _allocatable(world: World) -> dict[str, str]:
    amounts = {"cpu": world.pick(("8", "12", "16000m", "31.5")), "memory": world.pick(_MEMORY), "pods": "110"}
    if world.chance(0.7):
        amounts["ephemeral-storage"] = world.pick(("100Gi", "50G"))
    if world.has("resources", 0.5):
        tight = world.pick(("cpu", "memory", "pods", "ephemeral-storage"))
        amounts[tight] = world.pick(
            {
                "cpu": _TIGHT_CPU,
                "memory": _TIGHT_MEMORY,
                "pods": _TIGHT_PODS,
                "ephemeral-storage": ("0", "100Mi", "1Gi"),
            }[tight]
        )
    if world.has("resources", 0.6):
        for name in world.some(EXTENDED, 1, 2):
            amounts[name] = world.pick(("0", "1", "2", "8"))
    if world.has("resources", 0.4):
        amounts["hugepages-2Mi"] = world.pick(("0", "64Mi", "128Mi", "1Gi"))
    if world.has("resources", 0.1):
        amounts["hugepages-1Gi"] = world.pick(("1Gi", "4Gi"))
    if world.chance(0.02):
        del amounts[world.pick(("cpu", "memory"))]
    return amounts
