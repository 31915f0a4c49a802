"""What pods depend on besides nodes and storage: priority classes, owners that select them, budgets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from stowplan.core.domain import DisruptionBudget, Labels, LabelSelector, NamespaceSet
from stowplan.kube.api.reflection import Identity
from stowplan.kube.live.namespaces import NamespaceBook
from stowplan.kube.live.pods import PodBook
from stowplan.kube.live.wire import NOTHING
from stowplan.kube.manifest.budgets import read_budget
from stowplan.kube.manifest.context import ShapeContext, read_priority_class
from stowplan.kube.manifest.cursor import Cursor
from stowplan.kube.manifest.nodes import read_namespace
from stowplan.kube.manifest.owners import owner_selector

__all__ = ["BudgetKind", "OwnerKind", "PriorityKind", "read_told_namespace"]


class _Metadata(msgspec.Struct):
    name: str
    namespace: str = ""


class _SelectingSpec(msgspec.Struct):
    selector: msgspec.Raw = NOTHING


class _Selecting(msgspec.Struct):
    metadata: _Metadata
    spec: _SelectingSpec | None = None


_SELECTING: Final = msgspec.json.Decoder(_Selecting)


def read_told_namespace(raw: bytes | msgspec.Raw) -> NamespaceSet:
    """Read a namespace.

    Raises:
        InvalidObject: it has a field that cannot be used.
    """
    tree = msgspec.json.decode(raw)
    name: str = tree["metadata"]["name"]
    return read_namespace(name, Cursor(tree, f"Namespace {name}"))


class PriorityKind:
    """Receives priority classes."""

    def __init__(self, context: ShapeContext, pods: PodBook, changed: Callable[[], None]) -> None:
        self._priorities = context.priorities
        self._pods = pods
        self._changed = changed

    def read(self, raw: bytes | msgspec.Raw) -> tuple[int, bool]:
        """Read a class: its value, and whether it is the default.

        Raises:
            InvalidObject: it has a field that cannot be used.
        """
        tree = msgspec.json.decode(raw)
        return read_priority_class(Cursor(tree, f"PriorityClass {tree['metadata']['name']}"))

    def set(self, identity: Identity, item: tuple[int, bool]) -> None:
        """A class is new, or changed."""
        priority, is_default = item
        if self._priorities.set(identity.name, priority, is_default=is_default):
            self._tell()

    def delete(self, identity: Identity) -> None:
        """A class is gone."""
        if self._priorities.remove(identity.name):
            self._tell()

    def synced(self) -> None:
        """All were told: nothing is left to do."""

    def _tell(self) -> None:
        self._pods.priorities_changed()
        self._changed()


class OwnerKind:
    """Receives the objects of a kind that selects pods, of which only the selector is read."""

    def __init__(
        self,
        kind: str,
        context: ShapeContext,
        pods: PodBook,
        namespaces: NamespaceBook,
        changed: Callable[[], None],
    ) -> None:
        self._kind = kind
        self._owners = context.owners
        self._pods = pods
        self._namespaces = namespaces
        self._changed = changed
        self._known: set[str] = set()
        self._is_synced = False
        self._late: set[str] = set()  # namespaces whose Services changed while they were listed

    def read(self, raw: bytes | msgspec.Raw) -> Labels | LabelSelector | None:
        """Read the selector.

        Raises:
            InvalidObject: it cannot be used.
        """
        told = _SELECTING.decode(raw)
        selector = NOTHING if told.spec is None else told.spec.selector
        metadata = told.metadata
        cursor = Cursor(
            {"spec": {"selector": msgspec.json.decode(selector)}},
            f"{self._kind} {metadata.namespace}/{metadata.name}",
        )
        return owner_selector(self._kind, cursor)

    def set(self, identity: Identity, item: Labels | LabelSelector | None) -> None:
        """An owner is new, or changed."""
        if identity.key not in self._known:
            self._known.add(identity.key)
            self._namespaces.use(identity.namespace)
        if self._owners.set(self._kind, identity.namespace, identity.name, item):
            self._tell(identity)

    def delete(self, identity: Identity) -> None:
        """An owner is gone."""
        self._known.discard(identity.key)
        self._namespaces.leave(identity.namespace)
        if self._owners.remove(self._kind, identity.namespace, identity.name):
            self._tell(identity)

    def synced(self) -> None:
        """All were told: see to what was put off."""
        self._is_synced = True
        if self._late:
            self._pods.services_changed(self._late)
            self._late = set()

    def _tell(self, identity: Identity) -> None:
        if self._kind != "Service":
            self._pods.controller_changed(self._kind, identity.namespace, identity.name)
        elif self._is_synced:
            self._pods.services_changed({identity.namespace})
        else:  # all pods would be looked through for each of thousands
            self._late.add(identity.namespace)
        self._changed()


class BudgetKind:
    """Receives pod disruption budgets.

    Args:
        budgets: where they are kept, by `namespace/name`.
        changed: called after a change.
    """

    def __init__(self, budgets: dict[str, DisruptionBudget], changed: Callable[[], None]) -> None:
        self._budgets = budgets
        self._changed = changed

    def read(self, raw: bytes | msgspec.Raw) -> DisruptionBudget:
        """Read a budget.

        Raises:
            InvalidObject: it has a field that cannot be used.
        """
        tree = msgspec.json.decode(raw)
        namespace, name = tree["metadata"]["namespace"], tree["metadata"]["name"]
        cursor = Cursor(tree, f"PodDisruptionBudget {namespace}/{name}")
        return read_budget(namespace, name, cursor)

    def set(self, identity: Identity, item: DisruptionBudget) -> None:
        """A budget is new, or changed."""
        if self._budgets.get(identity.key) != item:
            self._budgets[identity.key] = item
            self._changed()

    def delete(self, identity: Identity) -> None:
        """A budget is gone."""
        del self._budgets[identity.key]
        self._changed()

    def synced(self) -> None:
        """All were told: nothing is left to do."""
