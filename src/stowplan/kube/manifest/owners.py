"""What selects a pod: the Services it belongs to and the controller that owns it.

kube-scheduler spreads pods without spread constraints of their own over what this selects
(`framework/plugins/helper/spread.go`): the selectors of the pod's Services and ReplicationController merged,
with the requirements of its ReplicaSet or StatefulSet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from stowplan.core.domain import LabelSelector
from stowplan.kube.manifest.cursor import Cursor
from stowplan.kube.manifest.selectors import label_selector

__all__ = ["OWNER_KINDS", "default_spread_selector"]

OWNER_KINDS: Final = {
    "Service": "",
    "ReplicationController": "",
    "ReplicaSet": "apps",
    "StatefulSet": "apps",
}
"""Kinds that select pods, with their API groups."""

Owners = Mapping[tuple[str, str, str], Cursor]
"""Objects by (kind, namespace, name)."""


def default_spread_selector(namespace: str, pod: Cursor, owners: Owners) -> LabelSelector | None:
    """Return the selector of a pod's Services and controller; None when nothing selects it."""
    labels = pod["metadata"]["labels"].label_map()
    merged: dict[str, str] = {}
    for (kind, where, _), service in owners.items():
        if kind == "Service" and where == namespace and service["spec"]["selector"].is_set:
            selector = service["spec"]["selector"].label_map()
            if selector.items() <= labels.items():
                merged.update(selector)
    controller = next(
        (owner for owner in pod["metadata"]["ownerReferences"].items() if owner["controller"].flag()), None
    )
    more = LabelSelector()
    if controller is not None:
        kind = controller["kind"].text()
        group = controller["apiVersion"].text().rpartition("/")[0]
        owner = owners.get((kind, namespace, controller["name"].text()))
        if owner is not None and OWNER_KINDS.get(kind) == group:
            if kind == "ReplicationController":
                merged.update(owner["spec"]["selector"].label_map())
            elif kind != "Service":
                more = label_selector(owner["spec"]["selector"]) or LabelSelector()
    found = LabelSelector.from_labels(merged).and_also(*more.requirements)
    return found if found.requirements else None
