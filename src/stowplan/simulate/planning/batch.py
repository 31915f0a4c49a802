"""A batch: the tasks of workflows that are all there at once, and the node that they share.

What is planned with is what a scheduler is told: requests, the pod itself, whole GPUs, expected durations. A
resource of which even all tasks together ask for no more than there is cannot bind, and is left out. What
pods demand of each other (affinity, host ports) is not planned. Every task is planned with a microsecond at
least.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain import Node, Task, Workflow
from stowplan.errors import InvalidInput
from stowplan.simulate.clusters.model import Cluster
from stowplan.simulate.planning.graph import Graph
from stowplan.simulate.workloads.model import Workload

__all__ = ["Batch"]

_PODS = "pods"
_GPUS = "whole GPUs"
_WHOLE_MILLI = 1000
_LEAST_S = 1e-6  # even a task that takes no time needs room when it starts


@dataclass(frozen=True, slots=True)
class Batch:
    """n tasks to be planned.

    Attributes:
        keys: (n,) names of the tasks towards scheduler and cluster, WORKFLOW/TASK.
        resources: (R,) names of the resources that can bind, at least one.
        graph: the tasks as arrays, in the order of `keys`.
    """

    keys: tuple[str, ...]
    resources: tuple[str, ...]
    graph: Graph

    @classmethod
    def of(cls, cluster: Cluster, workload: Workload) -> Batch:
        """Return the batch of a workload on the one node of a cluster.

        Raises:
            InvalidInput: several nodes, workflows that arrive at different times, tasks of several priority
                classes, a share of a GPU, or a task that asks for more than the node has.
        """
        if len(cluster.nodes) != 1:
            raise InvalidInput(
                f"cluster {cluster.name!r} has {len(cluster.nodes)} nodes; a batch is planned on one, so "
                "plan node by node or take a policy that needs no plan"
            )
        times_s = [submission.time_s for submission in workload.submissions]
        if times_s[0] != times_s[-1]:
            raise InvalidInput(
                f"workload {workload.name!r} arrives from {times_s[0]:g} s to {times_s[-1]:g} s; a batch is "
                "there at once, so give all submissions one time"
            )
        node = cluster.nodes[0]
        workflows = [submission.workflow for submission in workload.submissions]
        keys = tuple(f"{flow.name}/{task.name}" for flow in workflows for task in flow.tasks)
        tasks = [task for flow in workflows for task in flow.tasks]
        classes = sorted({task.shape.priority for task in tasks})
        if len(classes) > 1:
            raise InvalidInput(
                f"workload {workload.name!r} has tasks of the priorities {', '.join(map(str, classes))}; the "
                "higher always goes first, so plan the tasks of each priority as a batch of their own"
            )
        needs = [_needs(key, task) for key, task in zip(keys, tasks, strict=True)]
        has = {**node.allocatable, _GPUS: len(node.hardware.gpus)}
        resources = _binding(keys, needs, has, node)
        return cls(
            keys,
            resources,
            _graph(
                workflows,
                np.array([_duration_s(task, node) for task in tasks]),
                np.array([[need.get(name, 0) for name in resources] for need in needs], dtype=np.int64),
                np.array([has.get(name, 0) for name in resources], dtype=np.int64),
            ),
        )


def _needs(key: str, task: Task) -> Mapping[str, int]:
    gpu = task.shape.gpu
    if gpu is not None and gpu.milli != _WHOLE_MILLI:
        raise InvalidInput(
            f"task {key!r} asks for {gpu.milli} thousandths of a GPU; only whole GPUs are planned, so ask "
            "for one or take a policy that needs no plan"
        )
    return {**task.shape.requests, _PODS: 1, _GPUS: gpu.count if gpu is not None else 0}


def _duration_s(task: Task, node: Node) -> float:
    factor = dict(task.work.machine_factors).get(node.hardware.machine_type, 1.0)
    return max(task.expected_s * factor, _LEAST_S)


def _binding(
    keys: Sequence[str], needs: Sequence[Mapping[str, int]], has: Mapping[str, int], node: Node
) -> tuple[str, ...]:
    """Return the resources of which all tasks together ask for more than there is; pods if there is none."""
    total: Counter[str] = Counter()
    for key, need in zip(keys, needs, strict=True):
        for name, amount in need.items():
            if amount > has.get(name, 0):
                raise InvalidInput(
                    f"task {key!r} asks for {name} {amount}, but node {node.name!r} has {has.get(name, 0)}; "
                    "ask for less or give it a larger node"
                )
        total.update(need)
    return tuple(sorted(name for name in total if total[name] > has.get(name, 0))) or (_PODS,)


def _graph(
    workflows: Sequence[Workflow],
    duration_s: NDArray[np.float64],
    demand: NDArray[np.int64],
    capacity: NDArray[np.int64],
) -> Graph:
    parents: list[list[int]] = []
    children: list[list[int]] = []
    topological: list[int] = []
    for flow in workflows:
        first = len(parents)
        topological += [first + index for index in flow.topological_order]
        parents += [[first + index for index in above] for above in flow.parents]
        children += [[first + index for index in below] for below in flow.children]
    return Graph(
        duration_s,
        demand,
        capacity,
        *_flattened(parents),
        *_flattened(children),
        np.array(topological, dtype=np.int64),
    )


def _flattened(lists: Sequence[Sequence[int]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where each list begins in their concatenation, and that."""
    begins = np.zeros(len(lists) + 1, dtype=np.int64)
    np.cumsum([len(one) for one in lists], out=begins[1:])
    return begins, np.array([item for one in lists for item in one], dtype=np.int64)
