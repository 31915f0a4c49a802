"""Where a pod stands: on a node, promised one, or nowhere. One rule for files and for the live cluster."""

from __future__ import annotations

from typing import Final

from stowplan.core.domain import BoundPod, PodBound, PodNominated, PodShape

__all__ = ["ENDED_PHASES", "standing"]

ENDED_PHASES: Final = frozenset({"Succeeded", "Failed"})


def standing(  # noqa: PLR0913 - what the API says of a pod, field by field
    key: str,
    shape: PodShape,
    *,
    uid: str,
    phase: str,
    node_name: str,
    nominated_node: str,
    is_deleting: bool,
) -> PodBound | PodNominated | None:
    """Return what a pod is to the cluster; None for one that holds nothing.

    A pod that ended holds nothing, one that is being deleted holds its node until it has ended. One that was
    never bound and is being deleted will not run.
    """
    if phase in ENDED_PHASES:
        return None
    if node_name:
        return PodBound(BoundPod(key, shape, is_terminating=is_deleting, uid=uid), node_name)
    if nominated_node and not is_deleting:
        return PodNominated(BoundPod(key, shape, uid=uid), nominated_node)
    return None
