"""NodeVolumeLimits: how many volumes of a CSI driver a node can attach.

Semantics: kube-scheduler 1.37 `nodevolumelimits/csi.go`. A volume is (driver, handle), counted once per
node however many pods use it; a claim that is not bound yet counts under its class's provisioner. Volumes
of in-tree plugins count under the driver that replaced them, on nodes with a CSINode. VolumeAttachments
that no pod on the node accounts for count too. By the gate VolumeLimitScaling (on by default in 1.37), a
driver that asks for it must also be installed on the node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.constraints.filter import NodeFilter, Rows, row_numbers
from stowplan.core.constraints.journal import journal_of
from stowplan.core.constraints.storage_tables import storage_tables
from stowplan.core.constraints.trial import MovingPods, RowByRow, RowTrial, Trial, Verdict
from stowplan.core.domain import BoundPod, ChangeKind, ClusterState, CsiNode, PodShape

__all__ = ["MIGRATED_DRIVER_OF", "NodeVolumeLimits"]

MIGRATED_DRIVER_OF: Final = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
}
"""In-tree plugins whose volumes count under a CSI driver, and that driver."""

_UNCOUNTED: Final = ("kubernetes.io/azure-file", "kubernetes.io/vsphere-volume")
"""In-tree plugins that have moved to CSI but whose volumes the scheduler does not count."""

_Volume = tuple[str, str]  # (driver, handle)


class NodeVolumeLimits(NodeFilter):
    """The node cannot attach the pod's volumes beside those it has."""

    name: ClassVar[str] = "NodeVolumeLimits"
    watches: ClassVar[ChangeKind] = ChangeKind.STORAGE
    follows_pods: ClassVar[bool] = True

    def __init__(self, state: ClusterState, shape: PodShape) -> None:
        """Bind to a state and a shape."""
        super().__init__(state, shape)
        self._error = ""
        self._wanted: dict[_Volume, bool] = {}  # volume → whether only nodes with a CSINode count it
        self._required_drivers: set[str] = set()
        self._volume_of: dict[tuple[str, str], tuple[_Volume, bool] | None] = {}

    @staticmethod
    def is_needed(shape: PodShape) -> bool:
        """Tell whether the shape has a volume that could count."""
        return any(volume.claim is not None or volume.csi_driver is not None for volume in shape.volumes)

    def compile(self) -> None:
        """Find out which volumes the pod adds, and what is attached."""
        storage, shape = self._state.storage, self._shape
        self._error, self._wanted, self._required_drivers = "", {}, set()
        self._volume_of.clear()
        for volume in shape.volumes:
            if volume.claim is not None:
                claim = storage.claims.get((shape.namespace, volume.claim))
                if claim is None:
                    self._error = f"PersistentVolumeClaim {shape.namespace}/{volume.claim} does not exist"
                    return
                if volume.is_ephemeral and not claim.is_made_for(volume.pod_uid):
                    self._error = f"claim {shape.namespace}/{volume.claim} was not made for this pod"
                    return
                found = self._resolve(shape.namespace, volume.claim)
                if found is not None:
                    self._wanted[found[0]] = self._wanted.get(found[0], True) and found[1]
            elif volume.csi_driver is not None:
                if volume.csi_handle is None:
                    self._error = (
                        f"volume {volume.name!r} cannot be translated to CSI driver {volume.csi_driver}"
                    )
                    return
                self._wanted.setdefault((volume.csi_driver, volume.csi_handle), True)
        for driver, _ in self._wanted:
            described = storage.csi_drivers.get(driver)
            if described is not None and described.must_be_on_node:
                self._required_drivers.add(driver)

    def _resolve(self, namespace: str, name: str) -> tuple[_Volume, bool] | None:
        """Return a claim's volume and whether only nodes with a CSINode count it; None: it does not count."""
        key = (namespace, name)
        if key not in self._volume_of:
            self._volume_of[key] = self._look_up(namespace, name)
        return self._volume_of[key]

    def _look_up(self, namespace: str, name: str) -> tuple[_Volume, bool] | None:
        storage = self._state.storage
        claim = storage.claims.get((namespace, name))
        if claim is None:
            return None
        volume = storage.volumes.get(claim.volume) if claim.volume else None
        if volume is not None:
            if volume.csi_driver is None or not volume.csi_handle:
                return None
            return (volume.csi_driver, volume.csi_handle), volume.in_tree_plugin is not None
        described = storage.classes.get(claim.storage_class or "")
        if described is None or not described.provisioner or described.provisioner in _UNCOUNTED:
            return None
        handle = f"unbound {namespace}/{name}"
        migrated = MIGRATED_DRIVER_OF.get(described.provisioner)
        if migrated is not None:
            return (migrated, handle), True
        return (described.provisioner, handle), False

    def _held_by(self, pods: Iterable[BoundPod]) -> set[_Volume]:
        """Return the volumes that pods use."""
        held: set[_Volume] = set()
        for pod in pods:
            for volume in pod.shape.volumes:
                if volume.claim is not None:
                    found = self._resolve(pod.shape.namespace, volume.claim)
                    if found is not None:
                        held.add(found[0])
                elif volume.csi_driver is not None and volume.csi_handle is not None:
                    held.add((volume.csi_driver, volume.csi_handle))
        return held

    def _has_foreign_claim(self, pod: BoundPod) -> bool:
        """Tell whether the claim of an ephemeral volume of `pod` is another's: it cannot be counted."""
        for volume in pod.shape.volumes:
            if volume.is_ephemeral and volume.claim is not None:
                claim = self._state.storage.claims.get((pod.shape.namespace, volume.claim))
                if claim is not None and not claim.is_made_for(volume.pod_uid):
                    return True
        return False

    def refused(self, rows: Rows) -> NDArray[np.bool_] | None:
        """Refuse nodes that cannot attach them."""
        numbers = row_numbers(self._state, rows)
        if self._error:
            return np.ones(len(numbers), dtype=np.bool_)
        if not self._wanted:
            return None
        refused = np.zeros(len(numbers), dtype=np.bool_)
        csi_nodes = self._state.storage.csi_nodes
        for place in np.flatnonzero(self._could_be_full()[numbers] & self._state.is_node[numbers]):
            row = int(numbers[place])
            name = self._state.node(row).name
            refused[place] = self._problem(row, name, csi_nodes.get(name)) is not None
        return refused

    def _could_be_full(self) -> NDArray[np.bool_]:
        """Tell which rows need a closer look, shape (capacity,).

        A row attaches at most one volume per volume of its pods, and those of its attachments.
        """
        tables = storage_tables(self._state)
        used = journal_of(self._state).mounts + tables.attached_count
        could = np.zeros(self._state.capacity, dtype=np.bool_)
        for driver in {driver for driver, _ in self._wanted}:
            limit = tables.limits.get(driver)
            if limit is not None:
                could |= used + sum(other == driver for other, _ in self._wanted) > limit
        for driver in self._required_drivers:
            is_installed = tables.is_installed.get(driver)
            could |= True if is_installed is None else ~is_installed
        return could

    def refuses(self, row: int) -> bool:
        """Tell whether one row cannot attach them."""
        if self._error:
            return True
        node = self._state.nodes[row]
        if not self._wanted or node is None:
            return False
        return self._problem(row, node.name, self._state.storage.csi_nodes.get(node.name)) is not None

    def trial(self, rows: NDArray[np.intp], pods: MovingPods) -> Trial | None:
        """Return the volumes on some rows."""
        if self._error:
            return super().trial(rows, pods)
        if not self._wanted:
            return None
        numbers: list[int] = rows.tolist()
        trials = [_VolumesTrial(self, row, self._state.pods_on[row]) for row in numbers]
        return RowByRow(trials, pods)

    def yielding(self) -> NDArray[np.bool_] | None:
        """Every row, unless a claim cannot be counted."""
        return None if self._error else np.ones(self._state.capacity, dtype=np.bool_)

    def refuses_with(self, row: int, pods: Mapping[str, BoundPod]) -> bool:
        """Tell whether one row cannot attach them if `pods`, by key, were those that run there."""
        node = self._state.node(row)
        csi_node = self._state.storage.csi_nodes.get(node.name)
        return self._problem(row, node.name, csi_node, pods=pods) is not None

    def _problem(
        self,
        row: int,
        node_name: str,
        csi_node: CsiNode | None,
        *,
        is_empty: bool = False,
        pods: Mapping[str, BoundPod] | None = None,
    ) -> str | None:
        wanted = {
            volume for volume, needs_node in self._wanted.items() if csi_node is not None or not needs_node
        }
        if not wanted:
            return None
        limits = dict(csi_node.limits) if csi_node is not None else {}
        for driver in sorted({driver for driver, _ in wanted} & self._required_drivers):
            if driver not in limits:
                return f"CSI driver {driver} is not installed on the node"
        bounded = {driver: limit for driver, limit in limits.items() if limit is not None}
        if not bounded:
            return None
        here = self._state.pods_on[row]
        if pods is not None:
            if any(self._has_foreign_claim(pod) for key, pod in pods.items() if key not in here):
                return "a pod that is nominated for this node has a claim that was not made for it"
            here = pods
        held = set[_Volume]() if is_empty else self._held_by(here.values())
        new = wanted - held
        if not is_empty:
            held |= storage_tables(self._state).attached.get(node_name, set())
        return _excess(new, held, bounded)

    def refused_when_empty(self) -> NDArray[np.bool_] | None:
        """Refuse nodes that could not attach them even if they had none."""
        if self._error:
            return np.ones(self._state.capacity, dtype=np.bool_)
        if not self._wanted:
            return None
        refused = np.zeros(self._state.capacity, dtype=np.bool_)
        for name, row in self._state.rows():
            csi_node = self._state.storage.csi_nodes.get(name)
            refused[row] = self._problem(row, name, csi_node, is_empty=True) is not None
        return refused

    def reason(self, row: int) -> str:
        """Name the driver and its count."""
        if self._error:
            return self._error
        node = self._state.node(row)
        csi_node = self._state.storage.csi_nodes.get(node.name)
        return self._problem(row, node.name, csi_node) or "too many volumes"


class _VolumesTrial(RowTrial):
    """The pods of one row, whose volumes are counted when it is asked."""

    __slots__ = ("_limits", "_pods", "_row")

    def __init__(self, limits: NodeVolumeLimits, row: int, pods: Mapping[str, BoundPod]) -> None:
        self._limits = limits
        self._row = row
        self._pods = dict(pods)

    def count(self, pod: BoundPod, by: int) -> None:
        if by > 0:
            self._pods[pod.key] = pod
        else:
            del self._pods[pod.key]

    def verdict(self) -> Verdict:
        return Verdict.REFUSES if self._limits.refuses_with(self._row, self._pods) else Verdict.ACCEPTS


def _excess(new: set[_Volume], held: set[_Volume], bounded: dict[str, int]) -> str | None:
    """Say which driver cannot attach `new` volumes beside those `held`; None: all can."""
    for driver in sorted({driver for driver, _ in new} & bounded.keys()):
        limit = bounded[driver]
        attached = sum(other == driver for other, _ in held)
        added = sum(other == driver for other, _ in new)
        if attached + added > limit:
            return f"{driver} attaches at most {limit} volumes here; {attached} are, the pod adds {added}"
    return None
