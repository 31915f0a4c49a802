"""A whole cluster with pods that wait: one case of the differential test."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

from testbed.differential.generator.apart import device_claim, devices, own
from testbed.differential.generator.crowd import SHY, budgets, crowd, prepare
from testbed.differential.generator.nodes import node
from testbed.differential.generator.pods import bound_pod, pending_pod
from testbed.differential.generator.storage import add_csi, csi_nodes
from testbed.differential.generator.world import EMPHASES, Manifest, World, dials_for

__all__ = ["Case", "generate"]

_ORDER: Final = tuple(EMPHASES)
_PRIORITIES: Final = {"low": 10, "high": 1000, "below": -5}


@dataclass(frozen=True, slots=True)
class Case:
    """A cluster and pods that wait, to be judged each by itself.

    Attributes:
        seed: What it was made from.
        emphasis: The filter, or the features, that it is mostly about.
        objects: Plain manifests, in an order in which an API server can be given them.
    """

    seed: int
    emphasis: str
    objects: tuple[Manifest, ...]


def generate(seed: int, nodes: int = 50, emphasis: str | None = None, *, pods: int | None = None) -> Case:
    """Make the case of a seed: the same arguments give the same objects.

    Every object is one that an API server accepts as it stands, except that an API server gives uids itself
    (references carry the uid that the object has here), writes `status` of pods, volumes and claims only
    through their status subresource, and marks a pod or claim as being deleted only when it is deleted (the
    finalizer then keeps it).

    Args:
        seed: Any integer; consecutive ones take turns at the emphases.
        nodes: How many nodes.
        emphasis: One of `EMPHASES`, or of `APART`, whose turn never comes; None: the seed's turn.
        pods: How many that wait; None: five to eight.

    Raises:
        ValueError: there is no such emphasis.
    """
    chosen = _ORDER[seed % len(_ORDER)] if emphasis is None else emphasis
    world = World(Random(seed), dials_for(chosen))  # noqa: S311  (a seeded test)
    world.nodes = tuple(f"n{number}" for number in range(nodes))
    world.zones = world.pick((("za", "zb", "zc"), ("za", "zb"), ("za", "zb", "zc", "zd")))
    namespaces = [_namespace(world, name) for name in world.namespaces]
    is_crowded = chosen == "preemption"
    if is_crowded:
        prepare(world)
    elif world.has("nominated") or world.chance(0.1):
        world.priorities = dict(_PRIORITIES)
    classes = [_priority_class(world, name, value) for name, value in world.priorities.items()]
    described = [node(world, number, name) for number, name in enumerate(world.nodes)]
    least, most = (2 * nodes, 6 * nodes) if is_crowded else (nodes // 2, nodes * 3 // 2)
    bound = [bound_pod(world, number) for number in range(world.rng.randint(least, most))]
    waiting = world.rng.randint(5, 8) if pods is None else pods
    pending = [pending_pod(world, number) for number in range(waiting)]
    if chosen == "devices":
        world.early += devices(world)
        for pod in pending:
            _claim_device(world, pod)
    if chosen == "owners":
        world.early += own(world, [*bound, *pending])
    limits: list[Manifest] = []
    if is_crowded:
        crowd(world, bound, pending)
        limits = budgets(world, bound)
    services = [_service(world, number) for number in range(2)] if world.has("scores") else []
    uses_storage = any("volumes" in pod["spec"] for pod in (*bound, *pending))
    if uses_storage:
        add_csi(world)
    attached = csi_nodes(world) if uses_storage else []
    placed = [*namespaces, *classes, *described, *world.early, *attached, *services, *limits]
    objects = [*placed, *bound, *pending]
    return Case(seed, chosen, tuple(objects))


def _claim_device(world: World, pod: Manifest) -> None:
    """Let most pods that name a claim which is not there name one that is."""
    for named in pod["spec"].get("resourceClaims", ()):
        if world.chance(0.7):
            claim = device_claim(world, pod["metadata"]["namespace"])
            world.early.append(claim)
            named["resourceClaimName"] = claim["metadata"]["name"]


def _namespace(world: World, name: str) -> Manifest:
    team = world.pick(("one", "two", None))
    labels = {} if team is None else {"team": team}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def _priority_class(world: World, name: str, value: int) -> Manifest:
    made: Manifest = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
    }
    if name == "low" and world.chance(0.2):
        made["globalDefault"] = True
    if name == SHY:
        made["preemptionPolicy"] = "Never"
    return made


def _service(world: World, number: int) -> Manifest:
    selector = {"app": world.pick(("web", "db", "batch"))}
    if world.chance(0.2):
        selector["tier"] = "front"
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": f"service-{number}", "namespace": world.pick(world.namespaces)},
        "spec": {"clusterIP": "None", "clusterIPs": ["None"], "selector": selector, "ports": [{"port": 80}]},
    }
