"""What was seen in many cycles and what became of the tasks: plain arrays, one file for each run.

Groups stand in order of arrival, oldest first: for attention the order means nothing, for a recurrent network
it is the sequence.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from stowplan.errors import InvalidInput

__all__ = ["Observations", "RiskBatch", "joined", "load_observations", "save_observations"]

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observations:
    """C cycles with S groups and R nodes in all, cycle after cycle.

    Attributes:
        groups, nodes: (C,) how many each cycle has.
        task_features: (S, FT), position: (S, 4), as in `Encoded`.
        workflow: (S,) number of the group's workflow, no two runs share one.
        blocked: (S,) 1 or 0 as `is_blocked` says, NaN: not known.
        cluster_features: (C, FC).
        node_features: (R, FN).
    """

    groups: Ints
    nodes: Ints
    task_features: Floats
    position: Floats
    workflow: Ints
    blocked: Floats
    cluster_features: Floats
    node_features: Floats

    def batch(self, cycles: Sequence[int]) -> RiskBatch:
        """Return some cycles, at least one, filled up to the size of the largest."""
        first_group, first_node = _starts(self.groups), _starts(self.nodes)
        group_rows = [slice(first_group[c], first_group[c] + self.groups[c]) for c in cycles]
        node_rows = [slice(first_node[c], first_node[c] + self.nodes[c]) for c in cycles]
        return RiskBatch(
            task_features=_filled(self.task_features, group_rows),
            position=_filled(self.position, group_rows),
            cluster_features=torch.from_numpy(self.cluster_features[list(cycles)]),
            node_features=_filled(self.node_features, node_rows),
            is_group=_filled(np.ones(len(self.blocked), dtype=np.bool_), group_rows),
            is_node=_filled(np.ones(len(self.node_features), dtype=np.bool_), node_rows),
            blocked=_filled(self.blocked, group_rows),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskBatch:
    """B cycles of at most G groups and N nodes; what fills up is False in `is_group` and `is_node`.

    Attributes:
        task_features: (B, G, FT).
        position: (B, G, 4).
        cluster_features: (B, FC).
        node_features: (B, N, FN).
        is_group: (B, G) bool.
        is_node: (B, N) bool.
        blocked: (B, G), NaN: not known.
    """

    task_features: Tensor
    position: Tensor
    cluster_features: Tensor
    node_features: Tensor
    is_group: Tensor
    is_node: Tensor
    blocked: Tensor


def joined(parts: Sequence[Observations]) -> Observations:
    """Return the cycles of several runs; their workflows are numbered on.

    Raises:
        InvalidInput: there are none.
    """
    if not parts:
        raise InvalidInput("no observations to join; collect at least one run")
    offsets = _starts(np.array([int(part.workflow.max(initial=-1)) + 1 for part in parts]))
    arrays = {
        field.name: np.concatenate([getattr(part, field.name) for part in parts])
        for field in fields(Observations)
    }
    arrays["workflow"] = np.concatenate(
        [part.workflow + offset for part, offset in zip(parts, offsets, strict=True)]
    )
    return Observations(**arrays)


def save_observations(observations: Observations, path: Path) -> None:
    """Write to `path`, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(f".{os.getpid()}")
    with unfinished.open("wb") as stream:
        np.savez_compressed(
            stream,
            allow_pickle=False,
            **{field.name: getattr(observations, field.name) for field in fields(Observations)},
        )
    unfinished.replace(path)


def load_observations(path: Path) -> Observations:
    """Return what `save_observations` wrote."""
    with np.load(path) as stored:
        return Observations(**{field.name: stored[field.name] for field in fields(Observations)})


def _starts(counts: Ints) -> Ints:
    return np.cumsum(counts) - counts


def _filled(array: NDArray[np.generic], rows: Sequence[slice]) -> Tensor:
    parts = [array[one] for one in rows]
    out = np.zeros((len(parts), max(map(len, parts)), *array.shape[1:]), dtype=array.dtype)
    for number, part in enumerate(parts):
        out[number, : len(part)] = part
    return torch.from_numpy(out)
