"""What selects a pod: the Services it belongs to and the controller that owns it.

kube-scheduler spreads pods without spread constraints of their own over what this selects
(`framework/plugins/helper/spread.go`): the selectors of the pod's Services and ReplicationController merged,
with the requirements of its ReplicaSet or StatefulSet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from stowplan.core.domain import Labels, LabelSelector
from stowplan.kube.manifest.cursor import Cursor
from stowplan.kube.manifest.selectors import label_selector

__all__ = ["OWNER_KINDS", "Controller", "SpreadOwners", "owner_selector", "read_controller"]

OWNER_KINDS: Final = {
    "Service": "",
    "ReplicationController": "",
    "ReplicaSet": "apps",
    "StatefulSet": "apps",
}
"""Kinds that select pods, with their API groups."""
_NOTHING: Final = LabelSelector()


@dataclass(frozen=True, slots=True)
class Controller:
    """The object that a pod's controlling owner reference names."""

    kind: str
    group: str
    name: str
    uid: str


def read_controller(pod: Cursor) -> Controller | None:
    """Return the controller of a pod: the first of its owners that says it is."""
    for owner in pod["metadata"]["ownerReferences"].items():
        if owner["controller"].flag():
            group = owner["apiVersion"].text().rpartition("/")[0]
            return Controller(owner["kind"].text(), group, owner["name"].text(), owner["uid"].text())
    return None


def owner_selector(kind: str, cursor: Cursor) -> Labels | LabelSelector | None:
    """Return the selector of an object of one of the `OWNER_KINDS`; None where it has none."""
    selector = cursor["spec"]["selector"]
    if kind in ("Service", "ReplicationController"):
        return selector.labels() if selector.is_set else None
    return label_selector(selector)


class SpreadOwners:
    """The selectors of all Services and controllers, and what they come to for a pod."""

    def __init__(self) -> None:
        """Start with none."""
        self._services: dict[str, dict[str, Labels]] = {}  # namespace → name → selector
        self._controllers: dict[tuple[str, str, str], Labels | LabelSelector] = {}

    def set(self, kind: str, namespace: str, name: str, selector: Labels | LabelSelector | None) -> bool:
        """Note the selector of an owner; tell whether that is news."""
        if selector is None:
            return self.remove(kind, namespace, name)
        if kind == "Service":
            services = self._services.setdefault(namespace, {})
            if services.get(name) == selector:
                return False
            services[name] = selector if isinstance(selector, tuple) else ()
            return True
        key = (kind, namespace, name)
        if self._controllers.get(key) == selector:
            return False
        self._controllers[key] = selector
        return True

    def remove(self, kind: str, namespace: str, name: str) -> bool:
        """Forget an owner; tell whether it had a selector."""
        if kind != "Service":
            return self._controllers.pop((kind, namespace, name), None) is not None
        services = self._services.get(namespace, {})
        if services.pop(name, None) is None:
            return False
        if not services:
            del self._services[namespace]
        return True

    def selector_for(
        self, namespace: str, labels: Labels, controller: Controller | None
    ) -> LabelSelector | None:
        """Return the selector of a pod's Services and controller; None when nothing selects it."""
        merged: dict[str, str] = {}
        services = self._services.get(namespace)
        if services:
            own = set(labels)
            for selector in services.values():
                if own.issuperset(selector):
                    merged.update(selector)
        more = _NOTHING
        if controller is not None and OWNER_KINDS.get(controller.kind) == controller.group:
            found = self._controllers.get((controller.kind, namespace, controller.name))
            if isinstance(found, tuple):
                merged.update(found)
            elif found is not None:
                more = found
        if not merged and not more.requirements:
            return None
        return LabelSelector.from_labels(merged).and_also(*more.requirements)
