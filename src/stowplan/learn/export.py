"""From a trained network to a release: two ONNX graphs with sizes left open, and the manifest.

The graphs take one cycle at a time, without the axis of the batch. Whether they answer as the network does is
checked before a release leaves this module, on random cycles of several sizes.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec
import numpy as np
import onnx
import torch
from torch import Tensor, nn

from stowplan import __version__
from stowplan.core.encoder import SCHEMA, FeatureGroup
from stowplan.core.policy.learned.graphs import Graphs
from stowplan.core.policy.learned.release import Manifest, Release
from stowplan.core.policy.learned.sizes import (
    NODE_INPUT,
    NODE_OUTPUT,
    POSITION_COLUMNS,
    TASK_INPUTS,
    TASK_OUTPUTS,
    NetworkShape,
    NetworkSizes,
)
from stowplan.core.semantics import FrozenStatistics
from stowplan.errors import InternalError
from stowplan.learn.network import PolicyNetwork

__all__ = ["MOST_DIFFERENCE", "export_release", "largest_difference", "sizes_of_schema"]

MOST_DIFFERENCE: Final = 1e-4
"""By which a number of the graphs may differ from the network's."""
_OPSET: Final = 20  # the first with Gelu as one operator
_CHECKED_SIZES: Final = ((1, 1), (2, 7), (256, 40))  # groups, nodes


def sizes_of_schema(shape: NetworkShape) -> NetworkSizes:
    """Return the sizes of a network of this shape for this version's encoder."""
    return NetworkSizes(
        task_features=SCHEMA.task.width,
        cluster_features=SCHEMA.cluster.width,
        node_features=SCHEMA.node.width,
        **msgspec.structs.asdict(shape),
    )


def export_release(
    network: PolicyNetwork,
    *,
    name: str,
    statistics: FrozenStatistics,
    training: str,
    off: Sequence[FeatureGroup] = (),
) -> Release:
    """Return a release of `network`.

    Args:
        network: trained.
        name: of the model, for people.
        statistics: of training.
        training: SHA-256 of the configuration of training, in hexadecimal.
        off: groups of columns that were unknown in training.

    Raises:
        InvalidFile: the network was made for other columns than this version's.
        InternalError: the graphs answer otherwise than the network.
    """
    manifest = Manifest(
        name=name,
        made_by=__version__,
        schema=SCHEMA,
        statistics=statistics,
        network=network.sizes,
        training=training,
        off=tuple(sorted(off)),
    )
    manifest.require_fit()
    was_training = network.training
    network.eval()
    try:
        release = Release.of(manifest, node_graph=_node_graph(network), task_graph=_task_graph(network))
        rng = np.random.default_rng(0)
        graphs = Graphs(release)
        difference = max(largest_difference(network, graphs, rng, *sizes) for sizes in _CHECKED_SIZES)
    finally:
        network.train(was_training)
    if difference > MOST_DIFFERENCE:
        raise InternalError(
            f"the graphs of model {name!r} differ from its network by {difference:.2g}, more than "
            f"{MOST_DIFFERENCE:g}; they are not to be served"
        )
    return release


def largest_difference(
    network: PolicyNetwork, graphs: Graphs, rng: np.random.Generator, groups: int, nodes: int
) -> float:
    """Return by how much graphs and network differ at most on a random cycle, relative above 1.

    Args:
        network: in evaluation mode.
        graphs: exported from it.
        rng: draws the cycle.
        groups: of the cycle, 1 or more.
        nodes: of the cycle.
    """
    sizes = network.sizes
    features = rng.normal(size=(nodes, sizes.node_features)).astype(np.float32)
    tasks = rng.normal(size=(groups, sizes.task_features)).astype(np.float32)
    position = rng.integers(0, 200, size=(groups, POSITION_COLUMNS)).astype(np.float32)
    cluster = rng.normal(size=sizes.cluster_features).astype(np.float32)
    with torch.inference_mode():
        node_rows = network.node_side(torch.from_numpy(features))
        pooled = network.pool(node_rows[None])
        said = network.task_side(
            torch.from_numpy(tasks)[None],
            torch.from_numpy(position)[None],
            torch.from_numpy(cluster)[None],
            pooled,
        )
    rows = graphs.node_rows(features)
    served_pooled = graphs.pooled(rows)
    group_rows, value = graphs.group_rows(tasks, position, cluster, served_pooled)
    return max(
        _difference(node_rows, rows),
        _difference(pooled[0], served_pooled),
        _difference(said.groups[0], group_rows),
        _difference(said.value, np.array([value], np.float32)),
    )


def _difference(trained: Tensor, served: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> float:
    wanted = trained.numpy()
    if not wanted.size:
        return 0.0
    return float((np.abs(wanted - served) / np.maximum(np.abs(wanted), 1.0)).max())


class _NodeGraph(nn.Module):
    def __init__(self, network: PolicyNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(self, node_features: Tensor) -> Tensor:
        return self.network.node_side(node_features)


class _TaskGraph(nn.Module):
    def __init__(self, network: PolicyNetwork) -> None:
        super().__init__()
        self.network = network

    def forward(
        self, task_features: Tensor, position: Tensor, cluster_features: Tensor, pooled_nodes: Tensor
    ) -> tuple[Tensor, Tensor]:
        said = self.network.task_side(
            task_features[None], position[None], cluster_features[None], pooled_nodes[None]
        )
        return said.groups[0], said.value


def _node_graph(network: PolicyNetwork) -> bytes:
    example = (torch.zeros(3, network.sizes.node_features),)
    is_open = ({0: torch.export.Dim("nodes")},)
    return _graph(_NodeGraph(network), example, is_open, (NODE_INPUT,), (NODE_OUTPUT,))


def _task_graph(network: PolicyNetwork) -> bytes:
    sizes = network.sizes
    example = (
        torch.zeros(3, sizes.task_features),
        torch.zeros(3, POSITION_COLUMNS),
        torch.zeros(sizes.cluster_features),
        torch.zeros(sizes.pooled_width),
    )
    groups = torch.export.Dim("groups")
    return _graph(
        _TaskGraph(network), example, ({0: groups}, {0: groups}, None, None), TASK_INPUTS, TASK_OUTPUTS
    )


def _graph(
    module: nn.Module,
    example: tuple[Tensor, ...],
    dynamic_shapes: tuple[object, ...],
    inputs: Sequence[str],
    outputs: Sequence[str],
) -> bytes:
    with warnings.catch_warnings(), _quiet():
        # It warns that two inputs share the name of an axis, which is what is meant.
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            module.eval(),
            example,
            input_names=inputs,
            output_names=outputs,
            dynamic_shapes=dynamic_shapes,
            opset_version=_OPSET,
            dynamo=True,
            external_data=False,
            verbose=False,
        )
    if program is None:
        raise InternalError("the exporter of PyTorch gave no graph")
    model = program.model_proto
    _strip(model)
    onnx.checker.check_model(model, full_check=True)
    return model.SerializeToString(deterministic=True)


@contextmanager
def _quiet() -> Generator[None]:
    """Keep the exporter from telling which packages it could do without."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _strip(model: onnx.ModelProto) -> None:
    """Take away what the exporter notes beside the graph: where in which file a node came from."""
    del model.metadata_props[:]
    model.doc_string = ""
    graph = model.graph
    del graph.metadata_props[:]
    del graph.value_info[:]
    for part in (*graph.node, *graph.input, *graph.output, *graph.initializer):
        del part.metadata_props[:]
        part.doc_string = ""
