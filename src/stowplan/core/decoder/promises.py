"""Nodes that are promised to tasks (nominations), kept and put back as they were.

A placement takes up the promise to its task. Whoever takes the placement back gives the promise back too, and
the promises of the others must not change their order by it: decisions are the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence

from stowplan.core.domain import BoundPod, ClusterState, NominationRemoved, PodNominated

__all__ = ["Promises", "promise_again", "promises"]

Promises = Sequence[tuple[str, Sequence[BoundPod]]]
"""Of each node with promises its name and who is promised it, in order."""


def promises(state: ClusterState) -> Promises:
    """Give all promises of `state` as they stand."""
    return [(node, list(pods.values())) for node, pods in state.nominations.on.items()]


def promise_again(state: ClusterState, promised: Promises) -> None:
    """Make the promises of `state` those of `promised`, in their order; what is as it was costs nothing."""
    if promises(state) == promised:
        return
    for _, pods in promised:
        for pod in pods:
            if pod.key in state.nominations:
                state.apply(NominationRemoved(pod.key))
    for node, pods in promised:
        for pod in pods:
            state.apply(PodNominated(pod, node))
