"""The pod that a question is about: as the feed has it, or read from the question itself.

kube-scheduler's watch and ours run beside each other, so it may ask about a pod that the feed has not seen
yet, or has seen in an older form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from stowplan.kube.live.pod import LivePod
from stowplan.serve.extender.wire import PodHead

__all__ = ["AskedPods"]

_REMEMBERED: Final = 64  # filter, prioritize and preempt are asked one after the other


class AskedPods:
    """Finds the pods of questions."""

    def __init__(self, known: Mapping[str, LivePod], read: Callable[[bytes], LivePod]) -> None:
        """Look into `known`, the feed's pods by key; what is not there `read` makes from JSON."""
        self._known = known
        self._read = read
        self._recent: dict[tuple[str, str], LivePod] = {}

    def of(self, head: PodHead, pod: bytes) -> LivePod:
        """Return the pod.

        The feed's is taken when it is the same pod with the same labels, gates and promise of a node: what
        else bears on placement hardly changes while a pod waits, and at most by the milliseconds between two
        watches.

        Raises:
            InvalidObject: it was read, and has a field that cannot be used.
        """
        known = self._known.get(head.key)
        if known is not None and _agrees(known, head):
            return known
        version = (head.metadata.uid, head.metadata.resource_version)
        read = self._recent.get(version)
        if read is None:
            read = self._read(pod)
            if len(self._recent) >= _REMEMBERED:
                del self._recent[next(iter(self._recent))]
            self._recent[version] = read
        return read


def _agrees(known: LivePod, head: PodHead) -> bool:
    shape = known.shape
    labels = head.metadata.labels or {}
    return (
        known.uid == head.metadata.uid
        and len(shape.labels) == len(labels)
        and all(labels.get(key) == value for key, value in shape.labels)
        and len(shape.scheduling_gates) == len(head.spec.scheduling_gates or ())
        and bool(shape.own_nomination) == bool(head.status.nominated_node_name)
    )
