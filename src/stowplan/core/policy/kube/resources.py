"""How kube-scheduler scores resources: NodeResourcesFit (LeastAllocated) and BalancedAllocation.

Integer arithmetic and truncation are those of the scheduler (Kubernetes 1.37, plugins `noderesources`),
because scores that differ by less than one point must tie there and here alike. Both look at CPU and memory
with weight 1. The first counts requests as scoring does (a container without a request counts as 100
milli-cores and 200 MiB), the second as they are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["MAX_NODE_SCORE", "balance", "balanced_allocation", "least_allocated"]

MAX_NODE_SCORE = 100


def least_allocated(allocatable: NDArray[np.int64], scored: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return 0–100 per node: the mean free share of CPU and memory once the pod is there, shape (nodes,).

    Args:
        allocatable: (nodes, 2) milli-cores and bytes; a resource that a node lacks is left out of its mean.
        scored: (nodes, 2) requested as scoring counts it, the pod included; beyond allocatable scores 0.
    """
    shares = np.maximum((allocatable - scored) * MAX_NODE_SCORE // np.maximum(allocatable, 1), 0)
    counted = allocatable > 0
    if counted.all():
        return (shares[:, 0] + shares[:, 1]) >> 1
    shares[~counted] = 0
    return shares.sum(axis=1) // np.maximum(counted.sum(axis=1), 1)


def balance(allocatable: NDArray[np.int64], requested: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return 50–100 per node: 100 when CPU and memory are used to the same share, shape (nodes,).

    The score is 100·(1 − σ), σ the standard deviation of the two shares, cut to an integer. With one resource
    σ is 0.

    Args:
        allocatable: (nodes, 2) milli-cores and bytes.
        requested: (nodes, 2) milli-cores and bytes.
    """
    shares = np.minimum(requested / np.maximum(allocatable, 1), 1.0)
    deviation = np.abs((shares[:, 0] - shares[:, 1]) / 2)
    deviation[(allocatable == 0).any(axis=1)] = 0.0
    return ((1 - deviation) * float(MAX_NODE_SCORE)).astype(np.int64)


def balanced_allocation(
    allocatable: NDArray[np.int64], requested: NDArray[np.int64], pod: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return 50–100 per node: about 75 when the pod changes nothing, more when it evens the node out.

    Args:
        allocatable: (nodes, 2) milli-cores and bytes.
        requested: (nodes, 2) what is there.
        pod: (2,) what the pod adds. A pod that asks for neither is not scored at all (the caller leaves it
            out).
    """
    half = MAX_NODE_SCORE // 2
    return half + (half + balance(allocatable, requested + pod) - balance(allocatable, requested)) // 2
