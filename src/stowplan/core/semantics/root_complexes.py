"""Root complexes: which devices hang together, and where enough GPUs are free together.

Traffic between two devices of one root complex does not cross the processors' interconnect. So GPUs that work
together should be of one (R13). A root complex is a candidate when it has as many free GPUs as are asked for;
a node without a candidate must spread them. (Filtering a node's GPUs by the root complex of one of them
proves nothing: that one is always among them.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain import Node
from stowplan.core.semantics.readings import PcieDevice
from stowplan.errors import InvalidInput

__all__ = [
    "SPREAD_SCORE_FACTOR",
    "UNKNOWN_ROOT",
    "DeviceDistance",
    "RootComplexFit",
    "device_distance",
    "devices_by_root_complex",
    "free_gpus_by_root_complex",
    "root_complex_fit",
    "root_complexes_of",
]

SPREAD_SCORE_FACTOR: Final = 0.4
"""On a node's score when GPUs that work together are of several root complexes there (R13, the article's)."""
UNKNOWN_ROOT: Final = -1


class DeviceDistance(IntEnum):
    """What traffic between two devices of one node crosses, nearest first."""

    SAME_SWITCH = 0
    """One switch (nvidia-smi: PIX)."""
    SAME_ROOT_COMPLEX = 1
    """Several switches, or ports of one root complex (PXB, PHB)."""
    SAME_NUMA_NODE = 2
    """Two root complexes of one NUMA node (NODE)."""
    ACROSS = 3
    """The processors' interconnect (SYS), or it is not known that nothing farther is crossed."""


class RootComplexFit(IntEnum):
    """Whether the GPUs of a request can be of one root complex of a node."""

    UNKNOWN = -1
    """Where some of the free GPUs hang is not known, and those that are known do not suffice."""
    TOO_FEW = 0
    """Fewer GPUs are free than are asked for."""
    SPREAD = 1
    """Enough are free, but of no one root complex."""
    TOGETHER = 2
    """Some root complex has enough free."""


def devices_by_root_complex(devices: Sequence[PcieDevice]) -> Mapping[str, tuple[PcieDevice, ...]]:
    """Return the devices of each root complex, ordered by name; those of an unknown one are left out."""
    found: dict[str, list[PcieDevice]] = {}
    for device in devices:
        if device.root_complex:
            found.setdefault(device.root_complex, []).append(device)
    return {name: tuple(found[name]) for name in sorted(found)}


def device_distance(one: PcieDevice, other: PcieDevice) -> DeviceDistance:
    """Return what traffic between two devices of one node crosses.

    Devices of one switch share its upstream port, below root complex and root port, and of what follows each
    has at most its own downstream port.
    """
    common = 0
    for left, right in zip(one.path, other.path, strict=False):
        if left != right:
            break
        common += 1
    if common > 2 and max(len(one.path), len(other.path)) - common <= 1:
        return DeviceDistance.SAME_SWITCH
    if common > 0:
        return DeviceDistance.SAME_ROOT_COMPLEX
    if one.numa_node is not None and one.numa_node >= 0 and one.numa_node == other.numa_node:
        return DeviceDistance.SAME_NUMA_NODE
    return DeviceDistance.ACROSS


def root_complexes_of(nodes: Sequence[Node | None]) -> tuple[NDArray[np.int32], tuple[tuple[str, ...], ...]]:
    """Return the root complex of each GPU of each node, int32 (nodes, gpus), and their names by node.

    Numbers count the root complexes of one node, in order of the names; `UNKNOWN_ROOT` where the node has no
    such GPU, or it is not known where the GPU hangs.
    """
    gpus = max((len(node.hardware.gpus) for node in nodes if node is not None), default=0)
    roots = np.full((len(nodes), gpus), UNKNOWN_ROOT, np.int32)
    names: list[tuple[str, ...]] = []
    for row, node in enumerate(nodes):
        devices = node.hardware.gpus if node is not None else ()
        known = tuple(sorted({gpu.root_complex for gpu in devices if gpu.root_complex}))
        names.append(known)
        for column, gpu in enumerate(devices):
            if gpu.root_complex:
                roots[row, column] = known.index(gpu.root_complex)
    return roots, tuple(names)


def free_gpus_by_root_complex(
    free_milli: NDArray[np.integer],
    roots: NDArray[np.integer],
    *,
    milli: int = 1000,
    usable: NDArray[np.bool_] | None = None,
) -> NDArray[np.int64]:
    """Return how many GPUs each root complex of each node has free, int64 (nodes, root complexes + 1).

    Args:
        free_milli: (nodes, gpus); free thousandths of each GPU, negative where the node has no such GPU (as
            `ClusterState.gpu_free_milli`).
        roots: (nodes, gpus); number of its root complex, or `UNKNOWN_ROOT`.
        milli: thousandths that are needed of each.
        usable: (nodes, gpus); False for GPUs that must not be counted, such as those with a link that is
            down.

    The last column counts free GPUs of which it is not known where they hang.

    Raises:
        InvalidInput: the shapes differ, or no thousandth is needed.
    """
    if free_milli.shape != roots.shape or free_milli.ndim != 2 or milli < 1:
        raise InvalidInput(
            f"free GPUs {free_milli.shape}, root complexes {roots.shape}, {milli} thousandths needed: the "
            "shapes must be the same (nodes, gpus), and at least 1 thousandth needed"
        )
    is_free = free_milli >= milli
    if usable is not None:
        is_free &= usable
    nodes, width = free_milli.shape[0], int(roots.max(initial=UNKNOWN_ROOT)) + 2
    rows, columns = np.nonzero(is_free)
    counts = np.zeros((nodes, width), np.int64)
    np.add.at(counts, (rows, roots[rows, columns]), 1)  # UNKNOWN_ROOT is the last column
    return counts


def root_complex_fit(counts: NDArray[np.int64], asked: int) -> NDArray[np.int8]:
    """Return for each node whether `asked` GPUs can be of one root complex, int8 (nodes,), `RootComplexFit`.

    Args:
        counts: (nodes, root complexes + 1), from `free_gpus_by_root_complex`.
        asked: number of GPUs, at least 1. One GPU is always of one root complex.

    Raises:
        InvalidInput: no GPU is asked for.
    """
    if asked < 1:
        raise InvalidInput(f"{asked} GPUs are asked for; at least 1 makes a question of root complexes")
    known, unknown, total = counts[:, :-1].max(axis=1, initial=0), counts[:, -1], counts.sum(axis=1)
    fit = np.full(counts.shape[0], RootComplexFit.SPREAD, np.int8)
    fit[known + unknown >= asked] = RootComplexFit.UNKNOWN
    fit[(known >= asked) | ((asked == 1) & (total >= 1))] = RootComplexFit.TOGETHER
    fit[total < asked] = RootComplexFit.TOO_FEW
    return fit
