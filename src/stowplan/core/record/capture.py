"""What a cycle is about to decide on, held fast: taken in the scheduler's thread, written down elsewhere.

Nearly all of it is immutable and only pointed to. What changes is copied: the tables of a cluster state (once
per checkpoint), and of each workflow that has changed its two small arrays. So a capture costs microseconds,
and the writing, which takes longer, needs nothing of the scheduler's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from stowplan.core.domain import (
    BoundPod,
    ClusterEvent,
    ClusterState,
    Labels,
    Node,
    PendingTask,
    RunningTask,
    Taint,
    Workflow,
    WorkflowProgress,
)
from stowplan.core.domain.events import StorageObject
from stowplan.core.record.readings import ReadingsCapture
from stowplan.errors import InvalidInput

__all__ = [
    "CycleCapture",
    "ProgressCapture",
    "StateCapture",
    "capture_progress",
    "capture_state",
    "chance_of",
]


@dataclass(frozen=True, slots=True)
class StateCapture:
    """The content of a cluster state, with the order of its rows, columns, labels and pods."""

    capacity: int
    columns: list[str]
    gpu_width: int
    taint_sets: list[tuple[Taint, ...]]
    gpu_models: list[str]
    label_values: list[tuple[str, list[str]]]
    nodes: list[tuple[int, Node]]
    free_rows: list[int]
    pods: list[tuple[BoundPod, int]]
    namespaces: list[tuple[str, Labels]]
    nominations: list[tuple[str, list[BoundPod]]]
    storage: list[StorageObject]


def capture_state(state: ClusterState) -> StateCapture:
    """Hold the content of `state` fast."""
    storage = state.storage
    tables: list[Mapping[Any, StorageObject]] = [
        storage.volumes,
        storage.claims,
        storage.classes,
        storage.csi_nodes,
        storage.csi_drivers,
        storage.capacities,
        storage.attachments,
    ]
    return StateCapture(
        capacity=state.capacity,
        columns=list(state.columns),
        gpu_width=state.gpu_free_milli.shape[1],
        taint_sets=state.taint_sets.copy(),
        gpu_models=state.gpu_models.copy(),
        label_values=[(key, column.values.copy()) for key, column in state.labels.items()],
        nodes=[(row, state.node(row)) for _, row in state.rows()],
        free_rows=list(state.free_rows),
        pods=list(state.pods.values()),
        namespaces=list(state.namespaces.items()),
        nominations=[(name, list(pods.values())) for name, pods in state.nominations.on.items()],
        storage=[item for table in tables for item in table.values()],
    )


@dataclass(frozen=True, slots=True)
class ProgressCapture:
    """How far a workflow is."""

    progress: WorkflowProgress
    workflow: Workflow
    status: bytes
    unfinished_parents: bytes
    upward_rank_s: bytes
    remaining_work_s: float
    open_tasks: int


def capture_progress(progress: WorkflowProgress) -> ProgressCapture:
    """Hold fast how far `progress` is."""
    return ProgressCapture(
        progress,
        progress.workflow,
        progress.status.tobytes(),
        progress.unfinished_parents.tobytes(),
        progress.upward_rank_s.tobytes(),
        progress.remaining_work_s,
        progress.open_tasks,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleCapture:
    """The whole input of a cycle, against the one that was captured before.

    Attributes:
        now_s: the driver's time.
        pending, running: the tasks, in order.
        progress: the workflows that have changed since.
        chance: state of the generator.
        memory: of the policy, see `Policy.memory`.
        events: what was applied to the cluster state since.
        state: all of it, for a checkpoint; `events` are then not needed.
        readings: of the nodes, when the cycle was shown any.
    """

    now_s: float
    pending: tuple[PendingTask, ...]
    running: tuple[RunningTask, ...]
    progress: list[ProgressCapture]
    chance: list[Any]
    memory: tuple[int, ...]
    events: list[ClusterEvent]
    state: StateCapture | None = None
    readings: ReadingsCapture | None = None


def chance_of(rng: np.random.Generator) -> list[Any]:
    """Return the state of a generator as plain data.

    Raises:
        InvalidInput: it is not of the kind that `default_rng` makes.
    """
    state = cast("dict[str, Any]", rng.bit_generator.state)
    if state["bit_generator"] != "PCG64":
        raise InvalidInput(
            f"the generator is a {state['bit_generator']}; decisions are recorded with a PCG64 "
            "(`numpy.random.default_rng`)"
        )
    inner = state["state"]
    return [
        inner["state"].to_bytes(16, "big"),
        inner["inc"].to_bytes(16, "big"),
        int(state["has_uint32"]),
        int(state["uinteger"]),
    ]
