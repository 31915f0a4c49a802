"""Who places the pods: the scheduler's name, and in gate mode the gate that holds them until their turn.

The name is set once, for the workflow. Argo takes a template's own `schedulerName` (or that of
`templateDefaults`) first and the workflow's second, and applies `podSpecPatch` last; so the workflow's field
reaches exactly those pods whose author said nothing, and no template has to be touched.
"""

from __future__ import annotations

import json
from typing import Final

from stowplan.kube.argo import NodeKind
from stowplan.kube.argo.objects import Json, as_mapping
from stowplan.kube.plan.drafting import Drafting
from stowplan.kube.plan.options import Mode
from stowplan.kube.plan.patch import Pointer

__all__ = ["GATE", "plan_gate", "plan_scheduler"]

GATE: Final = "stowplan.io/placement"
"""The scheduling gate of gate mode."""


def plan_scheduler(drafting: Drafting) -> None:
    """Give the pods to the wanted scheduler."""
    wanted = drafting.options.wanted_scheduler
    if not wanted or not drafting.may_set("schedulerName"):
        return
    path = (*drafting.spec_path, "schedulerName")
    settled = drafting.settled("schedulerName")
    overruling = list(drafting.patches_mentioning("schedulerName"))
    for patch in overruling:
        value = drafting.draft.get(patch)
        drafting.keep(patch, value, "a podSpecPatch that names a scheduler is applied last")
    if settled is not None:
        if settled[1] != wanted:
            drafting.keep(settled[0], settled[1], f"{settled[2]}; pods of it do not come to {wanted}")
            return
    elif drafting.is_reference_unknown():
        drafting.note(
            f"schedulerName is not set: it would overrule what {drafting.reference} may say, "
            "which is not given"
        )
        return
    elif (*drafting.spec_path, "podSpecPatch") not in overruling:
        drafting.put(path, wanted, f"{wanted} is to place its pods; templates that name none inherit it")
    _tell_of_templates(drafting, wanted)


def _tell_of_templates(drafting: Drafting, wanted: str) -> None:
    """Tell of templates whose own scheduler goes before the workflow's."""
    defaults = as_mapping(drafting.own.spec.get("templateDefaults"))
    places: list[tuple[Pointer, Json]] = [((*drafting.spec_path, "templateDefaults"), defaults)]
    places += [(leaf.path, leaf.template) for leaf in drafting.leaves]
    for path, template in places:
        name = template.get("schedulerName")
        if name and name != wanted:
            drafting.keep(
                (*path, "schedulerName"), name, "a template's own scheduler goes before the workflow's"
            )
    for node in drafting.graph.nodes if drafting.graph is not None else ():
        is_elsewhere = "/" in node.template and node.kind is NodeKind.POD and node.pod is not None
        if is_elsewhere and node.pod is not None:
            name = node.pod.shape.scheduler_name
            if name not in ("default-scheduler", wanted):
                drafting.note(f"pods of template {node.template} stay with {name}, which it names itself")


def plan_gate(drafting: Drafting) -> None:
    """Hold the pods by a scheduling gate, where the mode releases them."""
    if drafting.options.mode is not Mode.GATE or not drafting.may_set("podSpecPatch"):
        return
    path = (*drafting.spec_path, "podSpecPatch")
    patch = json.dumps({"schedulingGates": [{"name": GATE}]})
    settled = drafting.settled("podSpecPatch")
    bound = list(drafting.patches_mentioning("nodeName"))
    if settled is not None:
        if GATE not in str(settled[1]):
            reason = f"{settled[2]}; add schedulingGates with {GATE} to it, or its pods come in any order"
            drafting.keep(settled[0], settled[1], reason)
    elif drafting.is_reference_unknown():
        drafting.note(
            f"the gate is not set: it would overrule the podSpecPatch that {drafting.reference} may have, "
            "which is not given"
        )
    elif bound:
        drafting.keep(bound[0], drafting.draft.get(bound[0]), "a pod that names its node cannot have a gate")
    else:
        drafting.put(path, patch, "pods wait at the gate until it is their turn by rank")
        drafting.advise(f"nothing but Stowplan in gate mode takes the gate {GATE} away: have it run")
