"""VolumeBinding: every claim of the pod has, or can get, a volume that the node reaches.

Semantics: kube-scheduler 1.37 `volumebinding/` and component-helpers `storage/volume`. A bound claim's
volume must exist and its node affinity accept the node. A claim left to its first consumer is matched,
smallest request first, with the smallest available volume of its class that fits, or the one reserved for
it; what finds none must be provisionable: the class has a provisioner, its allowed topologies accept the
node, and, where the driver tracks capacity, some reported capacity has room. Any other unbound claim
refuses every node. Volumes of equal size are tried by name; kube-scheduler's order among them is that of a
hash table.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.constraints.filter import NodeFilter, Rows, row_numbers
from stowplan.core.constraints.matching import requirement_met, terms_met
from stowplan.core.constraints.storage_tables import storage_tables
from stowplan.core.domain import (
    BindingMode,
    ChangeKind,
    ClusterState,
    LabelSelector,
    NodeSelectorTerm,
    Operator,
    PersistentVolume,
    PersistentVolumeClaim,
    PodShape,
    Requirement,
    StorageClass,
)

__all__ = ["VolumeBinding"]

_NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
_Mask = NDArray[np.bool_]


class VolumeBinding(NodeFilter):
    """A claim of the pod has no volume that this node reaches, and cannot get one."""

    name: ClassVar[str] = "VolumeBinding"
    watches: ClassVar[ChangeKind] = ChangeKind.STORAGE

    def __init__(self, state: ClusterState, shape: PodShape) -> None:
        """Bind to a state and a shape."""
        super().__init__(state, shape)
        self._error = ""
        self._rejects_pod = False
        self._bound: list[PersistentVolume] = []
        self._to_match: list[PersistentVolumeClaim] = []
        self._to_provision: list[PersistentVolumeClaim] = []
        self._candidates: dict[tuple[str, str], tuple[list[PersistentVolume], list[PersistentVolume]]] = {}

    @staticmethod
    def is_needed(shape: PodShape) -> bool:
        """Tell whether the shape has claims."""
        return any(volume.claim is not None for volume in shape.volumes)

    def compile(self) -> None:
        """Sort the claims by what must happen to them."""
        self._error, self._rejects_pod = "", False
        self._bound, self._to_match, self._to_provision = [], [], []
        claims: list[PersistentVolumeClaim] = []
        for volume in self._shape.volumes:
            if volume.claim is not None:
                claim = self._usable(volume.claim, owner=volume.pod_uid if volume.is_ephemeral else None)
                if claim is None:
                    self._rejects_pod = True
                    return
                claims.append(claim)
        for claim in claims:
            self._sort(claim)
        self._to_match.sort(key=lambda claim: claim.request_bytes)
        self._candidates = {(c.namespace, c.name): self._volumes_for(c) for c in self._to_match}

    def _usable(self, name: str, *, owner: str | None) -> PersistentVolumeClaim | None:
        """Return a claim, or None with the error set."""
        full_name = f"{self._shape.namespace}/{name}"
        claim = self._state.storage.claims.get((self._shape.namespace, name))
        if claim is None:
            self._error = f"PersistentVolumeClaim {full_name} does not exist"
            if owner is not None:
                self._error = f"the claim {full_name} of an ephemeral volume has not been created yet"
        elif claim.is_lost:
            self._error = f"claim {full_name} has lost its volume {claim.volume!r}"
        elif claim.is_deleting:
            self._error = f"claim {full_name} is being deleted"
        elif owner is not None and not claim.is_made_for(owner):
            self._error = f"claim {full_name} was not made for this pod"
        else:
            return claim
        return None

    def _sort(self, claim: PersistentVolumeClaim) -> None:
        storage = self._state.storage
        full_name = f"{claim.namespace}/{claim.name}"
        if claim.volume and claim.is_fully_bound:
            volume = storage.volumes.get(claim.volume)
            if volume is None:
                self._error = self._error or f"volume {claim.volume!r} of claim {full_name} does not exist"
            else:
                self._bound.append(volume)
            return
        described = storage.classes.get(claim.storage_class or "")
        waits = described is not None and described.binding_mode is BindingMode.WAIT_FOR_FIRST_CONSUMER
        if not waits or claim.volume:
            self._error = f"claim {full_name} is not bound yet, and its binding does not wait for the pod"
            self._rejects_pod = True
        elif claim.selected_node is not None:
            self._to_provision.append(claim)
        else:
            self._to_match.append(claim)

    def _volumes_for(
        self, claim: PersistentVolumeClaim
    ) -> tuple[list[PersistentVolume], list[PersistentVolume]]:
        """Return the volumes reserved for the claim, and those free for it, smallest first."""
        reserved: list[PersistentVolume] = []
        free: list[PersistentVolume] = []
        modes = set(claim.access_modes)
        for volume in storage_tables(self._state).volumes_by_class.get(claim.storage_class or "", ()):
            if (
                volume.capacity_bytes < claim.request_bytes
                or volume.volume_mode != claim.volume_mode
                or (volume.attributes_class or "") != (claim.attributes_class or "")
                or volume.is_deleting
            ):
                continue
            if volume.claim is not None:
                if volume.claim == (claim.namespace, claim.name) and volume.claim_uid in ("", claim.uid):
                    reserved.append(volume)
                continue
            if (
                volume.is_available
                and modes <= set(volume.access_modes)
                and (claim.selector is None or claim.selector.matches(dict(volume.labels)))
            ):
                free.append(volume)
        return reserved, free

    def _reaches(self, volume: PersistentVolume, rows: Rows, *, is_bound: bool) -> _Mask:
        """Tell which of `rows` the volume's node affinity accepts."""
        count = len(row_numbers(self._state, rows))
        terms = volume.node_affinity
        reached = (
            np.ones(count, dtype=np.bool_)
            if terms is None
            else terms_met(self._state, terms, rows, with_fields=False)
        )
        if is_bound and volume.in_tree_plugin is not None:
            is_migrated = self._is_migrated(volume.in_tree_plugin, rows)
            if is_migrated.any():
                if volume.csi_handle is None:
                    return reached & ~is_migrated
                moved = volume.migrated_affinity
                there = (
                    np.ones(count, dtype=np.bool_)
                    if moved is None
                    else terms_met(self._state, moved, rows, with_fields=False)
                )
                reached = np.where(is_migrated, there, reached)
        return reached

    def _is_migrated(self, plugin: str, rows: Rows) -> _Mask:
        state = self._state
        is_migrated = np.zeros(state.capacity, dtype=np.bool_)
        for csi_node in state.storage.csi_nodes.values():
            row = state.row(csi_node.node)
            if row >= 0 and plugin in csi_node.migrated_plugins:
                is_migrated[row] = True
        return is_migrated[rows]

    def _matched(self, rows: Rows) -> list[tuple[PersistentVolumeClaim, _Mask]]:
        """Match claims with volumes on each row; return the claims and where they found one."""
        count = len(row_numbers(self._state, rows))
        if len(self._to_match) == 1:
            claim = self._to_match[0]
            reserved, free = self._candidates[claim.namespace, claim.name]
            volumes = reserved[:1] or free
            return [(claim, self._reached_by_any(volumes, rows, count))]
        taken: dict[str, _Mask] = {}
        reach: dict[str, _Mask] = {}
        result: list[tuple[PersistentVolumeClaim, _Mask]] = []
        for claim in self._to_match:
            reserved, free = self._candidates[claim.namespace, claim.name]
            found = np.zeros(count, dtype=np.bool_)
            is_open = np.ones(count, dtype=np.bool_)
            for volume in [*reserved, *free]:
                if not is_open.any():
                    break
                if volume.name not in reach:
                    reach[volume.name] = self._reaches(volume, rows, is_bound=False)
                    taken[volume.name] = np.zeros(count, dtype=np.bool_)
                is_untaken = is_open & ~taken[volume.name]
                here = is_untaken & reach[volume.name]
                taken[volume.name] |= here
                found |= here
                is_open &= ~(is_untaken if volume.claim is not None else here)
            result.append((claim, found))
        return result

    def _reached_by_any(self, volumes: list[PersistentVolume], rows: Rows, count: int) -> _Mask:
        """Tell which of `rows` any of the volumes reaches.

        Local volumes differ in the one value of one label: those are looked up together.
        """
        values: dict[str, set[str]] = {}
        others: set[tuple[NodeSelectorTerm, ...]] = set()
        for volume in volumes:
            terms = volume.node_affinity
            if terms is None:
                return np.ones(count, dtype=np.bool_)
            only = terms[0].expressions[0] if len(terms) == 1 and len(terms[0].expressions) == 1 else None
            if only is not None and only.operator is Operator.IN:
                values.setdefault(only.key, set()).update(only.values)
            else:
                others.add(terms)
        reached = np.zeros(count, dtype=np.bool_)
        for key, accepted in values.items():
            reached |= requirement_met(self._state, Requirement(key, Operator.IN, tuple(accepted)), rows)
        for terms in others:
            reached |= terms_met(self._state, terms, rows, with_fields=False)
        return reached

    def _may_provision(self, claim: PersistentVolumeClaim, rows: Rows) -> _Mask:
        """Tell on which of `rows` a volume for the claim could be made."""
        count = len(row_numbers(self._state, rows))
        described = self._state.storage.classes.get(claim.storage_class or "")
        if described is None or described.provisioner in ("", _NO_PROVISIONER):
            return np.zeros(count, dtype=np.bool_)
        may = np.ones(count, dtype=np.bool_)
        if described.allowed_topologies:
            may = terms_met(self._state, described.allowed_topologies, rows)
        driver = self._state.storage.csi_drivers.get(described.provisioner)
        if driver is not None and driver.tracks_capacity and claim.request_bytes > 0:
            may = may & self._has_capacity(claim, described, rows, count)
        return may

    def _has_capacity(
        self, claim: PersistentVolumeClaim, described: StorageClass, rows: Rows, count: int
    ) -> _Mask:
        enough = np.zeros(count, dtype=np.bool_)
        for capacity in self._state.storage.capacities.values():
            room = (
                capacity.maximum_volume_bytes
                if capacity.maximum_volume_bytes is not None
                else capacity.capacity_bytes
            )
            if capacity.storage_class != described.name or room is None or room < claim.request_bytes:
                continue
            if capacity.node_topology is not None:
                enough |= _selected(self._state, capacity.node_topology, rows, count)
        return enough

    def refused(self, rows: Rows) -> _Mask | None:
        """Refuse nodes that some claim cannot be used on."""
        numbers = row_numbers(self._state, rows)
        if self._error:
            return np.ones(len(numbers), dtype=np.bool_)
        refused = np.zeros(len(numbers), dtype=np.bool_)
        for volume in self._bound:
            refused |= ~self._reaches(volume, rows, is_bound=True)
        for claim in self._to_provision:
            refused |= numbers != self._state.row(claim.selected_node or "")
            refused |= ~self._may_provision(claim, rows)
        for claim, found in self._matched(rows):
            if not found.all():
                refused |= ~(found | self._may_provision(claim, rows))
        return refused

    @property
    def rejects_pod(self) -> bool:
        """Whether a claim is unusable, or unbound without waiting for the pod."""
        return self._rejects_pod

    def to_assume(self, row: int) -> list[PersistentVolume | PersistentVolumeClaim]:
        """Return the volumes as reserved for, and the claims as waiting for, a pod that is bound to `row`.

        kube-scheduler does the same when it reserves a node: no other pod may count on those volumes.
        """
        rows = np.array([row], dtype=np.intp)
        reserved: dict[str, PersistentVolume] = {}
        waiting = list(self._to_provision)
        for claim in self._to_match:
            volume = self._match(claim, reserved, rows)
            if volume is None:
                waiting.append(claim)
            else:
                key = (claim.namespace, claim.name)
                reserved[volume.name] = dataclasses.replace(volume, claim=key, claim_uid=claim.uid)
        node_name = self._state.node(row).name
        return [
            *reserved.values(),
            *(dataclasses.replace(claim, selected_node=node_name) for claim in waiting),
        ]

    def _match(
        self, claim: PersistentVolumeClaim, taken: Container[str], row: Rows
    ) -> PersistentVolume | None:
        """Return the volume that a claim gets on one row when those named in `taken` are; None: none."""
        own, free = self._candidates[claim.namespace, claim.name]
        for volume in [*own, *free]:
            if volume.name not in taken:
                reaches = bool(self._reaches(volume, row, is_bound=False)[0])
                if reaches or volume.claim is not None:  # one that is reserved for it is the only one
                    return volume if reaches else None
        return None

    def reason(self, row: int) -> str:
        """Name the claim or volume."""
        if self._error:
            return self._error
        rows = np.array([row], dtype=np.intp)
        for volume in self._bound:
            if not self._reaches(volume, rows, is_bound=True)[0]:
                return f"volume {volume.name!r} cannot be reached from this node (its node affinity)"
        for claim in self._to_provision:
            if self._state.row(claim.selected_node or "") != row:
                full_name = f"{claim.namespace}/{claim.name}"
                return f"the volume of claim {full_name} is being made for node {claim.selected_node!r}"
        unmatched = [claim for claim, found in self._matched(rows) if not found[0]]
        for claim in [*self._to_provision, *unmatched]:
            if not self._may_provision(claim, rows)[0]:
                return (
                    f"claim {claim.namespace}/{claim.name}: no available volume fits here, and class "
                    f"{claim.storage_class!r} cannot provision one for this node"
                )
        return "a claim cannot be bound here"


def _selected(state: ClusterState, selector: LabelSelector, rows: Rows, count: int) -> _Mask:
    selected = np.ones(count, dtype=np.bool_)
    for requirement in selector.requirements:
        selected &= requirement_met(state, requirement, rows)
    return selected
