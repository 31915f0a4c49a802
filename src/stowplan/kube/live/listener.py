"""Who is told what changes in the live cluster. Everything is told in the event loop's own thread."""

from __future__ import annotations

from enum import Flag, auto
from typing import Protocol

from stowplan.kube.live.pod import LivePod

__all__ = ["ClusterChange", "Listener"]


class ClusterChange(Flag):
    """What changed besides pods; tells which pods that found no node are worth another look."""

    NODE_ADDED = auto()  # or became ready to take pods, or has more room
    NODE_CHANGED = auto()  # labels, taints, images …
    NODE_REMOVED = auto()
    STORAGE = auto()  # volumes, claims, classes, CSI objects
    NAMESPACE = auto()
    PRIORITY_CLASS = auto()
    BUDGET = auto()  # pod disruption budgets
    OWNERS = auto()  # Services and controllers, by which pods spread


class Listener(Protocol):
    """Told after the `ClusterState` has changed, never from within a scheduling cycle."""

    def pod_set(self, before: LivePod | None, now: LivePod) -> None:
        """A pod appeared (`before` is None) or something in its `LivePod` changed."""
        ...

    def pod_gone(self, last: LivePod) -> None:
        """A pod was deleted; `last` is what was last seen of it."""
        ...

    def cluster_changed(self, change: ClusterChange) -> None:
        """Something else that placement depends on changed."""
        ...
