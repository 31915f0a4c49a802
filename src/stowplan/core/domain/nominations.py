"""Pods that wait and are promised a node: other pods of no higher priority must leave them room there.

A nomination names a node that need not exist (any more); it counts once there is one of that name.
"""

from __future__ import annotations

from stowplan.core.domain.events import BoundPod
from stowplan.errors import StateConflict

__all__ = ["Nominations"]


class Nominations:
    """Nominated pods by node. `on`: node name → pod key → pod; nodes without any are not in it."""

    __slots__ = ("_node_of", "on")

    def __init__(self) -> None:
        """Start with none."""
        self.on: dict[str, dict[str, BoundPod]] = {}
        self._node_of: dict[str, str] = {}

    def __contains__(self, key: object) -> bool:
        """Tell whether the pod of that key is nominated."""
        return key in self._node_of

    def node_of(self, key: str) -> str | None:
        """Return the node that a pod is promised, or None."""
        return self._node_of.get(key)

    def set(self, pod: BoundPod, node_name: str) -> None:
        """Promise a node to a pod, in place of any other."""
        if pod.key in self._node_of:
            self.remove(pod.key)
        self._node_of[pod.key] = node_name
        self.on.setdefault(node_name, {})[pod.key] = pod

    def remove(self, key: str) -> None:
        """Withdraw a promise.

        Raises:
            StateConflict: the pod has none.
        """
        node_name = self._node_of.pop(key, None)
        if node_name is None:
            raise StateConflict(f"pod {key!r} is not nominated for a node; there is nothing to withdraw")
        pods = self.on[node_name]
        del pods[key]
        if not pods:
            del self.on[node_name]

    def copy(self) -> Nominations:
        """Return an independent copy."""
        other = Nominations()
        other.on = {name: pods.copy() for name, pods in self.on.items()}
        other._node_of = self._node_of.copy()
        return other
