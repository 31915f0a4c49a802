"""What containers ask for, where they do not say it: nobody can keep room for what he is not told.

Only what is not set at all is filled in, each resource by itself: a request is never changed, and a limit
stands for the request, as the API server has it. All containers of a container set run in one pod, whose
requests are their sum; so only the first of them gets any, and only if none has.
"""

from __future__ import annotations

from collections.abc import Iterable

from stowplan.kube.argo.effective import with_defaults
from stowplan.kube.argo.objects import Json, as_list, as_mapping
from stowplan.kube.plan.drafting import Drafting, Leaf
from stowplan.kube.plan.options import History, Requests
from stowplan.kube.plan.patch import Pointer
from stowplan.kube.plan.ranks import Classes, classes_by_leaf

__all__ = ["plan_requests"]


def plan_requests(drafting: Drafting, history: History) -> None:
    """Fill requests in from the history of the template's classes, else the default."""
    if drafting.is_restricted:
        return
    patches = set(drafting.patches_mentioning("resources"))
    for patch in sorted(patches, key=str):
        drafting.keep(patch, drafting.draft.get(patch), "a podSpecPatch that sets resources is applied last")
    if patches & {(*drafting.spec_path, *rest, "podSpecPatch") for rest in ((), ("templateDefaults",))}:
        return
    pod_level = drafting.own.spec.get("podResources")
    if pod_level:
        path = (*drafting.spec_path, "podResources")
        drafting.keep(path, pod_level, "it bounds every pod as a whole")
        return
    classes = classes_by_leaf(drafting)
    for number, leaf in enumerate(drafting.leaves):
        if (*leaf.path, "podSpecPatch") in patches:
            continue
        if leaf.template.get("podResources"):
            path = (*leaf.path, "podResources")
            drafting.keep(path, leaf.template["podResources"], "it bounds the pod as a whole")
            continue
        _fill(drafting, leaf, *_wanted(drafting, classes, number, history))


def _wanted(
    drafting: Drafting, classes: Classes, number: int, history: History
) -> tuple[Requests | None, str]:
    """Return what a leaf's pod should ask for, and why."""
    asked = (history.requests(key) for key in classes.get(number, ()))
    known = [item for item in asked if item is not None]
    if known:
        most = Requests(max(item.cpu_milli for item in known), max(item.memory_bytes for item in known))
        return most, "so much its earlier runs needed"
    return drafting.options.requests, "nothing asks for it and no run is known; this is the default"


def _fill(drafting: Drafting, leaf: Leaf, wanted: Requests | None, reason: str) -> None:
    if wanted is None:
        return
    effective = with_defaults(leaf.template, as_mapping(drafting.own.spec.get("templateDefaults")))
    container, path = _main(leaf, effective)
    if path is None:
        return
    resources = as_mapping(container.get("resources"))
    taken = {*as_mapping(resources.get("requests")), *as_mapping(resources.get("limits"))}
    for name, quantity in wanted.quantities().items():
        if name not in taken:
            drafting.put((*path, "resources", "requests", name), quantity, reason)


def _main(leaf: Leaf, effective: Json) -> tuple[Json, Pointer | None]:
    """Return the container that gets requests, with defaults under it, and where it stands; None: none."""
    if leaf.kind in ("container", "script"):
        return as_mapping(effective[leaf.kind]), (*leaf.path, leaf.kind)
    containers = as_list(as_mapping(leaf.template.get("containerSet")).get("containers"))
    if containers and not _any_asks(as_list(as_mapping(effective["containerSet"]).get("containers"))):
        return containers[0], (*leaf.path, "containerSet", "containers", 0)
    return {}, None


def _any_asks(containers: Iterable[Json]) -> bool:
    return any(
        as_mapping(as_mapping(container.get("resources")).get(key))
        for container in containers
        for key in ("requests", "limits")
    )
