"""What a pod asks of a node: everything that decides where it may run, and nothing else.

Pods of one template share one `PodShape` object, equal shapes are equal by content, and the scheduler scores
each shape once a cycle however many pods wait with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import StrEnum

from stowplan.core.domain.resources import Resources
from stowplan.core.domain.selectors import Labels, LabelSelector, NodeSelectorTerm, Requirement

__all__ = [
    "GpuRequest",
    "HostPort",
    "InlineDisk",
    "NodeAffinity",
    "PodAffinityTerm",
    "PodShape",
    "PodVolume",
    "PreferredNodeTerm",
    "SpreadConstraint",
    "Taint",
    "TaintEffect",
    "Toleration",
    "TolerationOperator",
    "WeightedPodAffinityTerm",
    "WhenUnsatisfiable",
]


class TaintEffect(StrEnum):
    """What an untolerated taint does."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


class TolerationOperator(StrEnum):
    """How a toleration compares with a taint's value."""

    EQUAL = "Equal"
    EXISTS = "Exists"
    GT = "Gt"
    LT = "Lt"


class WhenUnsatisfiable(StrEnum):
    """Whether a spread constraint filters nodes or only scores them."""

    DO_NOT_SCHEDULE = "DoNotSchedule"
    SCHEDULE_ANYWAY = "ScheduleAnyway"


@dataclass(frozen=True, slots=True, order=True)
class Taint:
    """A mark on a node that repels pods without a matching toleration."""

    key: str
    value: str
    effect: TaintEffect


@dataclass(frozen=True, slots=True)
class Toleration:
    """Lets a pod onto nodes with matching taints.

    An empty key with `Exists` matches every taint, effect None every effect.
    """

    key: str = ""
    operator: TolerationOperator = TolerationOperator.EQUAL
    value: str = ""
    effect: TaintEffect | None = None


@dataclass(frozen=True, slots=True)
class PreferredNodeTerm:
    """A node selector term that adds `weight` (1–100) to the score of matching nodes."""

    weight: int
    term: NodeSelectorTerm


@dataclass(frozen=True, slots=True)
class NodeAffinity:
    """Required terms (any of them; None: no requirement, empty: no node) and preferred ones."""

    required: tuple[NodeSelectorTerm, ...] | None = None
    preferred: tuple[PreferredNodeTerm, ...] = ()


@dataclass(frozen=True, slots=True)
class PodAffinityTerm:
    """A relation to other pods within one topology domain.

    `selector` None matches no pod. `namespaces` empty and `namespace_selector` None mean the pod's own
    namespace; an empty `namespace_selector` means all. `match_label_keys` and `mismatch_label_keys` are
    already merged into `selector` for pods read from an API server (it does so at creation) and by our reader
    for pods from files.
    """

    topology_key: str
    selector: LabelSelector | None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None


@dataclass(frozen=True, slots=True)
class WeightedPodAffinityTerm:
    """A preferred affinity (or anti-affinity) term with a weight of 1–100."""

    weight: int
    term: PodAffinityTerm


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """A topology spread constraint (KEP-895 and its extensions).

    `honor_node_affinity` and `honor_node_taints` are the node inclusion policies (API defaults: Honor and
    Ignore). `selector` already contains the requirements from `matchLabelKeys`; None matches no pod.
    """

    max_skew: int
    topology_key: str
    when_unsatisfiable: WhenUnsatisfiable
    selector: LabelSelector | None
    min_domains: int = 1
    honor_node_affinity: bool = True
    honor_node_taints: bool = False


@dataclass(frozen=True, slots=True, order=True)
class HostPort:
    """A port of the node that the pod occupies; `host_ip` "0.0.0.0" means every address."""

    protocol: str
    host_ip: str
    port: int


