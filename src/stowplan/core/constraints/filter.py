"""What a filter is: it tells, for rows of a cluster, which nodes refuse one pod shape, and why.

Filters come in two kinds. A *row filter* depends on a node only by what is on that node, so a change of a
row is looked at on that row alone. A *spread* or *inter-pod* filter depends on pods elsewhere; it is told
of every bound or removed pod (`note`) and then says which rows that touched (`settle`).

kube-scheduler asks its plugins twice: about the pod (PreFilter), where one can reject it or rule nodes out,
then about each node that is left. `rejects_pod` and `ruled_out` are the first, and come before any node is
looked at.

A filter can also be put on *trial* for some rows: what would it say if pods were gone from a row, or others
were there? The state is left as it is. That is how nodes are judged beside pods that are nominated for them,
and without pods that could be preempted (kube-scheduler's PreFilterExtensions).

The order of `FILTERS` is the order in which kube-scheduler 1.37 runs its default filter plugins
(`pkg/scheduler/apis/config/v1/default_plugins.go`); ours come last. Names are those of the plugins.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.constraints.journal import ChangeBatch
from stowplan.core.constraints.trial import MovingPods, Steady, Trial, Verdict
from stowplan.core.domain import Change, ChangeKind, ClusterState, PodShape

__all__ = [
    "ALL_ROWS",
    "FILTERS",
    "NO_ROWS",
    "NodeFilter",
    "Rows",
    "bit_of",
    "row_numbers",
]

FILTERS: Final = (
    "SchedulingGates",
    "NodeName",
    "NodeUnschedulable",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
    "InterPodAffinity",
    "DynamicResources",
    "NodeDeclaredFeatures",
    "SharedGpu",
    "RuleTable",
)
"""Every filter, in the order in which they are asked."""

Rows = NDArray[np.intp] | slice
"""Rows of a cluster: their numbers, shape (n,), or `ALL_ROWS`."""

ALL_ROWS: Final = slice(None)
NO_ROWS: Final[NDArray[np.intp]] = np.zeros(0, dtype=np.intp)
NO_ROWS.flags.writeable = False


def bit_of(name: str) -> int:
    """Return the bit that stands for filter `name`."""
    return 1 << FILTERS.index(name)


def row_numbers(state: ClusterState, rows: Rows) -> NDArray[np.intp]:
    """Return `rows` as numbers, shape (n,)."""
    return np.arange(state.capacity, dtype=np.intp) if isinstance(rows, slice) else rows


class NodeFilter(ABC):
    """One filter, bound to a state and a shape; `compile` must be called before anything else."""

    name: ClassVar[str]
    watches: ClassVar[ChangeKind] = ChangeKind(0)
    """What else than its own node makes the filter compile again (STORAGE, NAMESPACE, NODE)."""
    is_row_filter: ClassVar[bool] = True
    is_gate: ClassVar[bool] = False
    """Whether it keeps the pod from being looked at (PreEnqueue), and so is named before all others."""
    follows_pods: ClassVar[bool] = False
    """Whether bound and removed pods can change what it says."""

    def __init__(self, state: ClusterState, shape: PodShape) -> None:
        """Bind to a state and a shape."""
        self._state = state
        self._shape = shape

    def compile(self) -> None:  # noqa: B027  (many filters read nothing in advance)
        """Read from the state what does not change with a single row."""

    @abstractmethod
    def refused(self, rows: Rows) -> NDArray[np.bool_] | None:
        """Tell which of `rows` refuse the pod, shape (n,); None: none of them."""

    def refuses(self, row: int) -> bool:
        """Tell whether one row refuses the pod."""
        mask = self.refused(np.array([row], dtype=np.intp))
        return mask is not None and bool(mask[0])

    def trial(self, rows: NDArray[np.intp], pods: MovingPods) -> Trial | None:
        """Return the filter on trial for some rows, with the pods that are there now.

        Args:
            rows: shape (places,).
            pods: those that may come and go.

        Returns: None when it accepts the pod on all of these rows, whoever comes and goes.
        """
        del pods
        refused = self.refused(rows)
        if refused is None or not refused.any():
            return None
        return Steady(np.where(refused, np.int8(Verdict.HOPELESS), np.int8(Verdict.ACCEPTS)))

    def yielding(self) -> NDArray[np.bool_] | None:
        """Tell which of the rows that it refuses could accept the pod with fewer pods on them.

        Returns: shape (capacity,), of no meaning where it accepts the pod; None: no row.
        """
        return None

    def refused_when_empty(self) -> NDArray[np.bool_] | None:
        """Tell which rows would refuse the pod if no pod were bound anywhere, shape (capacity,)."""
        return self.refused(ALL_ROWS)

    @property
    def rejects_pod(self) -> bool:
        """Whether the pod is refused before any node is looked at: then this filter stands for every node."""
        return False

    def ruled_out(self) -> NDArray[np.bool_] | None:
        """Tell which rows are ruled out before any filter runs, shape (capacity,); None: none."""
        return None

    def note(self, change: Change) -> None:  # noqa: B027  (most filters follow no pods)
        """Take notice of a bound or removed pod."""

    def note_batch(self, batch: ChangeBatch) -> None:
        """Take notice of many bound or removed pods."""
        for change in batch.changes:
            self.note(change)

    def settle(self) -> NDArray[np.intp] | None:
        """Return the rows that the noted changes touched; None: all."""
        return NO_ROWS

    @abstractmethod
    def reason(self, row: int) -> str:
        """Say why a row that is refused is refused."""
