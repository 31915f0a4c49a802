"""What a test cluster consists of, as plain values: real nodes, fake nodes, services beside them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from testbed.errors import MissingPrerequisite

GIB = 1 << 30

Json = dict[str, Any]


_TAINT = re.compile(r"(?P<key>[^=:]+)(=(?P<value>[^=:]*))?:(?P<effect>NoSchedule|PreferNoSchedule|NoExecute)")


def taint(text: str) -> Json:
    """A taint as manifests have it, from `key=value:Effect` or `key:Effect`.

    Raises:
        MissingPrerequisite: It is not of that form.
    """
    found = _TAINT.fullmatch(text)
    if found is None:
        raise MissingPrerequisite(
            f"{text!r} is no taint: write key=value:Effect, with NoSchedule, PreferNoSchedule or NoExecute"
        )
    return {name: value for name, value in found.groupdict().items() if value}


@dataclass(frozen=True, kw_only=True)
class RealNode:
    """A node with a kubelet, a container runtime and real pods, held to a share of this machine.

    Attributes:
        cpus: Cores that its pods may use together, enforced by a CPU quota; also what it reports as
            allocatable.
        memory_bytes: Memory of its pods together, enforced by a limit; also what it reports as allocatable.
        max_pods: Pods that it accepts.
        disk_read_bytes_per_s: Limit of its pods' reads from the machine's disk; none where the kernel cannot.
        disk_write_bytes_per_s: The same for writes that bypass the page cache.
        labels: Labels beside those that the kubelet sets.
        taints: Taints from the start, as `key=value:Effect`.
    """

    cpus: float = 1.0
    memory_bytes: int = 4 * GIB
    max_pods: int = 110
    disk_read_bytes_per_s: int | None = None
    disk_write_bytes_per_s: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    taints: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FakeNodes:
    """A number of equal nodes that kwok plays: no kubelet, no containers, only their life in the API.

    Attributes:
        prefix: Nodes are named `PREFIX-00000` and so on.
        zones: They are spread over so many zones, `zone-0` and so on, in turn.
        allocatable: Quantities by resource name.
        labels: Labels of each.
        taints: Taints of each, as `key=value:Effect`. By default pods that mean real nodes stay away.
    """

    count: int
    prefix: str = "kwok"
    zones: int = 3
    allocatable: Mapping[str, str] = field(
        default_factory=lambda: {"cpu": "32", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "110"}
    )
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    taints: tuple[str, ...] = ("kwok.x-k8s.io/node=fake:NoSchedule",)


@dataclass(frozen=True, kw_only=True)
class ClusterSpec:
    """A whole test cluster.

    Attributes:
        real_nodes: Named `node-1` and so on, in this order.
        fake_nodes: Groups of fake nodes, each with a prefix of its own.
        scheduler: Fields of KubeSchedulerConfiguration laid over ours (extenders, profiles, …); None runs no
            scheduler at all.
        argo: Whether the Argo Workflows controller runs.
        prometheus: Whether Prometheus runs, and a node exporter on each real node.
        delay_s: One-way delay between any two real nodes, made by a relay.
        images: Images of the catalogue that each real node has from the start.
        audit: Whether the API server writes down every binding (see `testbed.audit`).
    """

    real_nodes: tuple[RealNode, ...] = ()
    fake_nodes: tuple[FakeNodes, ...] = ()
    scheduler: Json | None = field(default_factory=dict[str, Any])
    argo: bool = False
    prometheus: bool = False
    delay_s: float = 0.0
    images: tuple[str, ...] = ("pause", "busybox", "load")
    audit: bool = False

    def fake_count(self) -> int:
        """Fake nodes of all groups together."""
        return sum(group.count for group in self.fake_nodes)
