"""How urgent each template is: the longest way from it to the end of the workflow, in seconds.

A template may be called in many places; its rank is the highest of them, since whatever is written on the
template goes for all its pods. What lower ranks a place has is only known to who sees the whole graph live.

Source: upward rank, Topcuoglu et al., IEEE TPDS 13(3), 2002 (`core.policy.ranks`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from stowplan.core.domain import ClassKey
from stowplan.core.policy.ranks import upward_ranks
from stowplan.kube.argo import Node, NodeKind, TaskGraph, history_key, to_domain
from stowplan.kube.argo.graph import ROOT
from stowplan.kube.plan.drafting import Drafting
from stowplan.kube.plan.options import DEFAULT_EXPECTED_S

__all__ = ["Classes", "classes_by_leaf", "ranks_by_leaf"]

_ITEM: Final = re.compile(r"#(\d+|\*)")

Classes = Mapping[int, frozenset[ClassKey]]
"""By the number of the leaf, the classes of its pods."""


def _leaf_finder(drafting: Drafting, graph: TaskGraph) -> Mapping[int, int]:
    """Return for each node with a pod the number of its leaf in the object, if it is there."""
    own = drafting.own
    prefixes = [""]
    if own.is_template:  # it may refer to itself by its own name
        prefixes.append(f"cluster:{own.name}/" if own.kind == "ClusterWorkflowTemplate" else f"{own.name}/")
    named: dict[str, int] = {}
    inline: dict[tuple[str, str], int] = {}
    for number, leaf in enumerate(drafting.leaves):
        for prefix in prefixes:
            if leaf.name:
                named.setdefault(prefix + leaf.name, number)
            elif leaf.outer:
                inline[prefix + leaf.outer, leaf.task] = number
    found: dict[int, int] = {}
    for node in graph.nodes:
        if node.kind is not NodeKind.POD:
            continue
        number = named.get(node.template)
        if number is None:
            number = inline.get(_inline_key(graph, node))
        if number is not None:
            found[node.index] = number
    return found


def _inline_key(graph: TaskGraph, node: Node) -> tuple[str, str]:
    """Return the template that encloses an inline one, and the name of its task there."""
    if node.call == ROOT:
        return "", ""
    call = graph.calls[node.call]
    return call.template, _ITEM.sub("", node.place.removeprefix(call.place)).rpartition(".")[2]


def classes_by_leaf(drafting: Drafting) -> Classes:
    """Return the classes of the pods of each leaf; empty where the graph is not known."""
    graph = drafting.graph
    if graph is None:
        return {}
    found: dict[int, set[ClassKey]] = {}
    for index, number in _leaf_finder(drafting, graph).items():
        found.setdefault(number, set()).add(history_key(graph, graph.nodes[index]))
    return {number: frozenset(keys) for number, keys in found.items()}


def ranks_by_leaf(
    drafting: Drafting, expected_s: Callable[[ClassKey], float | None]
) -> tuple[Mapping[int, float], bool]:
    """Return the rank in seconds of each leaf that the workflow reaches, and whether all of it is guessed.

    Tasks without an expected duration take `DEFAULT_EXPECTED_S`.
    """
    graph = drafting.graph
    if graph is None:
        return {}, True
    known = {node.index: expected_s(history_key(graph, node)) for node in graph.nodes}
    view = to_domain(graph, lambda node: _or_default(known[node.index]))
    means_s = np.array([task.expected_s for task in view.workflow.tasks], dtype=np.float64)
    ranks_s = upward_ranks(view.workflow, means_s, {})
    by_node = dict(zip(view.nodes, ranks_s.tolist(), strict=True))
    found: dict[int, float] = {}
    for index, number in _leaf_finder(drafting, graph).items():
        if index in by_node:
            found[number] = max(found.get(number, 0.0), by_node[index])
    return found, all(value is None for value in known.values())


def _or_default(value: float | None) -> float:
    return DEFAULT_EXPECTED_S if value is None else value
