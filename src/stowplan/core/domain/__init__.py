"""What the scheduler reasons about: quantities, nodes, pods, workflows, the cluster and its snapshots."""

from stowplan.core.domain.columns import ABSENT, LabelColumn, RowCounter
from stowplan.core.domain.events import (
    BoundPod,
    ClusterEvent,
    NamespaceSet,
    NodeRemoved,
    NodeSet,
    PodBound,
    PodRemoved,
    StorageRemoved,
    StorageSet,
)
from stowplan.core.domain.node import (
    HOSTNAME_LABEL,
    MACHINE_TYPE_LABEL,
    RACK_LABEL,
    ZONE_LABEL,
    Disk,
    Gpu,
    Hardware,
    Node,
)
from stowplan.core.domain.pod import (
    GpuRequest,
    HostPort,
    InlineDisk,
    NodeAffinity,
    PodAffinityTerm,
    PodShape,
    PodVolume,
    PreferredNodeTerm,
    SpreadConstraint,
    Taint,
    TaintEffect,
    Toleration,
    TolerationOperator,
    WeightedPodAffinityTerm,
    WhenUnsatisfiable,
)
from stowplan.core.domain.pod_index import PodGroup, PodIndex, TermOwner
from stowplan.core.domain.progress import PendingTask, RunningTask, TaskStatus, WorkflowProgress
from stowplan.core.domain.quantity import milli_value, parse_quantity, value
from stowplan.core.domain.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Resources, describe_amount
from stowplan.core.domain.selectors import (
    Labels,
    LabelSelector,
    NodeSelectorTerm,
    Operator,
    Requirement,
    freeze_labels,
)
from stowplan.core.domain.snapshot import Snapshot, SnapshotPool
from stowplan.core.domain.state import CPU_COLUMN, MEMORY_COLUMN, PODS_COLUMN, Change, ChangeKind, ClusterState
from stowplan.core.domain.storage_index import StorageIndex
from stowplan.core.domain.volumes import (
    AccessMode,
    BindingMode,
    CsiCapacity,
    CsiNode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from stowplan.core.domain.work import Phase, WorkProfile
from stowplan.core.domain.workflow import Task, Workflow

__all__ = [
    "ABSENT", "CPU", "CPU_COLUMN", "EPHEMERAL_STORAGE", "HOSTNAME_LABEL", "MACHINE_TYPE_LABEL", "MEMORY", "MEMORY_COLUMN",
    "PODS", "PODS_COLUMN", "RACK_LABEL", "ZONE_LABEL", "AccessMode", "BindingMode", "BoundPod", "Change", "ChangeKind",
    "ClusterEvent", "ClusterState", "CsiCapacity", "CsiNode", "Disk", "Gpu", "GpuRequest", "Hardware", "HostPort", "InlineDisk",
    "LabelColumn", "LabelSelector", "Labels", "NamespaceSet", "Node", "NodeAffinity", "NodeRemoved", "NodeSelectorTerm",
    "NodeSet", "Operator", "PersistentVolume", "PersistentVolumeClaim", "PendingTask", "Phase", "PodAffinityTerm", "PodBound", "PodGroup",
    "PodIndex", "PodRemoved", "PodShape", "PodVolume", "PreferredNodeTerm", "Requirement", "Resources", "RowCounter", "RunningTask", "Snapshot",
    "SnapshotPool", "SpreadConstraint", "StorageClass", "StorageIndex", "StorageRemoved", "StorageSet", "Taint",
    "TaintEffect", "Task", "TaskStatus", "TermOwner", "Toleration", "TolerationOperator", "WeightedPodAffinityTerm", "WhenUnsatisfiable",
    "WorkProfile", "Workflow", "WorkflowProgress", "describe_amount", "freeze_labels", "milli_value", "parse_quantity", "value",
]  # fmt: skip
