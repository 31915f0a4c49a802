"""A state as a value that can be compared: by name, whatever the order of its rows and columns."""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain import BoundPod, ClusterState
from stowplan.core.domain.storage_index import StorageIndex


def described(state: ClusterState) -> dict[str, Any]:
    """Everything a reader can see, by name: independent of the order of rows and columns."""

    def amounts(array: NDArray[np.int64], row: int) -> dict[str, int]:
        return {name: int(array[row, column]) for name, column in state.columns.items() if array[row, column]}

    nodes = {
        name: (
            state.node(row),
            amounts(state.allocatable, row),
            amounts(state.requested, row),
            state.scored[row].tolist(),
            bool(state.is_unschedulable[row]),
            state.taint_sets[state.taint_set_ids[row]],
            {
                key: one.values[one.value_ids[row]]
                for key, one in state.labels.items()
                if one.value_ids[row] >= 0
            },
            {image: sizes[row] for image, sizes in state.images.items() if row in sizes},
            {key: _plain(pod) for key, pod in state.pods_on[row].items()},
        )
        for name, row in state.rows()
    }
    return {
        "nodes": nodes,
        "storage": {name: getattr(state.storage, name) for name in StorageIndex.__slots__},
        "nominations": state.nominations.on,
        "namespaces": state.namespaces,
    }


def _plain(pod: BoundPod) -> BoundPod:
    """A pod as the engine would have bound it, which knows no uids and binds the shape that waited."""
    return dataclasses.replace(pod, uid="", shape=dataclasses.replace(pod.shape, own_nomination=""))
