"""A cycle's view as arrays, by the same code in training, in simulation and where decisions are served.

What is encoded is a function of the view alone, but for the load that readings show and nobody told
(`hidden_load`): that follows from the readings of the last half minute, and is the encoder's memory. Caches
make it fast and change nothing, which tests hold bit for bit, also between a live view and the one read back
from its record.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.domain import ClusterState
from stowplan.core.encoder.cluster import encode_cluster
from stowplan.core.encoder.columns import SCHEMA
from stowplan.core.encoder.demands import Demands
from stowplan.core.encoder.encoded import Encoded
from stowplan.core.encoder.groups import Groups
from stowplan.core.encoder.nodes import NodeRows
from stowplan.core.encoder.schema import FeatureGroup
from stowplan.core.encoder.scoring import RowScorer, nominal_statistics
from stowplan.core.encoder.tasks import encode_tasks
from stowplan.core.encoder.workflows import Workflows
from stowplan.core.policy.hidden_load import HiddenLoads
from stowplan.core.policy.interface import CycleView
from stowplan.core.semantics import FrozenStatistics
from stowplan.errors import InternalError, InvalidInput

__all__ = ["MOST_GROUPS", "Encoder"]

MOST_GROUPS: Final = 256
"""Groups of a cycle that are encoded; attention costs their square. A proposal."""
_LEAST_REMAINING_S: Final = 1e-3


class Encoder:
    """Encodes the cycles of one cluster state after the other.

    Attributes:
        schema: the columns.
        off: groups of columns that read as unknown.
    """

    def __init__(
        self,
        *,
        statistics: FrozenStatistics | None = None,
        off: Collection[FeatureGroup] = (),
        most_groups: int = MOST_GROUPS,
    ) -> None:
        """Encode with the statistics of a model.

        Args:
            statistics: those of its training, of `schema.features`; None: nominal ones, for one yet to be
                trained.
            off: groups of columns to read as unknown.
            most_groups: groups of pending tasks that are encoded in one cycle.

        Raises:
            InvalidInput: the statistics are of other columns, or `most_groups` is not positive.
        """
        if most_groups < 1:
            raise InvalidInput(f"most_groups is {most_groups}; encode at least one group")
        self.schema = SCHEMA
        self.off = frozenset(off)
        statistics = nominal_statistics(SCHEMA) if statistics is None else statistics
        _require_columns(statistics)
        self._score_task, self._score_node, self._score_cluster = (
            RowScorer(table, statistics, self.off) for table in SCHEMA.tables
        )
        self._demands = Demands()
        self._workflows = Workflows()
        self._groups = Groups(self._workflows, most_groups)
        self._nodes: NodeRows | None = None
        self._epoch = 0
        self._state: ClusterState | None = None  # of which `_hidden` is
        self._hidden = self._nothing_hidden()
        # Rows of which the hidden load is another one since the last encoding.
        self._measured: set[int] = set()

    @property
    def memory(self) -> tuple[int, ...]:
        """What must be known besides a view to encode the same; see `HiddenLoads.memory`."""
        return self._hidden.memory

    def recall(self, memory: Sequence[int]) -> None:
        """Go on from where an encoder had this `memory`.

        A plan that was made already can still be asked, if the memory is the one that it was made with: while
        plans are compared, one memory is recalled after the other and back.
        """
        if tuple(memory) != self.memory:
            self._measured |= self._hidden.recall(memory)
            self._state = None

    def observe(self, view: CycleView) -> None:
        """Take in the readings of a cycle that is not encoded, so that later ones are as if it had been.

        Raises:
            InvalidInput: the board of readings has another number of rows than the state.
        """
        nodes, self._nodes = self._nodes, None  # should this fail half-way, the next cycle begins anew
        if self._state is not None and self._state is not view.state:
            self._hidden = self._nothing_hidden()
        self._state = view.state
        self._measured |= self._hidden.learn(view, self._demands.of)
        self._nodes = nodes

    def _nothing_hidden(self) -> HiddenLoads:
        return HiddenLoads(
            sees_memory=FeatureGroup.MBPI not in self.off, sees_disks=FeatureGroup.STORAGE not in self.off
        )

    def encode(self, view: CycleView) -> Encoded:
        """Return the arrays of a cycle.

        Raises:
            InvalidInput: the board of readings has another number of rows than the state.
        """
        self.observe(view)
        nodes = self._nodes
        if nodes is None or nodes.state is not view.state:
            nodes = NodeRows(view.state, self._score_node, self._demands, self._hidden, self._epoch)
            self._measured = set()  # all rows are new
        self._nodes = None  # should this fail half-way, the next cycle begins anew
        nodes.begin(view, self._measured)
        self._measured = set()
        grouped = self._groups.of(view.pending)
        tasks = encode_tasks(
            grouped, self._workflows, self._demands, nodes.types, nodes.type_counts, view.now_s
        )
        self._workflows.forget(len(tasks.workflows))
        cluster = encode_cluster(view, nodes, tasks, grouped.count)
        self._nodes, self._epoch = nodes, nodes.epoch
        remaining_s = np.array([group.progress.remaining_work_s for group in grouped.groups], np.float64)
        return Encoded(
            schema_id=self.schema.id,
            task_features=self._score_task(tasks.raw),
            position=self._position(tasks.position),
            order_prior=-np.log(np.maximum(remaining_s, _LEAST_REMAINING_S)).astype(np.float32),
            priority=np.array([group.task.shape.priority for group in grouped.groups], np.int64),
            cluster_features=self._score_cluster(cluster[None, :])[0],
            asked_per_s=tasks.asked[:, :-2],
            exposed=tasks.asked[:, -2],
            quota=tasks.asked[:, -1],
            node_features=nodes.encoded,
            load=nodes.load,
            capacity=nodes.capacity,
            busy=nodes.busy,
            log_factor_of_type=tasks.log_factors.astype(np.float32),
            type_of_node=nodes.type_of,
            node_rows=nodes.rows,
            node_epoch=nodes.epoch,
            group_of=grouped.group_of,
            members=[group.members for group in grouped.groups],
            raw_task=tasks.raw,
            raw_node=nodes.raw,
            raw_cluster=cluster,
        )

    def _position(self, position: NDArray[np.float64]) -> NDArray[np.float32]:
        if FeatureGroup.TOPOLOGY in self.off:
            return np.zeros(position.shape, np.float32)
        if FeatureGroup.HISTORY in self.off:  # ways are measured in expected seconds
            position[:, SCHEMA.position.index("upward_rank_share")] = 0.0
        return position.astype(np.float32)

    def refresh_nodes(self) -> NDArray[np.intp]:
        """Bring the node arrays of the last encoding up to the state as it is now.

        Returns:
            The places of the nodes whose features, load or capacity changed since the last call, or since the
            encoder first saw them, also of those that changed back; ascending.

        Raises:
            InternalError: nothing was encoded yet.
        """
        nodes = self._nodes
        if nodes is None:
            raise InternalError("the nodes were to be refreshed before anything was encoded")
        self._nodes = None
        changed = nodes.refresh()
        self._nodes = nodes
        return changed


def _require_columns(statistics: FrozenStatistics) -> None:
    statistics.require_names([feature.name for feature in SCHEMA.features])
    for one, feature in zip(statistics.features, SCHEMA.features, strict=True):
        if one.feature != feature:
            raise InvalidInput(
                f"statistics of {feature.name!r} are of {one.feature}, this version encodes {feature}; "
                "train with this version, or serve with the one that trained"
            )
