"""What the preemptor needs of its surroundings, and its limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from stowplan.core.domain import ClusterState, DisruptionBudget
from stowplan.core.preemption import SearchSettings
from stowplan.kube.live.pod import LivePod
from stowplan.serve.sections import PreemptionConfig

__all__ = ["Cluster", "PreemptorSettings"]


class Cluster(Protocol):
    """The live cluster, as the preemptor uses it; `kube.live`'s ClusterFeed is one."""

    @property
    def state(self) -> ClusterState:
        """The cluster; it is only read here."""
        ...

    @property
    def pods(self) -> Mapping[str, LivePod]:
        """All pods by key."""
        ...

    @property
    def budgets(self) -> Mapping[str, DisruptionBudget]:
        """All disruption budgets by key."""
        ...

    def is_assumed(self, pod: LivePod) -> bool:
        """Tell whether the pod has a node by our belief alone."""
        ...

    def nominate(self, pod: LivePod, node_name: str) -> None:
        """Note that the API server has taken in for which node a pod is nominated; "" for none."""
        ...


@dataclass(frozen=True, slots=True)
class PreemptorSettings:
    """Limits of a preemptor.

    Attributes:
        search: how far to look for a node to empty.
        requests: how many pods are being ended at once.
        within_s: a pod that cannot be ended is tried again for so many seconds.
        first_pause_s, longest_pause_s: pauses between tries.
    """

    search: SearchSettings = field(default_factory=SearchSettings)
    requests: int = 16
    within_s: float = 10.0
    first_pause_s: float = 0.1
    longest_pause_s: float = 2.0

    @classmethod
    def of(cls, config: PreemptionConfig) -> PreemptorSettings:
        """Return the limits that the configuration sets."""
        return cls(
            SearchSettings(config.percent_of_nodes, config.minimum_nodes),
            requests=config.requests,
            within_s=config.within_s,
            first_pause_s=config.first_pause_s,
            longest_pause_s=config.longest_pause_s,
        )
