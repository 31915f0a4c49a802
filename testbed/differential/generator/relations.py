"""What a pod asks of nodes' labels and taints, and of other pods: affinity, spread, tolerations."""

from __future__ import annotations

from typing import Final

from testbed.differential.generator.nodes import HOST, REGION, TAINT_KEYS, ZONE
from testbed.differential.generator.world import Manifest, World

__all__ = [
    "inter_pod",
    "label_selector",
    "node_affinity",
    "node_selector",
    "node_term",
    "pod_labels",
    "spread",
    "tolerations",
]

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_TOPOLOGY_KEYS: Final = (ZONE, ZONE, HOST, "rack", REGION, "disk", "nowhere")
_APPS: Final = ("web", "db", "batch", "cache")
_NODE_LABELS: Final[dict[str, tuple[str, ...]]] = {
    ZONE: ("za", "zb", "zc", "zx"),
    "rack": ("r0", "r1", "r2", "r3", "r4"),
    "disk": ("ssd", "hdd", "nvme"),
    "generation": ("1", "2", "10", "x1"),
    "empty": ("", "x"),
    "absent": ("a",),
}


def pod_labels(world: World) -> dict[str, str]:
    """Return labels of a pod."""
    labels: dict[str, str] = {}
    if world.chance(0.92):
        labels["app"] = world.pick(_APPS)
    if world.chance(0.4):
        labels["tier"] = world.pick(("front", "back"))
    if world.chance(0.5):
        labels["version"] = world.pick(("1", "2"))
    return labels


def label_selector(world: World) -> Manifest:
    """Return a selector of pods: mostly by app, sometimes by an expression, rarely the empty one."""
    if world.chance(0.05):
        return {}
    selector: Manifest = {}
    if world.chance(0.75):
        selector["matchLabels"] = {"app": world.pick(_APPS)}
    if "matchLabels" not in selector or world.chance(0.15):
        operator = world.pick(("In", "NotIn", "Exists", "DoesNotExist"))
        key, values = world.pick((("tier", ("front", "back")), ("app", _APPS)))
        expression: Manifest = {"key": key, "operator": operator}
        if operator in ("In", "NotIn"):
            expression["values"] = world.some(values, 1, 2)
        selector["matchExpressions"] = [expression]
    return selector


def tolerations(world: World) -> list[Manifest]:
    """Return tolerations."""
    found: list[Manifest] = []
    for _ in range(world.rng.randint(1, 2)):
        if world.chance(0.08):
            found.append({"operator": "Exists"})
            continue
        one: Manifest = {"key": world.pick((*TAINT_KEYS, "node.kubernetes.io/unschedulable"))}
        if world.chance(0.4):
            one["operator"] = "Exists"
        else:
            if world.chance(0.5):
                one["operator"] = "Equal"
            if world.chance(0.8):
                one["value"] = world.pick(("a", "b"))
        if world.chance(0.5):
            one["effect"] = world.pick(("NoSchedule", "NoExecute", "PreferNoSchedule"))
        found.append(one)
    return found


def node_selector(world: World) -> dict[str, str]:
    """Return a nodeSelector."""
    keys = world.some(("disk", "rack", ZONE, "empty"), 1, 1 if world.chance(0.8) else 2)
    return {key: world.pick(_NODE_LABELS[key]) for key in keys}


def _node_expression(world: World) -> Manifest:
    key = world.pick(tuple(_NODE_LABELS))
    operator = world.pick(("In", "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"))
    if operator in ("Gt", "Lt"):
        return {
            "key": "generation" if world.chance(0.9) else key,
            "operator": operator,
            "values": [world.pick(("1", "3", "007", "9", "x", "0"))],
        }
    expression: Manifest = {"key": key, "operator": operator}
    if operator in ("In", "NotIn"):
        expression["values"] = world.some(_NODE_LABELS[key], 1, 3)
    return expression


