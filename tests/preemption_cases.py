"""Small clusters for tests of preemption: nodes of one size, pods that take part of one."""

import math
from collections.abc import Iterable, Mapping

from stowplan.core.constraints import CompiledFilters
from stowplan.core.domain import (
    BoundPod,
    ClusterState,
    DisruptionBudget,
    LabelSelector,
    Node,
    NodeSet,
    PodBound,
    PodShape,
    Resources,
)

__all__ = ["bound", "budget", "cluster", "filters", "started", "wants"]


def wants(cpu_milli: int, priority: int = 100, **fields: object) -> PodShape:
    """A pod that wants so much."""
    plain = {"requests": Resources({"cpu": cpu_milli}), "priority": priority, **fields}
    return PodShape(**plain)  # pyright: ignore[reportArgumentType]


def bound(name: str, cpu_milli: int, priority: int = 0, **fields: object) -> BoundPod:
    """A pod with a label of its own name's first letter."""
    labels = (("app", name[0]),)
    return BoundPod(f"default/{name}", wants(cpu_milli, priority, **{"labels": labels, **fields}))


def cluster(pods: Mapping[str, Iterable[BoundPod]], cpu_milli: int = 1000) -> ClusterState:
    """A state with these pods on these nodes."""
    state = ClusterState()
    for name, there in pods.items():
        node = Node(
            name,
            Resources({"cpu": cpu_milli, "pods": 10}),
            labels=(("kubernetes.io/hostname", name), ("zone", "z")),
        )
        state.apply(NodeSet(node))
        for pod in there:
            state.apply(PodBound(pod, name))
    return state


def filters(state: ClusterState, shape: PodShape) -> CompiledFilters:
    """The filters of a shape."""
    return CompiledFilters(state, shape)


def budget(app: str, allowed: int, *disrupted: str) -> DisruptionBudget:
    """A budget for the pods with that label."""
    selector = LabelSelector.from_labels({"app": app})
    return DisruptionBudget("default", f"of-{app}", selector, allowed, frozenset(disrupted))


class started:  # noqa: N801  (reads as what it tells)
    """When pods started, by name; others have not."""

    def __init__(self, **seconds: float) -> None:
        self._seconds = seconds

    def __call__(self, key: str) -> float:
        return self._seconds.get(key.partition("/")[2], math.inf)
