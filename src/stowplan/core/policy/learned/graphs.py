"""The two graphs of a release, run by ONNX Runtime: one thread, the same answer for the same input.

A row of the node side must not depend on which rows are computed beside it, or a plan would depend on what
was kept from earlier cycles. A product of a matrix with a single row may be summed in another order than one
with several, so a row is never computed alone; tests hold that rows are then the same to the last bit.

Source of the options: ONNX Runtime, "Thread management" and "Model optimizations" of its documentation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from stowplan.core.policy.learned.release import NODE_GRAPH, TASK_GRAPH, Release
from stowplan.core.policy.learned.sizes import (
    NODE_INPUT,
    NODE_OUTPUT,
    TASK_INPUTS,
    TASK_OUTPUTS,
    NetworkSizes,
)
from stowplan.errors import InternalError, InvalidFile

if TYPE_CHECKING:
    import onnxruntime as ort

__all__ = ["Graphs"]

Floats = NDArray[np.float32]
Shape = tuple[int | None, ...]


class Graphs:
    """Runs the graphs of one release."""

    def __init__(self, release: Release) -> None:
        """Load both graphs.

        Raises:
            InvalidFile: a graph cannot be loaded, or takes or gives something else than the manifest says.
        """
        self.sizes = sizes = release.manifest.network
        self._node = _session(release.files[NODE_GRAPH], "node")
        self._task = _session(release.files[TASK_GRAPH], "task")
        _require(self._node, "node", _node_shapes(sizes))
        _require(self._task, "task", _task_shapes(sizes))

    def node_rows(self, node_features: Floats) -> Floats:
        """Return (N, node_width) for `node_features` (N, FN).

        Raises:
            InternalError: the graph gives numbers that are not finite.
        """
        count = len(node_features)
        if not count:
            return np.zeros((0, self.sizes.node_width), np.float32)
        fed = np.repeat(node_features, 2, axis=0) if count == 1 else node_features
        (rows,) = _run(self._node, "node", [NODE_OUTPUT], {NODE_INPUT: fed})
        return rows[:count]

    def pooled(self, nodes: Floats) -> Floats:
        """Return the summary of all nodes, (pooled_width,); zeros without nodes."""
        if not len(nodes):
            return np.zeros(self.sizes.pooled_width, np.float32)
        summary = nodes[:, self.sizes.node_columns["summary"]]
        return np.concatenate((summary.mean(axis=0), summary.max(axis=0)))

    def group_rows(
        self, task_features: Floats, position: Floats, cluster_features: Floats, pooled_nodes: Floats
    ) -> tuple[Floats, float]:
        """Return (G, group_width) for the groups of a cycle, and its value; 0 for a cycle without groups.

        Args:
            task_features: (G, FT).
            position: (G, 4).
            cluster_features: (FC,).
            pooled_nodes: (pooled_width,) from `pooled`.

        Raises:
            InternalError: the graph gives numbers that are not finite.
        """
        if not len(task_features):
            return np.zeros((0, self.sizes.group_width), np.float32), 0.0
        arrays = (task_features, position, cluster_features, pooled_nodes)
        fed: dict[str, Floats] = dict(zip(TASK_INPUTS, arrays, strict=True))
        groups, value = _run(self._task, "task", TASK_OUTPUTS, fed)
        return groups, float(value[0])


def _node_shapes(sizes: NetworkSizes) -> Mapping[str, Shape]:
    return {NODE_INPUT: (None, sizes.node_features), NODE_OUTPUT: (None, sizes.node_width)}


def _task_shapes(sizes: NetworkSizes) -> Mapping[str, Shape]:
    shapes: Sequence[Shape] = (
        (None, sizes.task_features),
        (None, 4),
        (sizes.cluster_features,),
        (sizes.pooled_width,),
        (None, sizes.group_width),
        (1,),
    )
    return dict(zip((*TASK_INPUTS, *TASK_OUTPUTS), shapes, strict=True))


def _session(graph: bytes, what: str) -> ort.InferenceSession:
    import onnxruntime as ort  # noqa: PLC0415  (20 MB of memory, for who serves a model only)

    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.execution_mode = ort.ExecutionMode.ORT_SEQUENTIAL
    options.use_deterministic_compute = True
    options.enable_mem_pattern = False  # patterns are kept per shape, and shapes change with every cycle
    options.log_severity_level = 4  # what goes wrong is raised
    try:
        return ort.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001  (ONNX Runtime's errors have no class of their own in common)
        first = str(error).partition("\n")[0]
        raise InvalidFile(f"the {what} graph of a model cannot be loaded: {first}; export it anew") from None


def _require(session: ort.InferenceSession, what: str, wanted: Mapping[str, Shape]) -> None:
    given = {
        one.name: tuple(size if isinstance(size, int) else None for size in one.shape)
        for one in (*session.get_inputs(), *session.get_outputs())
    }
    for name in (*wanted, *given):
        if given.get(name) != wanted.get(name):
            raise InvalidFile(
                f"the {what} graph of a model has {name!r} of shape {given.get(name, 'none')}, its manifest "
                f"asks for {wanted.get(name, 'none')} (None: any); take graph and manifest of one release"
            )


def _run(
    session: ort.InferenceSession, what: str, outputs: Sequence[str], fed: Mapping[str, Floats]
) -> list[Floats]:
    found = session.run(outputs, fed)
    if not all(bool(np.isfinite(one).all()) for one in found):
        raise InternalError(f"the {what} graph of a model gives numbers that are not finite; do not serve it")
    return found
