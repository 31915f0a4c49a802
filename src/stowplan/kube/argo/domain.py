"""The task graph as the core's workflow: tasks with expected durations, for depth, rank and look-ahead.

The normal course is what counts: nodes that only run after a failure, or never, are left out, and whoever
waits for one waits for what it waits for. Each node is one task; one that stands for many (`Node.fanout`) is
one of them, since all have the same depth and rank. Joins vanish where the edges they stand for are few
enough to be written out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from stowplan.core.domain import CPU, Phase, PodShape, Resources, Task, Workflow, WorkProfile
from stowplan.errors import InvalidWorkflow
from stowplan.kube.argo.graph import Chance, Node, NodeKind, TaskGraph

__all__ = ["DomainView", "default_work", "to_domain"]

_MOST_EDGES: Final = 500_000
_NO_POD: Final = PodShape(requests=Resources(), score_cpu_milli=0, score_memory_bytes=0)
_MAIN_MILLI: Final = 1000  # a task without a request is taken to keep one core busy


@dataclass(frozen=True)
class DomainView:
    """A core workflow, and what its tasks stand for.

    `nodes` holds the index of the graph's node for each task, `has_pod` whether it makes a pod (one that does
    not takes no room), `counts` how many instances there will be (None: only known at run time).
    """

    workflow: Workflow
    nodes: tuple[int, ...]
    has_pod: tuple[bool, ...]
    counts: tuple[int | None, ...]

    @cached_property
    def tasks_by_node(self) -> Mapping[int, int]:
        """The index of the task for each node of the graph that has one."""
        return {node: task for task, node in enumerate(self.nodes)}


def default_work(node: Node, expected_s: float) -> WorkProfile:
    """Return work that keeps the requested cores busy for the expected time."""
    milli = node.pod.shape.requests.get(CPU, 0) if node.pod is not None else 0
    return WorkProfile((Phase(work_s=expected_s, cpu_cores=(milli or _MAIN_MILLI) / 1000),))


def _is_task(node: Node) -> bool:
    return node.kind is not NodeKind.JOIN and node.chance <= Chance.CONDITIONAL


def _parents(graph: TaskGraph, *, keeps_joins: bool) -> tuple[list[tuple[int, ...]], int]:
    """Return for each node the nodes of the workflow that come before it, and the number of edges."""
    found: list[tuple[int, ...]] = []
    edges = 0
    for node in graph.nodes:
        above: dict[int, None] = {}
        for parent in node.parents:
            other = graph.nodes[parent]
            if _is_task(other) or (keeps_joins and other.kind is NodeKind.JOIN):
                above.setdefault(parent)
            else:
                above.update(dict.fromkeys(found[parent]))
            if len(above) > _MOST_EDGES:
                return [], edges + len(above)
        found.append(tuple(above))
        if _is_task(node) or keeps_joins:
            edges += len(above)
        if edges > _MOST_EDGES and not keeps_joins:
            return [], edges
    return found, edges


def to_domain(
    graph: TaskGraph,
    expected_s: Callable[[Node], float],
    work: Callable[[Node, float], WorkProfile] = default_work,
) -> DomainView:
    """Return the graph as a core workflow.

    `expected_s` gives the expected seconds of a node: of a pod from the history of its template, of a daemon
    until it is ready, of a suspension how long it lasts, of a recursion all that is within. `work` makes its
    work of them.

    Raises:
        InvalidWorkflow: nothing of the workflow is certain or possible to run, or a duration is unusable.
    """
    parents, _ = _parents(graph, keeps_joins=False)
    keeps_joins = not parents
    if keeps_joins:
        parents, _ = _parents(graph, keeps_joins=True)
    chosen = [node for node in graph.nodes if _is_task(node) or (keeps_joins and node.kind is NodeKind.JOIN)]
    if not chosen:
        raise InvalidWorkflow(
            f"workflow {graph.name or graph.origin!r}: none of its tasks runs unless one fails"
        )
    tasks: list[Task] = []
    for node in chosen:
        seconds = 0.0 if node.kind is NodeKind.JOIN else float(expected_s(node))
        tasks.append(
            Task(
                name=_name(node),
                shape=node.pod.shape if node.pod is not None else _NO_POD,
                work=work(node, seconds),
                expected_s=seconds,
                template=node.template,
            )
        )
    edges = tuple(
        (_name(graph.nodes[parent]), _name(node)) for node in chosen for parent in parents[node.index]
    )
    workflow = Workflow(name=graph.name or graph.origin, tasks=tuple(tasks), edges=edges, family=graph.origin)
    return DomainView(
        workflow=workflow,
        nodes=tuple(node.index for node in chosen),
        has_pod=tuple(node.kind is NodeKind.POD for node in chosen),
        counts=tuple(graph.count(node) for node in chosen),
    )


def _name(node: Node) -> str:
    return node.place or "(entry)"
