"""What became of a pod, in the history's words.

Source: Kubernetes pkg/kubelet/eviction, pkg/controller/podgc, pkg/controller/tainteviction (reasons of the
end of a pod); exit codes above 128 are signals, as the container runtime reports them.
"""

from __future__ import annotations

from typing import Final

from stowplan.kube.live.pod import LivePod
from stowplan.observe.history.records import ExecutionStatus

__all__ = ["status_of_end"]

# Of the pod's phase Failed, written by the kubelet or a controller: it was taken off from outside.
_TAKEN_OFF: Final = frozenset(
    {"Evicted", "Preempting", "Preempted", "Shutdown", "NodeShutdown", "Terminated", "TerminationByKubelet"}
)
_LOST: Final = frozenset({"NodeLost"})
_SIGNALLED: Final = 128


def status_of_end(pod: LivePod, *, was_cut_off: bool, node_is_lost: bool) -> ExecutionStatus:
    """Return how a pod ended.

    Args:
        pod: as it was last seen, ended or not.
        was_cut_off: whether it was being deleted before it ended. What it then says of itself is its answer
            to that: many programs end well when they are asked to.
        node_is_lost: whether its node is gone, or cannot be reached.
    """
    if not pod.has_ended or (was_cut_off and pod.phase == "Succeeded"):
        return ExecutionStatus.NODE_LOST if node_is_lost else ExecutionStatus.EVICTED
    if pod.phase == "Succeeded":
        return ExecutionStatus.DONE
    main = pod.main
    if main.reason == "OOMKilled":
        return ExecutionStatus.OOM_KILLED
    if pod.reason in _LOST:
        return ExecutionStatus.NODE_LOST
    if pod.reason in _TAKEN_OFF or pod.is_preempted:
        return ExecutionStatus.EVICTED
    has_run_out = main.exit_code is not None and main.exit_code < _SIGNALLED
    if was_cut_off and not has_run_out:
        return ExecutionStatus.NODE_LOST if node_is_lost else ExecutionStatus.EVICTED
    if node_is_lost and main.exit_code is None:
        return ExecutionStatus.NODE_LOST
    return ExecutionStatus.FAILED
