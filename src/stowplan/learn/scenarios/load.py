"""How fast work may come for a cluster to be loaded as wanted: by whatever is scarcest for it.

Cores alone do not say it. Work that asks for little processor and much memory or disk fills a cluster whose
cores are idle, and by cores alone would come so fast that nothing of it ever ends. And of pods that take more
than half of a node each node holds one, whatever is left of it: so room is counted in pods.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stowplan.core.domain import CPU, MEMORY, PODS, Node, PodShape, Workflow
from stowplan.core.physics.vocabulary import RESOURCE_COUNT
from stowplan.core.policy.demand import capacity_of, demand_of_task
from stowplan.simulate.clusters import Cluster

__all__ = ["mean_gap_s", "room_for"]


def mean_gap_s(workflows: Sequence[Workflow], cluster: Cluster, load: float) -> float:
    """Return the mean gap of arrivals at which `load` of what is scarcest is asked for.

    That is room, a task taking one over as many as would fit the empty cluster, or one of the machines'
    resources that tasks use. Every task must fit some node.
    """
    rooms: dict[PodShape, int] = {}
    in_room_s = 0.0
    used = np.zeros(RESOURCE_COUNT)
    for task in (task for workflow in workflows for task in workflow.tasks):
        if task.shape not in rooms:
            rooms[task.shape] = room_for(task.shape, cluster)
        in_room_s += task.work.alone_s / rooms[task.shape]
        used += task.work.alone_s * demand_of_task(task).per_s
    has = np.sum([capacity_of(node) for node in cluster.nodes], axis=0)
    return max(in_room_s, float(np.max(used / has))) / (load * len(workflows))


def room_for(shape: PodShape, cluster: Cluster) -> int:
    """Return how many pods of a shape the empty cluster holds."""
    return sum(_room_on(shape, node) for node in cluster.nodes)


def _room_on(shape: PodShape, node: Node) -> int:
    counts = [
        node.allocatable.get(name, 0) // shape.requests[name]
        for name in (CPU, MEMORY)
        if shape.requests.get(name, 0) > 0
    ]
    if PODS in node.allocatable:
        counts.append(node.allocatable[PODS])
    if shape.gpu is not None:
        counts.append(len(node.hardware.gpus) // shape.gpu.count)
    return int(min(counts))
