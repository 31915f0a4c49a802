"""VolumeRestrictions: disks and claims that another pod already holds.

Semantics: kube-scheduler 1.37 `volumerestrictions/volume_restrictions.go`. Two pods on one node conflict
over an inline EBS disk always, and over an inline GCE disk, iSCSI target or RBD image unless both mount it
read-only (RBD images are one when pool and image are equal and a monitor is in common). A claim with access
mode ReadWriteOncePod that any bound pod uses refuses every node, and so does a claim that does not exist.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from stowplan.core.constraints.filter import NO_ROWS, NodeFilter, Rows, row_numbers
from stowplan.core.constraints.journal import ChangeBatch
from stowplan.core.constraints.trial import MovingPods, RowByRow, RowTrial, Trial, Verdict
from stowplan.core.domain import (
    AccessMode,
    BoundPod,
    Change,
    ChangeKind,
    ClusterState,
    InlineDisk,
    PodShape,
)

__all__ = ["VolumeRestrictions"]


def _is_conflict(wanted: InlineDisk, held: InlineDisk) -> bool:
    if wanted.kind != held.kind or wanted.identity != held.identity:
        return False
    if wanted.kind == "awsElasticBlockStore":
        return True
    if wanted.read_only and held.read_only:
        return False
    return wanted.kind != "rbd" or not set(wanted.monitors).isdisjoint(held.monitors)


class VolumeRestrictions(NodeFilter):
    """A disk or a claim of the pod is in use in a way that excludes it."""

    name: ClassVar[str] = "VolumeRestrictions"
    watches: ClassVar[ChangeKind] = ChangeKind.STORAGE
    follows_pods: ClassVar[bool] = True

    def __init__(self, state: ClusterState, shape: PodShape) -> None:
        """Collect the pod's disks and claims."""
        super().__init__(state, shape)
        self._disks = [volume.disk for volume in shape.volumes if volume.disk is not None]
        self._claims = [
            volume.claim for volume in shape.volumes if volume.claim is not None and not volume.is_ephemeral
        ]
        self._missing: list[str] = []
        self._exclusive: set[str] = set()
        self._is_claim_in_use = False
        self._conflicts: NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        self._weight_of: dict[PodShape, int] = {}
        self._touched: list[int] = []
        self._is_everywhere = False

    @staticmethod
    def is_needed(shape: PodShape) -> bool:
        """Tell whether the shape has a volume that this filter is about."""
        return any(
            volume.disk is not None or (volume.claim is not None and not volume.is_ephemeral)
            for volume in shape.volumes
        )

    def compile(self) -> None:
        """Look up the claims and count the conflicting disks of each node."""
        state, namespace = self._state, self._shape.namespace
        self._missing, self._exclusive = [], set()
        for name in self._claims:
            claim = state.storage.claims.get((namespace, name))
            if claim is None:
                self._missing.append(name)
            elif AccessMode.READ_WRITE_ONCE_POD in claim.access_modes:
                self._exclusive.add(name)
        self._is_claim_in_use = self._look_for_use()
        self._conflicts = np.zeros(state.capacity, dtype=np.int32)
        if self._disks:
            for held, counter in state.index.disks.items():
                weight = sum(_is_conflict(wanted, held) for wanted in self._disks)
                if weight:
                    rows, counts = counter.arrays()
                    self._conflicts[rows] += weight * counts.astype(np.int32)

    def _look_for_use(self) -> bool:
        used = self._state.index.direct_claims
        return any((self._shape.namespace, name) in used for name in self._exclusive)

    def refused(self, rows: Rows) -> NDArray[np.bool_] | None:
        """Refuse nodes with a conflict, or all of them."""
        if self._missing or self._is_claim_in_use:
            return np.ones(len(row_numbers(self._state, rows)), dtype=np.bool_)
        return self._conflicts[rows] > 0

    def refuses(self, row: int) -> bool:
        """Tell whether one row is refused."""
        return bool(self._missing) or self._is_claim_in_use or bool(self._conflicts[row] > 0)

    def trial(self, rows: NDArray[np.intp], pods: MovingPods) -> Trial | None:
        """Return the conflicts on some rows.

        As kube-scheduler does, other pods' claims are only looked at when the filter is not skipped for this
        pod: it names a disk, or a claim is in use already.
        """
        if self._missing:
            return super().trial(rows, pods)
        if not (self._disks or self._is_claim_in_use):
            return None
        used = self._state.index.direct_claims
        in_use = sum((self._shape.namespace, name) in used for name in self._exclusive)
        conflicts = self._conflicts[rows].tolist()
        return RowByRow([_UseTrial(self, self._exclusive, in_use, count) for count in conflicts], pods)

    def yielding(self) -> NDArray[np.bool_] | None:
        """Every row, unless a claim is missing."""
        return None if self._missing else np.ones(self._state.capacity, dtype=np.bool_)

    def conflicts_of(self, shape: PodShape) -> int:
        """Return in how many ways the disks of a pod conflict with those of this one."""
        weight = self._weight_of.get(shape)
        if weight is None:
            weight = self._weight_of[shape] = sum(
                _is_conflict(wanted, volume.disk)
                for volume in shape.volumes
                if volume.disk is not None
                for wanted in self._disks
            )
        return weight

    @property
    def rejects_pod(self) -> bool:
        """Whether a claim does not exist."""
        return bool(self._missing)

    def refused_when_empty(self) -> NDArray[np.bool_] | None:
        """Only a missing claim stays in the way."""
        return np.full(self._state.capacity, bool(self._missing))

    def note(self, change: Change) -> None:
        """Count the disks and claims of the pod."""
        shape = change.shape
        if shape is None or not shape.volumes:
            return
        weight = self.conflicts_of(shape)
        if weight:
            self._conflicts[change.row] += change.by * weight
            self._touched.append(change.row)
        if self._exclusive:
            is_in_use = self._look_for_use()
            self._is_everywhere |= is_in_use != self._is_claim_in_use
            self._is_claim_in_use = is_in_use

    def note_batch(self, batch: ChangeBatch) -> None:
        """Count the disks and claims of the pods that have volumes."""
        for number in np.flatnonzero(batch.volumes >= 0):
            self.note(batch.changes[number])

    def settle(self) -> NDArray[np.intp] | None:
        """Return the rows whose conflicts changed."""
        if self._is_everywhere:
            self._is_everywhere = False
            self._touched.clear()
            return None
        if not self._touched:
            return NO_ROWS
        rows = np.array(self._touched, dtype=np.intp)
        self._touched.clear()
        return rows

    def reason(self, row: int) -> str:
        """Name what is missing, in use, or in conflict."""
        namespace = self._shape.namespace
        if self._missing:
            return f"PersistentVolumeClaim {namespace}/{self._missing[0]} does not exist"
        if self._is_claim_in_use:
            used = [n for n in sorted(self._exclusive) if (namespace, n) in self._state.index.direct_claims]
            return f"claim {namespace}/{used[0]} is ReadWriteOncePod and another pod uses it"
        for wanted in self._disks:
            for key, pod in self._state.pods_on[row].items():
                if any(v.disk is not None and _is_conflict(wanted, v.disk) for v in pod.shape.volumes):
                    return f"{wanted.kind} {'/'.join(wanted.identity)} is mounted by pod {key}"
        return "a disk of the pod is mounted by another pod"


class _UseTrial(RowTrial):
    """Disks on the row that conflict, and exclusive claims in use.

    Of other pods' claims kube-scheduler compares the names alone, whatever their namespace.
    """

    __slots__ = ("_conflicts", "_exclusive", "_in_use", "_use")

    def __init__(self, use: VolumeRestrictions, exclusive: set[str], in_use: int, conflicts: int) -> None:
        self._use = use
        self._exclusive = exclusive
        self._in_use = in_use
        self._conflicts = conflicts

    def count(self, pod: BoundPod, by: int) -> None:
        if pod.shape.volumes:
            self._conflicts += by * self._use.conflicts_of(pod.shape)
            self._in_use += by * sum(
                volume.claim in self._exclusive and not volume.is_ephemeral for volume in pod.shape.volumes
            )

    def verdict(self) -> Verdict:
        return Verdict.REFUSES if self._conflicts > 0 or self._in_use > 0 else Verdict.ACCEPTS
