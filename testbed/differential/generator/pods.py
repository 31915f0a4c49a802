"""Pods, bound and pending, with whatever the dials say."""

from __future__ import annotations

from typing import Final

from testbed.differential.generator.relations import (
    inter_pod,
    node_affinity,
    node_selector,
    pod_labels,
    spread,
    tolerations,
)
from testbed.differential.generator.requests import add_containers, add_pod_level, resize_status
from testbed.differential.generator.storage import claim_for, ephemeral_claim
from testbed.differential.generator.volumes import inline_disk
from testbed.differential.generator.world import Manifest, World

__all__ = ["bound_pod", "pending_pod"]

_HELD: Final = "example.com/held"


def bound_pod(world: World, number: int) -> Manifest:
    """Return a pod that runs on some node; a few are being deleted, have ended, or are being resized."""
    pod = _pod(world, f"b{number}", is_bound=True)
    metadata, spec = pod["metadata"], pod["spec"]
    spec["nodeName"] = world.pick(world.nodes)
    if world.chance(0.06):
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        metadata["deletionGracePeriodSeconds"] = 30
        metadata["finalizers"] = [_HELD]
    if world.has("resources", 0.15):
        pod["status"] = resize_status(world, spec)
    elif world.chance(0.03):
        pod["status"] = {"phase": world.pick(("Succeeded", "Failed"))}
    return pod


def pending_pod(world: World, number: int) -> Manifest:
    """Return a pod that waits; some are nominated for a node."""
    pod = _pod(world, f"p{number}", is_bound=False)
    spec = pod["spec"]
    if world.has("gates"):
        spec["schedulingGates"] = [{"name": "example.com/later"}]
    elif world.has("nominated", 0.7):
        node = world.pick(world.nodes) if world.chance(0.97) else "no-such-node"
        pod["status"] = {"nominatedNodeName": node}
    if world.has("devices"):
        spec["resourceClaims"] = [{"name": "device", "resourceClaimName": "no-such-claim"}]
    return pod


def _pod(world: World, name: str, *, is_bound: bool) -> Manifest:
    namespace = world.pick(world.namespaces)
    labels = pod_labels(world)
    metadata: Manifest = {
        "name": name,
        "namespace": namespace,
        "uid": f"pod-{namespace}-{name}",
        "labels": labels,
    }
    spec: Manifest = {}
    if world.has("ports", 0.15):
        spec["hostNetwork"] = True
    add_containers(world, spec)
    if world.has("resources", 0.12) or (not is_bound and world.has("scores", 0.1)):
        add_pod_level(world, spec)
    _relate(world, spec, labels, is_bound=is_bound)
    volumes = _volumes(world, namespace, metadata, is_bound=is_bound)
    if volumes:
        spec["volumes"] = [{"name": f"v{place}", **source} for place, source in enumerate(volumes)]
    if world.priorities and world.chance(0.5):
        spec["priorityClassName"] = world.pick(tuple(world.priorities))
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _relate(world: World, spec: Manifest, labels: dict[str, str], *, is_bound: bool) -> None:
    if world.has("taints", 0.8):
        spec["tolerations"] = tolerations(world)
    elif world.has("unschedulable", 0.2):
        spec["tolerations"] = [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]
    affinity: Manifest = {}
    if not is_bound:  # of a bound pod, nobody asks any more which nodes it wanted
        is_spread = world.has("spread")
        is_asking = world.has("node-affinity") or (is_spread and world.chance(0.25))
        if is_asking and world.chance(0.35):
            spec["nodeSelector"] = node_selector(world)
        is_required = is_asking and world.chance(0.7)
        is_preferred = world.has("scores", 0.6)
        if is_required or is_preferred:
            affinity["nodeAffinity"] = node_affinity(
                world, is_required=is_required, is_preferred=is_preferred
            )
        if is_spread or world.has("scores", 0.5):
            constraints = spread(world, labels, only_scores=not is_spread)
            spec["topologySpreadConstraints"] = constraints
    is_required = world.has("interpod", 0.3 if is_bound else 1.0)
    is_preferred = world.has("scores", 0.3)
    if is_required or is_preferred:
        affinity |= inter_pod(world, labels, is_required=is_required, is_preferred=is_preferred)
    if affinity:
        spec["affinity"] = affinity


def _volumes(world: World, namespace: str, metadata: Manifest, *, is_bound: bool) -> list[Manifest]:
    sources: list[Manifest] = []
    if world.has("restrictions"):
        sources += [inline_disk(world) for _ in range(world.pick((1, 1, 2)))]
    for kind in _claim_kinds(world):
        if is_bound and kind in ("wait", "static", "odd"):
            kind = "reach"  # noqa: PLW2901  (a pod that runs has its volumes)
        sources.append({"persistentVolumeClaim": {"claimName": claim_for(world, namespace, kind)}})
    if world.has("binding", 0.06):
        claim = ephemeral_claim(world, metadata, f"v{len(sources)}", is_bound=is_bound)
        sources.append({"ephemeral": claim})
    return sources


def _claim_kinds(world: World) -> list[str]:
    kinds: list[str] = []
    if world.has("restrictions", 0.15):
        kinds.append("alone")
    if world.has("limits"):
        kinds += ["limit"] * world.pick((1, 1, 2, 3))
    if world.has("limits", 0.1):
        kinds.append("moved")
    if world.has("zone"):
        kinds.append("zone")
    if world.has("binding"):
        kinds += world.some(("reach", "wait", "static", "static", "moved"), 1, 2)
    if world.has("binding", 0.06):
        kinds.append("odd")
    return kinds