@dataclass(frozen=True, slots=True)
class InlineDisk:
    """A disk named in the pod itself that kube-scheduler keeps from conflicting use (VolumeRestrictions).

    `kind` is `gcePersistentDisk`, `awsElasticBlockStore`, `iscsi` or `rbd`; `identity` the fields that make
    two of them one disk (for rbd also the monitors, any of which in common means the same cluster).
    """

    kind: str
    identity: tuple[str, ...]
    read_only: bool
    monitors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PodVolume:
    """A volume of the pod that bears on placement.

    Either `claim` is set (the name of a PersistentVolumeClaim in the pod's namespace), or at least one of
    `disk` and `csi_driver`. `is_ephemeral` marks a claim made from the pod's own template: it must be owned
    by the pod, whose uid is then in `pod_uid`. `csi_driver` and `csi_handle` are the CSI volume that an
    inline disk of a migrated in-tree plugin stands for (it counts towards the node's limit); a handle of None
    is one that cannot be translated. Inline volumes of CSI drivers do not count and are left out.
    """

    name: str
    claim: str | None = None
    is_ephemeral: bool = False
    disk: InlineDisk | None = None
    csi_driver: str | None = None
    csi_handle: str | None = None
    pod_uid: str = ""


@dataclass(frozen=True, slots=True)
class GpuRequest:
    """GPUs as a sharing cluster counts them: `count` devices, `milli` thousandths of each.

    1000 asks for whole devices. A share of less than a whole device needs `count` 1. `models` limits the GPU
    model, empty accepts any.
    """

    count: int
    milli: int = 1000
    models: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PodShape:
    """Everything about a pod that decides where it may run and how well it fits there.

    `requests` is what kube-scheduler counts (containers, sidecars, init containers, overhead, pod-level
    resources); it does not include the pod itself, of which every node takes a limited number.
    `score_cpu_milli` and `score_memory_bytes` are the requests used in scoring, where a container without a
    request counts as 100 milli-cores and 200 MiB. `default_spread_selector` selects the pods that the
    Services and the controller of this pod select; pods without spread constraints of their own are scored
    with the cluster's default constraints on it (None: there are none). `required_features` are the node
    features that the pod's spec needs (`Node.declared_features`). `template` names the workflow template
    that made the pod. `pending_score` are the milli-cores and bytes by which kube-scheduler scores the pod
    while it is pending, where they differ from the two above, which it counts once the pod is bound (None:
    the same). `own_nomination` is the key of a pod that is nominated for a node, which it leaves free for
    itself; empty for all others.
    """

    namespace: str = "default"
    labels: Labels = ()
    requests: Resources = field(default_factory=Resources)
    score_cpu_milli: int = 100
    score_memory_bytes: int = 200 * 1024 * 1024
    gpu: GpuRequest | None = None
    node_name: str | None = None
    node_selector: tuple[Requirement, ...] = ()
    node_affinity: NodeAffinity = field(default_factory=NodeAffinity)
    affinity: tuple[PodAffinityTerm, ...] = ()
    anti_affinity: tuple[PodAffinityTerm, ...] = ()
    preferred_affinity: tuple[WeightedPodAffinityTerm, ...] = ()
    preferred_anti_affinity: tuple[WeightedPodAffinityTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    volumes: tuple[PodVolume, ...] = ()
    images: tuple[str, ...] = ()
    scheduling_gates: tuple[str, ...] = ()
    resource_claims: tuple[str, ...] = ()
    priority: int = 0
    scheduler_name: str = "default-scheduler"
    host_network: bool = False
    default_spread_selector: LabelSelector | None = None
    required_features: tuple[str, ...] = ()
    template: str = ""
    pending_score: tuple[int, int] | None = None
    own_nomination: str = ""
    _hash: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Hash once: shapes are dictionary keys in every cycle."""
        object.__setattr__(self, "_hash", hash(self._content()))

    def _content(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in _CONTENT)

    def __hash__(self) -> int:
        """Return the hash by content, computed once."""
        return self._hash

    def __reduce__(self) -> tuple[object, ...]:
        """Rebuild by content: string hashes, and so the cached one, differ between processes."""
        return (PodShape, self._content())


_CONTENT = tuple(item.name for item in fields(PodShape) if item.init)
