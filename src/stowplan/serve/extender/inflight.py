"""The cluster as it will be when the pods that were just scored are where they belong.

Between an answer and the watch event that shows the pod bound, milliseconds pass, and in a burst several
pods are asked about meanwhile. To all of them the same node would look best. So each pod that was scored
counts for a while as being on the node that came out best. kube-scheduler may take another, and the live
state is not ours to change: what is foreseen lives in a copy, which follows the live state by its journal
and forgets the foreseen the moment the live state knows better.
"""

from __future__ import annotations

from typing import Final

from stowplan.core.domain import (
    BoundPod,
    Change,
    ChangeKind,
    ClusterState,
    CsiCapacity,
    CsiDriver,
    CsiNode,
    NamespaceRemoved,
    NamespaceSet,
    NodeRemoved,
    NodeSet,
    NominationRemoved,
    PersistentVolume,
    PersistentVolumeClaim,
    PodBound,
    PodNominated,
    PodRemoved,
    StorageClass,
    StorageRemoved,
    StorageSet,
    VolumeAttachment,
)
from stowplan.errors import StateConflict

__all__ = ["InFlight"]

_MANY: Final = 1000
"""More changes than these take longer to follow than a whole copy."""
_STORAGE: Final = (
    ("volumes", PersistentVolume),
    ("claims", PersistentVolumeClaim),
    ("classes", StorageClass),
    ("csi_nodes", CsiNode),
    ("csi_drivers", CsiDriver),
    ("capacities", CsiCapacity),
    ("attachments", VolumeAttachment),
)


class InFlight:
    """A live state plus foreseen pods.

    Attributes:
        state: what to score against, as of the last `catch_up`. Rows are those of the live state. It may be
            another object after `catch_up`, when the live state's journal was lost.
        epoch: moves on when anything but pods has changed.
    """

    def __init__(self, live: ClusterState, *, lifetime_s: float) -> None:
        """Follow `live`; with a lifetime of 0 nothing is foreseen and `state` is `live` itself."""
        self._live = live
        self._lifetime_s = lifetime_s
        self._until_s: dict[str, float] = {}  # pod key → when it is forgotten, soonest first
        self.state = live
        self.epoch = 0
        self._sequence: int = live.sequence
        self._start_over()

    @property
    def count(self) -> int:
        """Pods that are foreseen now."""
        return len(self._until_s)

    def foresee(self, pod: BoundPod, node_name: str, now_s: float) -> None:
        """Count `pod` as being on `node_name`; it must not be in the live state.

        A pod that is nominated for a node counts there already, and is left as it is.
        """
        if self._lifetime_s == 0.0 or pod.key in self._live.pods or pod.key in self._live.nominations:
            return
        self.forget(pod.key)
        self.state.apply(PodBound(pod, node_name))
        self._until_s[pod.key] = now_s + self._lifetime_s

    def forget(self, key: str) -> None:
        """Count a pod no longer, if it is foreseen."""
        if self._until_s.pop(key, None) is not None:
            self.state.apply(PodRemoved(key))

    def catch_up(self, now_s: float) -> None:
        """Take in what happened to the live state, and forget what should have come true by now."""
        for key in [key for key, until_s in self._until_s.items() if until_s <= now_s]:
            self.forget(key)
        live = self._live
        if live.sequence == self._sequence:
            return
        changes = live.changes_since(self._sequence)
        self._sequence = live.sequence
        if changes is None or any(change.kind is not ChangeKind.POD for change in changes):
            self.epoch += 1
        if self._lifetime_s == 0.0:
            return
        is_equal = False
        try:
            is_equal = changes is not None and len(changes) <= _MANY and self._follow(changes)
        except StateConflict:
            pass  # the changes together are not what they were one by one
        finally:
            if not is_equal:
                self._start_over()

    def _start_over(self) -> None:
        self._until_s.clear()
        self.epoch += 1
        self._sequence = self._live.sequence
        if self._lifetime_s:
            self.state = self._live.copy()

    def _follow(self, changes: list[Change]) -> bool:
        """Make the copy equal to the live state where `changes` touched it; False: it cannot be done."""
        kinds = ChangeKind(0)
        rows: dict[int, ChangeKind] = {}
        for change in changes:
            kinds |= change.kind
            if change.row >= 0:
                rows[change.row] = rows.get(change.row, ChangeKind(0)) | change.kind
        if kinds & ChangeKind.NAMESPACE:
            self._follow_namespaces()
        if kinds & ChangeKind.NOMINATION:
            self._withdraw_nominations()
        for row in rows:
            self._remove_pods(row)
        if not all(self._follow_node(row) for row, kind in rows.items() if kind & ChangeKind.NODE):
            return False
        for row in rows:
            self._add_pods(row)
        if kinds & ChangeKind.STORAGE:
            self._follow_storage()
        if kinds & ChangeKind.NOMINATION:
            self._add_nominations()
        return True

    def _follow_node(self, row: int) -> bool:
        now = self._live.nodes[row]
        before = self.state.nodes[row] if row < self.state.capacity else None
        if now is before:
            return True
        if before is not None and (now is None or now.name != before.name):
            for key in list(self.state.pods_on[row]):  # only foreseen ones are left
                self.forget(key)
            self.state.apply(NodeRemoved(before.name))
        if now is not None:
            self.state.apply(NodeSet(now))
            return self.state.row(now.name) == row
        return True

    def _remove_pods(self, row: int) -> None:
        if row >= self.state.capacity:
            return
        there = self._live.pods_on[row]
        for key, pod in list(self.state.pods_on[row].items()):
            if there.get(key) is not pod and key not in self._until_s:
                self.state.apply(PodRemoved(key))

    def _add_pods(self, row: int) -> None:
        if not self._live.pods_on[row]:
            return
        here, name = self.state.pods_on[row], self._live.node(row).name
        for key, pod in self._live.pods_on[row].items():
            if here.get(key) is not pod:
                self.forget(key)
                self.state.apply(PodBound(pod, name))

    def _follow_namespaces(self) -> None:
        for name in [name for name in self.state.namespaces if name not in self._live.namespaces]:
            self.state.apply(NamespaceRemoved(name))
        for name, labels in self._live.namespaces.items():
            if self.state.namespaces.get(name) != labels:
                self.state.apply(NamespaceSet(name, labels))

    def _follow_storage(self) -> None:
        for index, kind in _STORAGE:
            now, before = getattr(self._live.storage, index), getattr(self.state.storage, index)
            for name in [name for name in before if name not in now]:
                self.state.apply(StorageRemoved(kind, name if isinstance(name, str) else "/".join(name)))
            for name, item in now.items():
                if before.get(name) is not item:
                    self.state.apply(StorageSet(item))

    def _withdraw_nominations(self) -> None:
        now, before = self._live.nominations, self.state.nominations
        for name, pods in list(before.on.items()):
            for key, pod in list(pods.items()):
                if now.on.get(name, {}).get(key) is not pod:
                    self.state.apply(NominationRemoved(key))

    def _add_nominations(self) -> None:
        for name, pods in self._live.nominations.on.items():
            for key, pod in pods.items():
                if key not in self.state.nominations:
                    self.forget(key)
                    self.state.apply(PodNominated(pod, name))
