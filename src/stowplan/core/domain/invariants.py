"""The invariants of a cluster state, checked from scratch against the bound pods.

Costs the size of the cluster; for tests, and for drivers that want to be sure.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain.columns import RowCounter
from stowplan.core.domain.pod_index import PodIndex
from stowplan.core.domain.state import ClusterState
from stowplan.errors import InternalError

__all__ = ["validate_state"]


def validate_state(state: ClusterState) -> None:
    """Check every invariant that ties the arrays and indexes of `state` together.

    Raises:
        InternalError: one does not hold; the message says which, where and by how much.
    """
    requested = np.zeros_like(state.requested)
    scored = np.zeros_like(state.scored)
    gpu_free = np.full_like(state.gpu_free_milli, -1)
    index = PodIndex()
    for name, row in state.rows():
        node = state.node(row)
        if node.name != name or not state.is_node[row]:
            raise InternalError(f"row {row} should hold {name!r} but holds {node.name!r}")
        gpu_free[row, : len(node.hardware.gpus)] = 1000
    for key, (pod, row) in state.pods.items():
        if state.pods_on[row].get(key) is not pod:
            raise InternalError(f"pod {key!r} is not among the pods of row {row}")
        columns, amounts = state.request_vector(pod.shape.requests)
        requested[row, columns] += amounts
        scored[row] += (pod.shape.score_cpu_milli, pod.shape.score_memory_bytes)
        if pod.shape.gpu is not None:
            for gpu in pod.gpus:
                gpu_free[row, gpu] -= pod.shape.gpu.milli
        index.count(pod, row, 1)
    _require_equal("requested", requested, state.requested)
    _require_equal("scored", scored, state.scored)
    _require_equal("gpu_free_milli", gpu_free, state.gpu_free_milli)
    for name in PodIndex.__slots__:
        expected, actual = _as_plain(getattr(index, name)), _as_plain(getattr(state.index, name))
        if expected != actual:
            raise InternalError(f"index {name} is {actual!r} but the bound pods say {expected!r}")
    if sum(map(len, state.pods_on)) != len(state.pods):
        raise InternalError("the pods by row and the pods by key differ in number")


def _as_plain(table: dict[object, RowCounter]) -> dict[object, dict[int, int]]:
    return {key: dict(counter.items()) for key, counter in table.items()}


def _require_equal(name: str, expected: NDArray[np.generic], actual: NDArray[np.generic]) -> None:
    if not np.array_equal(expected, actual):
        where = np.argwhere(expected != actual)[0].tolist()
        raise InternalError(
            f"{name}{where} is {actual[tuple(where)]} but the bound pods add up to {expected[tuple(where)]}"
        )
