"""In which order the pods come: by rank, in the form that the mode can use.

Binder and gate mode order the pods themselves: they read the rank from an annotation on the pod, which Argo
copies from the template. In extender mode the order is kube-scheduler's, which knows nothing but priority
classes; ranks are mapped to the few that the cluster has for it. The class of a pod also decides who may
preempt it, so the other modes leave it alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from stowplan.kube.argo import Chance
from stowplan.kube.argo.objects import as_mapping
from stowplan.kube.plan.drafting import Drafting
from stowplan.kube.plan.options import DEFAULT_EXPECTED_S, History, Mode
from stowplan.kube.plan.patch import Pointer
from stowplan.kube.plan.ranks import ranks_by_leaf

__all__ = ["RANK", "plan_order"]

RANK: Final = "stowplan.io/rank-s"
"""The annotation with the upward rank in seconds, one digit after the point."""


def plan_order(drafting: Drafting, history: History) -> None:
    """Write the ranks of the templates, as annotations or as priority classes."""
    options = drafting.options
    classes = options.priority_classes if options.mode is Mode.EXTENDER else ()
    if options.priority_classes and not classes:
        drafting.advise(f"the priority classes are not used: {options.mode} mode orders by rank itself")
    if drafting.is_restricted:
        return
    if options.mode is Mode.EXTENDER and not classes:
        drafting.advise(
            "the order stays kube-scheduler's: in extender mode only priority classes change it, and none "
            "is given"
        )
        return
    graph = drafting.graph
    if not drafting.leaves or graph is None:
        return
    if all(node.chance > Chance.CONDITIONAL for node in graph.nodes):
        drafting.note("there are no ranks: none of its tasks runs unless one fails")
        return
    ranks_s, is_guess = ranks_by_leaf(drafting, history.expected_s)
    basis = (
        f"no run is known, each task counts {DEFAULT_EXPECTED_S:g} s"
        if is_guess
        else f"a task that has not run counts {DEFAULT_EXPECTED_S:g} s"
    )
    if classes:
        _write_classes(drafting, ranks_s, classes, basis)
    else:
        for number, rank_s in ranks_s.items():
            path = (*drafting.leaves[number].path, "metadata", "annotations", RANK)
            drafting.put(path, f"{rank_s:.1f}", f"its longest way to the end takes {rank_s:.1f} s ({basis})")


def _write_classes(
    drafting: Drafting, ranks_s: Mapping[int, float], classes: tuple[str, ...], basis: str
) -> None:
    settled = drafting.settled("podPriorityClassName")
    if settled is not None:
        drafting.keep(settled[0], settled[1], f"{settled[2]} for all of its pods")
        return
    default = as_mapping(drafting.own.spec.get("templateDefaults")).get("priorityClassName")
    if default:
        path: Pointer = (*drafting.spec_path, "templateDefaults", "priorityClassName")
        drafting.keep(path, default, "its author sets it for all templates")
        return
    patches = list(drafting.patches_mentioning("priorityClassName"))
    for patch in patches:
        drafting.keep(patch, drafting.draft.get(patch), "a podSpecPatch is applied last")
    if (*drafting.spec_path, "podSpecPatch") in patches:
        return
    longest_s = max(ranks_s.values(), default=0.0)
    # The ways from no time to the longest one are divided evenly among the classes.
    if len(set(ranks_s.values())) < 2:
        drafting.note("no priority class is set: all templates have the same rank")
        return
    for number, rank_s in ranks_s.items():
        leaf = drafting.leaves[number]
        path = (*leaf.path, "priorityClassName")
        wanted = classes[max(0, math.ceil(len(classes) * rank_s / longest_s) - 1)]
        own = leaf.template.get("priorityClassName")
        if (*leaf.path, "podSpecPatch") in patches or own == wanted:
            continue
        if own:
            drafting.keep(path, own, "the template sets it itself")
            continue
        drafting.put(
            path, wanted, f"its longest way to the end takes {rank_s:.1f} of {longest_s:.1f} s ({basis})"
        )
