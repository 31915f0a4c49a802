"""Which filters refuse a node beside the pods that are nominated for it, as if those ran there already."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from stowplan.core.constraints.filter import NodeFilter
from stowplan.core.constraints.trial import MovingPods, Verdict
from stowplan.core.domain import BoundPod

__all__ = ["bits_beside"]


def bits_beside(
    filters: Iterable[tuple[int, NodeFilter]],
    nominated: Mapping[int, Sequence[BoundPod]],
    bits_alone: NDArray[np.int32],
) -> dict[int, int]:
    """Return by row the bits of the filters that refuse it.

    Args:
        filters: each with its bit.
        nominated: by row, the pods that are nominated for it and count there.
        bits_alone: of the filters that refuse each row without those pods, shape (capacity,).
    """
    if not nominated:
        return {}
    rows = np.array(list(nominated), dtype=np.intp)
    everywhere = np.arange(len(rows))
    pods = MovingPods(
        [pod for those in nominated.values() for pod in those],
        np.repeat(everywhere, [len(those) for those in nominated.values()]),
    )
    everyone = np.arange(len(pods.pods))
    bits = bits_alone[rows]
    for bit, one in filters:
        if one.follows_pods:
            trial = one.trial(rows, pods)
            bits &= ~bit
            if trial is not None:
                trial.count(everyone, 1)
                bits[trial.verdicts(everywhere) != Verdict.ACCEPTS] |= bit
    return dict(zip(nominated, bits.tolist(), strict=True))
