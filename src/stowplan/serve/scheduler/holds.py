"""Nodes that take no pods for a short time, because their kubelet refused one for want of room.

A kubelet counts what no API object shows in time: pods that others bound a moment ago, static pods, devices.
When it refuses a pod (`OutOfcpu`, `OutOfmemory`, …), the node is fuller than it looks from here, and the next
pod that was sent there would fail as well. The pod itself stays `Failed`; what its controller makes in its
place goes elsewhere.

Source: kubernetes pkg/kubelet/lifecycle/predicate.go (reasons `OutOf…`, `UnexpectedAdmissionError`), 1.37.
"""

from __future__ import annotations

from dataclasses import dataclass

from stowplan.kube.live.pod import LivePod

__all__ = ["NodeHolds", "is_refusal"]

_OUT_OF = "OutOf"
_QUIET_TIMES = 4  # after so many times its last hold without a refusal a node begins anew


def is_refusal(pod: LivePod) -> bool:
    """Tell whether a kubelet refused the pod for want of room."""
    return pod.phase == "Failed" and (
        pod.reason.startswith(_OUT_OF) or pod.reason == "UnexpectedAdmissionError"
    )


@dataclass(slots=True)
class _Hold:
    length_s: float
    until_s: float


class NodeHolds:
    """Which nodes are closed, and until when. Times are monotonic seconds."""

    def __init__(self, first_s: float, longest_s: float) -> None:
        """Close for `first_s`, doubled with each refusal that follows soon, at most `longest_s`."""
        self._first_s = first_s
        self._longest_s = longest_s
        self._holds: dict[str, _Hold] = {}
        self._were_closed: tuple[str, ...] = ()

    def refused(self, node_name: str, now_s: float) -> float:
        """Close a node whose kubelet refused a pod; return for how many seconds.

        Refusals while it is closed are of pods that were sent before, and change nothing.
        """
        hold = self._holds.get(node_name)
        if hold is not None and hold.until_s > now_s:
            return hold.until_s - now_s
        length_s = self._first_s if hold is None else min(2.0 * hold.length_s, self._longest_s)
        self._holds[node_name] = _Hold(length_s, now_s + length_s)
        return length_s

    def closed(self, now_s: float) -> tuple[str, ...]:
        """Return the nodes that are closed now."""
        if not self._holds:
            return ()
        for name, hold in list(self._holds.items()):
            if now_s - hold.until_s > _QUIET_TIMES * hold.length_s:
                del self._holds[name]
        return tuple(sorted(name for name, hold in self._holds.items() if hold.until_s > now_s))

    def have_opened(self, now_s: float) -> bool:
        """Tell whether a node has opened since this was last asked."""
        before, self._were_closed = self._were_closed, self.closed(now_s)
        return not set(before) <= set(self._were_closed)

    def next_due_s(self, now_s: float) -> float | None:
        """Return when the next node opens; None: none is closed."""
        return min((hold.until_s for hold in self._holds.values() if hold.until_s > now_s), default=None)
