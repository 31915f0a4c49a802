"""Which GPUs of a node a task gets when its policy has no opinion.

A share goes to the fullest GPU that still has room, so that whole devices stay whole. Several GPUs come from
one PCIe root complex when one has enough free, the smallest such; otherwise from as few root complexes as
possible. GPUs of which it is not known where they hang count as apart from all others, and are taken last:
two of them may be as far apart as a node is wide. Where that is not known of any GPU of the node, the lowest
are taken.

NVIDIA's device plugin chooses the same way among what is free on the node (its aligned allocation, best
effort): this is what a pod gets under kube-scheduler too.
"""

from __future__ import annotations

import numpy as np

from stowplan.core.domain import ClusterState, GpuRequest
from stowplan.errors import InternalError

__all__ = ["choose_gpus"]


def choose_gpus(state: ClusterState, row: int, request: GpuRequest) -> tuple[int, ...]:
    """Return the indexes of `request.count` GPUs on `row`, ascending.

    Raises:
        InternalError: the node has not enough; the caller asked for a row that the constraints refuse.
    """
    free = state.gpu_free_milli[row]
    usable = np.flatnonzero(free >= request.milli)
    if usable.size < request.count:
        raise InternalError(
            f"{state.node(row).name!r} has {usable.size} GPUs with {request.milli} thousandths free, "
            f"{request.count} are needed"
        )
    if request.count == 1:
        return (int(usable[np.argmin(free[usable])]),)
    gpus = state.node(row).hardware.gpus
    by_root: dict[str, list[int]] = {}
    unknown: list[int] = []
    for gpu in usable.tolist():
        root = gpus[gpu].root_complex
        (by_root.setdefault(root, []) if root else unknown).append(gpu)
    sufficient = [group for group in by_root.values() if len(group) >= request.count]
    if sufficient:
        return tuple(min(sufficient, key=lambda group: (len(group), group[0]))[: request.count])
    chosen: list[int] = []
    for group in sorted(by_root.values(), key=lambda group: (-len(group), group[0])):
        chosen += group[: request.count - len(chosen)]
    chosen += unknown[: request.count - len(chosen)]
    return tuple(sorted(chosen))
