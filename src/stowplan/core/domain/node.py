"""A node as Kubernetes describes it, and as physics does."""

from __future__ import annotations

from dataclasses import dataclass, field

from stowplan.core.domain.pod import Taint
from stowplan.core.domain.resources import Resources
from stowplan.core.domain.selectors import Labels

__all__ = [
    "HOSTNAME_LABEL",
    "MACHINE_TYPE_LABEL",
    "RACK_LABEL",
    "ZONE_LABEL",
    "Disk",
    "Gpu",
    "Hardware",
    "Node",
]

HOSTNAME_LABEL = "kubernetes.io/hostname"
ZONE_LABEL = "topology.kubernetes.io/zone"
RACK_LABEL = "topology.stowplan.io/rack"
MACHINE_TYPE_LABEL = "node.kubernetes.io/instance-type"


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU: its model and the PCIe root complex that it hangs off."""

    model: str
    root_complex: str = ""


@dataclass(frozen=True, slots=True)
class Disk:
    """A disk with a token bucket: `burst_*` holds while credits last, `base_*` when the bucket is empty.

    With no bucket (`credits_bytes` 0) the base rate always holds. Rates are bytes per second and operations
    per second.
    """

    base_bytes_per_s: float
    base_iops: float
    burst_bytes_per_s: float = 0.0
    burst_iops: float = 0.0
    credits_bytes: float = 0.0


@dataclass(frozen=True, slots=True)
class Hardware:
    """What the machine can really do. Zero means: not known, and then it limits nothing.

    `machine_type` selects the task × machine factors of the heterogeneity law.
    """

    cores: float = 0.0
    dram_bytes_per_s: float = 0.0
    nic_up_bytes_per_s: float = 0.0
    nic_down_bytes_per_s: float = 0.0
    pcie_bytes_per_s: float = 0.0
    disks: tuple[Disk, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    machine_type: str = ""


@dataclass(frozen=True, slots=True)
class Node:
    """A Kubernetes node. `allocatable` includes `pods`, the number of pods it takes."""

    name: str
    allocatable: Resources
    labels: Labels = ()
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    images: tuple[tuple[str, int], ...] = ()  # (image name, size in bytes)
    hardware: Hardware = field(default_factory=Hardware)
    declared_features: tuple[str, ...] = ()  # status.declaredFeatures: what the kubelet says it can do

    def label(self, key: str) -> str | None:
        """Return the value of label `key`, or None."""
        return dict(self.labels).get(key)
