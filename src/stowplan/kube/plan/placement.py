"""Where the pods would best run: preferred node affinity, and the class by which the history knows them.

Argo takes a template's affinity first, then that of the template that calls it, then the workflow's, each
whole. So a preference on the workflow reaches the pods whose authors set no affinity; one that is set is
never merged with ours, because it would have to be copied into every such template.
"""

from __future__ import annotations

from typing import Final

from stowplan.kube.argo import origin_of
from stowplan.kube.argo.objects import Json, as_list, as_mapping
from stowplan.kube.plan.drafting import Drafting
from stowplan.kube.plan.patch import Pointer

__all__ = ["ORIGIN", "plan_origin", "plan_preferences"]

ORIGIN: Final = "stowplan.io/origin"
"""The annotation on pods that names what their workflow was made from (`ClassKey.origin`)."""


def plan_preferences(drafting: Drafting) -> None:
    """Prefer the nodes that the options name."""
    if not drafting.options.preferences or not drafting.may_set("affinity"):
        return
    terms = [preference.term() for preference in drafting.options.preferences]
    key = "preferredDuringSchedulingIgnoredDuringExecution"
    settled = drafting.settled("affinity")
    own = as_mapping(drafting.own.spec.get("affinity"))
    present = as_mapping(as_mapping(settled[1]).get("nodeAffinity")).get(key) if settled is not None else None
    if settled is None and drafting.is_reference_unknown():
        drafting.note(
            f"no node is preferred: it would overrule the affinity that {drafting.reference} may have, which "
            "is not given"
        )
        return
    if present == terms:
        return
    if settled is not None and (present or not own):
        drafting.keep(settled[0], settled[1], settled[2])
        return
    also = "; what it requires stays so" if own else ""
    path = (*drafting.spec_path, "affinity", "nodeAffinity", key)
    drafting.put(path, terms, f"these nodes are preferred where others would do{also}")
    _tell_of_affinity(drafting)


def _tell_of_affinity(drafting: Drafting) -> None:
    """Tell of templates whose own affinity goes before the workflow's."""
    spec = drafting.own.spec
    places: list[tuple[Pointer, Json]] = [
        ((*drafting.spec_path, "templateDefaults"), as_mapping(spec.get("templateDefaults")))
    ]
    for number, template in enumerate(as_list(spec.get("templates"))):
        places.append(((*drafting.spec_path, "templates", number), template))
    places += [(leaf.path, leaf.template) for leaf in drafting.leaves if not leaf.name]
    for path, holder in places:
        if holder.get("affinity") is not None:
            reason = "it goes before the workflow's, whole"
            drafting.keep((*path, "affinity"), holder["affinity"], reason)


def plan_origin(drafting: Drafting) -> None:
    """Write on the pods what their workflow was made from, so that they are known without asking for it."""
    own = drafting.own
    if not drafting.may_set("podMetadata"):
        return
    if own.is_template:
        return  # Argo puts it over the pods of every workflow that borrows a template; those are not ours
    path = (*drafting.spec_path, "podMetadata", "annotations", ORIGIN)
    drafting.put(path, origin_of(own), "runs of this origin share one history")
