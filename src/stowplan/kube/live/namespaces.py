"""Namespaces: those that the API server tells, and those that objects are in meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from stowplan.core.domain import ClusterState, Labels, NamespaceRemoved, NamespaceSet
from stowplan.kube.api.reflection import Identity
from stowplan.kube.manifest.nodes import implied_namespace

__all__ = ["NamespaceBook"]


class NamespaceBook:
    """Receives namespaces. One that objects are in exists, whether or not it was told yet.

    Args:
        state: changed as namespaces come, change and go.
        changed: called after a change.
    """

    def __init__(self, state: ClusterState, changed: Callable[[], None]) -> None:
        self._state = state
        self._changed = changed
        self._told: dict[str, NamespaceSet] = {}
        self._users: Counter[str] = Counter()
        self.use("default")  # it is always there

    def set(self, identity: Identity, item: NamespaceSet) -> None:
        """A namespace is new, or changed."""
        self._told[identity.name] = item
        self._settle(identity.name)

    def delete(self, identity: Identity) -> None:
        """A namespace is gone."""
        del self._told[identity.name]
        self._settle(identity.name)

    def synced(self) -> None:
        """All were told: nothing is left to do."""

    def use(self, name: str) -> None:
        """An object in a namespace came."""
        self._users[name] += 1
        if self._users[name] == 1:
            self._settle(name)

    def leave(self, name: str) -> None:
        """An object in a namespace went."""
        self._users[name] -= 1
        if not self._users[name]:
            del self._users[name]
            self._settle(name)

    def _settle(self, name: str) -> None:
        wanted = self._told.get(name)
        if wanted is None and self._users[name]:
            wanted = implied_namespace(name)
        known: Labels | None = self._state.namespaces.get(name)
        if wanted is None:
            if known is None:
                return
            self._state.apply(NamespaceRemoved(name))
        elif wanted.labels == known:
            return
        else:
            self._state.apply(wanted)
        self._changed()
