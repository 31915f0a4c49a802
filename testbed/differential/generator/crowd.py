"""Crowded clusters: full nodes, pods of all priorities, budgets that protect some, and pods that want in.

Only clusters of the emphasis `preemption` are made so. All else is as everywhere: one or two of the other
features are common in each, so that every filter is once the one that preemption must satisfy.
"""

from __future__ import annotations

from typing import Final

from testbed.differential.generator.relations import label_selector
from testbed.differential.generator.world import Manifest, World

__all__ = ["PRIORITIES", "SHY", "budgets", "crowd", "prepare"]

SHY: Final = "shy"
"""The class of pods that preempt nobody."""
PRIORITIES: Final = {
    "low": 10,
    "high": 1000,
    "below": -5,
    "bottom": -2147483648,
    "top": 1000000000,
    SHY: 1000,
}
_RIVALS: Final = (
    "resources",
    "ports",
    "restrictions",
    "limits",
    "spread",
    "interpod",
    "taints",
    "node-affinity",
    "zone",
)
_COMMON: Final = 0.6
_NOMINATED: Final = 0.35
_CPU: Final = ("500m", "1", "2", "3", "4", "6", "8")
_MOSTLY_LOW: Final = ("low", "low", "below", "bottom", "high", "top", None)
_MOSTLY_HIGH: Final = ("high", "high", "top", "low", None)
_STARTS: Final = tuple(f"2026-01-01T{hour:02}:00:00Z" for hour in range(12))
_SORTED_STABLY: Final = 12
"""Go sorts so few elements without changing the order of equal ones."""


def prepare(world: World) -> None:
    """Choose what is common in the cluster besides crowds."""
    dials = dict(world.dials)
    for feature in world.some(_RIVALS, 0, 2):
        dials[feature] = _COMMON
    dials["nominated"] = _NOMINATED
    world.dials = dials
    world.priorities = dict(PRIORITIES)


def crowd(world: World, bound: list[Manifest], pending: list[Manifest]) -> None:
    """Give pods what preemption looks at: size, priority, time of start, whether they are being ended."""
    mates: dict[str, int] = {}
    for pod in bound:
        node = pod["spec"]["nodeName"]
        mates[node] = mates.get(node, 0) + 1
    for number, pod in enumerate(bound):
        _set_priority(world, pod, _MOSTLY_LOW)
        _grow(world, pod)
        if world.chance(0.05):
            pod["metadata"]["labels"] = {}
        status = pod.setdefault("status", {})
        if world.chance(0.92):
            has_rivals = mates[pod["spec"]["nodeName"]] <= _SORTED_STABLY and world.chance(0.5)
            status["startTime"] = world.pick(_STARTS) if has_rivals else _own_start(number)
        if "deletionTimestamp" in pod["metadata"] and world.chance(0.8):
            reason = world.pick(("PreemptionByScheduler", "PreemptionByScheduler", "EvictionByEvictionAPI"))
            disrupted = {"type": "DisruptionTarget", "status": world.pick(("True", "True", "False"))}
            status.setdefault("conditions", []).append({**disrupted, "reason": reason})
    for pod in pending:
        _set_priority(world, pod, _MOSTLY_HIGH)
        _grow(world, pod)
        if world.chance(0.07):
            pod["spec"] |= {"priorityClassName": SHY, "preemptionPolicy": "Never"}


def _own_start(number: int) -> str:
    """Return a time at which no other pod started."""
    return f"2026-02-{1 + number // 1440:02}T{number // 60 % 24:02}:{number % 60:02}:00Z"


def _set_priority(world: World, pod: Manifest, names: tuple[str | None, ...]) -> None:
    name = world.pick(names)
    pod["spec"].pop("priorityClassName", None)
    if name is not None:
        pod["spec"]["priorityClassName"] = name


def _grow(world: World, pod: Manifest) -> None:
    """Let a pod take a good part of a node; pod-level requests stay, which limit those of containers."""
    if "resources" not in pod["spec"] and world.chance(0.8):
        container = pod["spec"]["containers"][0]
        container.setdefault("resources", {}).setdefault("requests", {})["cpu"] = world.pick(_CPU)


def budgets(world: World, bound: list[Manifest]) -> list[Manifest]:
    """Return some disruption budgets, as their controller would have left them."""
    made: list[Manifest] = []
    for number in range(world.rng.randint(0, 6)):
        namespace = world.pick(world.namespaces)
        names = [pod["metadata"]["name"] for pod in bound if pod["metadata"]["namespace"] == namespace]
        spec: Manifest = {world.pick(("minAvailable", "maxUnavailable")): world.pick((1, "50%"))}
        if world.chance(0.95):
            spec["selector"] = label_selector(world)
        status: Manifest = {
            "disruptionsAllowed": world.pick((0, 0, 1, 1, 2, 5)),
            "currentHealthy": 3,
            "desiredHealthy": 2,
            "expectedPods": 3,
        }
        if world.chance(0.5):
            status["disruptedPods"] = dict.fromkeys(world.some(names, 0, 8), _STARTS[0])
        made.append(
            {
                "apiVersion": "policy/v1",
                "kind": "PodDisruptionBudget",
                "metadata": {"name": f"budget-{number}", "namespace": namespace},
                "spec": spec,
                "status": status,
            }
        )
    return made