def node_term(world: World, *, with_fields: bool = True) -> Manifest:
    """Return a node selector term, rarely the empty one."""
    if world.chance(0.03):
        return {}
    term: Manifest = {}
    if with_fields and world.chance(0.2):
        field: Manifest = {"key": "metadata.name", "operator": world.pick(("In", "NotIn"))}
        field["values"] = [world.pick(world.nodes) if world.chance(0.9) else "no-such-node"]
        term["matchFields"] = [field]
        if world.chance(0.1):
            term["matchFields"].append({**field, "operator": "In", "values": [world.pick(world.nodes)]})
    if not term or world.chance(0.5):
        term["matchExpressions"] = [_node_expression(world) for _ in range(world.pick((1, 1, 1, 2)))]
    return term


def node_affinity(world: World, *, is_required: bool, is_preferred: bool) -> Manifest:
    """Return node affinity of either sort or both."""
    affinity: Manifest = {}
    if is_required:
        affinity[_REQUIRED] = {
            "nodeSelectorTerms": [node_term(world) for _ in range(world.pick((1, 1, 2, 3)))]
        }
    if is_preferred:
        affinity[_PREFERRED] = [
            {"weight": world.pick((1, 7, 50, 100)), "preference": node_term(world)}
            for _ in range(world.pick((1, 2, 3)))
        ]
    return affinity


def _pod_term(world: World, labels: dict[str, str]) -> Manifest:
    term: Manifest = {"topologyKey": world.pick(_TOPOLOGY_KEYS)}
    if world.chance(0.97):
        selector = label_selector(world)
        if labels.get("app") and world.chance(0.4):
            selector = {"matchLabels": {"app": labels["app"]}}
        term["labelSelector"] = selector
        if world.chance(0.12):
            term[world.pick(("matchLabelKeys", "mismatchLabelKeys"))] = ["version"]
    if world.chance(0.2):
        term["namespaces"] = world.some(world.namespaces, 1, 2)
    if world.chance(0.2):
        term["namespaceSelector"] = world.pick(
            (
                {},
                {"matchLabels": {"team": "one"}},
                {"matchLabels": {"team": "two"}},
                {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]},
                {"matchLabels": {"kubernetes.io/metadata.name": world.pick(world.namespaces)}},
            )
        )
    return term


def inter_pod(world: World, labels: dict[str, str], *, is_required: bool, is_preferred: bool) -> Manifest:
    """Return the parts of `affinity` that are about other pods, of a pod with `labels`."""
    result: Manifest = {}
    for name in world.pick((("podAffinity",), ("podAntiAffinity",), ("podAffinity", "podAntiAffinity"))):
        part: Manifest = {}
        if is_required:
            part[_REQUIRED] = [_pod_term(world, labels) for _ in range(world.pick((1, 1, 1, 2)))]
        if is_preferred:
            part[_PREFERRED] = [
                {"weight": world.pick((1, 10, 100)), "podAffinityTerm": _pod_term(world, labels)}
                for _ in range(world.pick((1, 2)))
            ]
        result[name] = part
    return result


def spread(world: World, labels: dict[str, str], *, only_scores: bool) -> list[Manifest]:
    """Return topology spread constraints of a pod with `labels`, each key and action once."""
    found: dict[tuple[str, str], Manifest] = {}
    for _ in range(world.pick((1, 1, 2, 3))):
        when = "ScheduleAnyway" if only_scores or world.chance(0.2) else "DoNotSchedule"
        one: Manifest = {
            "maxSkew": world.pick((1, 1, 2, 3)),
            "topologyKey": world.pick(_TOPOLOGY_KEYS[:6] if world.chance(0.95) else _TOPOLOGY_KEYS),
            "whenUnsatisfiable": when,
        }
        if world.chance(0.96):
            selector = label_selector(world)
            if labels.get("app") and world.chance(0.6):
                selector = {"matchLabels": {"app": labels["app"]}}
            one["labelSelector"] = selector
            if world.chance(0.15):
                one["matchLabelKeys"] = ["version"]
        if when == "DoNotSchedule" and world.chance(0.25):
            one["minDomains"] = world.pick((1, 2, 4, 10))
        if world.chance(0.25):
            one["nodeAffinityPolicy"] = world.pick(("Honor", "Ignore"))
        if world.chance(0.25):
            one["nodeTaintsPolicy"] = world.pick(("Honor", "Ignore"))
        found[one["topologyKey"], when] = one
    return list(found.values())
