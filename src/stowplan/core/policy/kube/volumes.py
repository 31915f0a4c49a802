"""VolumeBinding scoring: volumes that are used up less are better (Kubernetes 1.37, StorageCapacityScoring).

Only claims that are not bound yet count. On a node where some of them find an existing volume, a storage
class scores 100 − 100·requested/capacity of the volumes found; where all must be provisioned, the same with
the capacity that the driver reports there. A class that asks for more than there is scores 0, and classes
have equal weight. Changes only with storage and nodes.

The search for volumes is that of the filter (`constraints.volume_binding`): smallest claim first, each with
the smallest free volume that fits, or the one reserved for it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stowplan.core.constraints.filter import ALL_ROWS
from stowplan.core.constraints.matching import requirement_met, terms_met
from stowplan.core.constraints.storage_tables import storage_tables
from stowplan.core.domain import (
    ABSENT,
    BindingMode,
    ClusterState,
    Operator,
    PersistentVolume,
    PersistentVolumeClaim,
    PodShape,
)
from stowplan.core.policy.kube.resources import MAX_NODE_SCORE

__all__ = ["volume_scores"]


def volume_scores(state: ClusterState, shape: PodShape) -> NDArray[np.int64] | None:
    """Return 0–100 by row, right where the filter lets the pod; None when no claim is still to be bound."""
    waiting = [claim for claim in _claims(state, shape) if not claim.volume and _waits(state, claim)]
    if not waiting:
        return None
    to_match = sorted((c for c in waiting if c.selected_node is None), key=lambda claim: claim.request_bytes)
    found = _found_bytes(state, to_match)
    has_found = np.zeros(state.capacity, dtype=np.bool_)
    for sizes in found:
        has_found |= sizes > 0
    static, dynamic = _Classes(state.capacity), _Classes(state.capacity)
    for claim, sizes in zip(to_match, found, strict=True):
        static.add(claim, sizes > 0, sizes)
        dynamic.add_reported(state, claim, ~has_found)
    for claim in waiting:
        if claim.selected_node is not None:
            dynamic.add_reported(state, claim, ~has_found)
    return np.where(has_found, static.scores(), dynamic.scores())


class _Classes:
    """Requested and available bytes per storage class and row."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._requested: dict[str, NDArray[np.int64]] = {}
        self._capacity: dict[str, NDArray[np.int64]] = {}

    def add(self, claim: PersistentVolumeClaim, where: NDArray[np.bool_], sizes: NDArray[np.int64]) -> None:
        """Count a claim and the volume that it gets, on the rows `where` it gets one."""
        requested, capacity = self._of(claim.storage_class or "")
        requested[where] += claim.request_bytes
        capacity[where] += sizes[where]

    def add_reported(
        self, state: ClusterState, claim: PersistentVolumeClaim, where: NDArray[np.bool_]
    ) -> None:
        """Count a claim to be provisioned against what its driver reports, on the rows `where` it must be."""
        described = state.storage.classes.get(claim.storage_class or "")
        driver = state.storage.csi_drivers.get(described.provisioner) if described is not None else None
        if driver is None or not driver.tracks_capacity or claim.request_bytes == 0:
            return
        requested, capacity = self._of(claim.storage_class or "")
        is_open = where.copy()
        for reported in state.storage.capacities.values():
            largest = reported.maximum_volume_bytes
            room = largest if largest is not None else reported.capacity_bytes
            if reported.storage_class != claim.storage_class or room is None or room < claim.request_bytes:
                continue
            if reported.node_topology is None:
                continue
            here = is_open.copy()
            for requirement in reported.node_topology.requirements:
                here &= requirement_met(state, requirement, ALL_ROWS)
            requested[here] += claim.request_bytes
            capacity[here] = reported.capacity_bytes or 0
            is_open &= ~here

    def _of(self, name: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        if name not in self._requested:
            self._requested[name] = np.zeros(self._rows, dtype=np.int64)
            self._capacity[name] = np.zeros(self._rows, dtype=np.int64)
        return self._requested[name], self._capacity[name]

    def scores(self) -> NDArray[np.int64]:
        """Return each row's mean over the classes asked for there, rounded half up; 0 without any."""
        total = np.zeros(self._rows, dtype=np.int64)
        classes = np.zeros(self._rows, dtype=np.int64)
        for name, requested in self._requested.items():
            capacity = self._capacity[name]
            is_asked = (requested > 0) | (capacity > 0)
            share = MAX_NODE_SCORE * requested // np.maximum(capacity, 1)
            share[(capacity == 0) | (requested > capacity)] = MAX_NODE_SCORE
            total += np.where(is_asked, MAX_NODE_SCORE - share, 0)
            classes += is_asked
        return np.floor(total / np.maximum(classes, 1) + 0.5).astype(np.int64)


def _claims(state: ClusterState, shape: PodShape) -> list[PersistentVolumeClaim]:
    names = [(shape.namespace, volume.claim) for volume in shape.volumes if volume.claim is not None]
    return [state.storage.claims[name] for name in names if name in state.storage.claims]


def _waits(state: ClusterState, claim: PersistentVolumeClaim) -> bool:
    described = state.storage.classes.get(claim.storage_class or "")
    return described is not None and described.binding_mode is BindingMode.WAIT_FOR_FIRST_CONSUMER


def _found_bytes(state: ClusterState, claims: list[PersistentVolumeClaim]) -> list[NDArray[np.int64]]:
    """Return for each claim the size of the volume it gets on each row, 0 where none."""
    taken: dict[str, NDArray[np.bool_]] = {}
    result: list[NDArray[np.int64]] = []
    for claim in claims:
        reserved, free = _candidates(state, claim)
        sizes = np.zeros(state.capacity, dtype=np.int64)
        is_open = state.is_node.copy()
        if len(claims) == 1 and not reserved:
            free = _without_local(state, free, sizes)
            is_open &= sizes == 0
        for volume in [*reserved, *free]:
            is_untaken = is_open & ~taken[volume.name] if volume.name in taken else is_open
            here = is_untaken & _reaches(state, volume)
            taken[volume.name] = here | taken[volume.name] if volume.name in taken else here
            sizes[here] = volume.capacity_bytes
            # A volume that is reserved for the claim is the only one where nothing else of the pod took it.
            is_open = is_open & ~(is_untaken if volume.claim is not None else here)
            if not is_open.any():
                break
        result.append(sizes)
    return result


def _candidates(
    state: ClusterState, claim: PersistentVolumeClaim
) -> tuple[list[PersistentVolume], list[PersistentVolume]]:
    """Return the volumes reserved for the claim, and those free for it, smallest first."""
    reserved: list[PersistentVolume] = []
    free: list[PersistentVolume] = []
    for volume in storage_tables(state).volumes_by_class.get(claim.storage_class or "", ()):
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
        elif (
            volume.is_available
            and set(claim.access_modes) <= set(volume.access_modes)
            and (claim.selector is None or claim.selector.matches(dict(volume.labels)))
        ):
            free.append(volume)
    return reserved, free


def _without_local(
    state: ClusterState, volumes: list[PersistentVolume], sizes: NDArray[np.int64]
) -> list[PersistentVolume]:
    """Set the sizes of local volumes, one label value each, by look-up; return the others when there are any.

    A cluster has a local volume or more per node: one by one they would cost an array operation each.
    """
    by_key: dict[str, dict[str, int]] = {}
    for volume in volumes:
        terms = volume.node_affinity
        only = (
            terms[0].expressions[0] if terms and len(terms) == 1 and len(terms[0].expressions) == 1 else None
        )
        if only is None or only.operator is not Operator.IN or len(only.values) != 1:
            return volumes
        by_key.setdefault(only.key, {}).setdefault(only.values[0], volume.capacity_bytes)  # smallest first
    for key, size_of in by_key.items():
        column = state.labels.get(key)
        if column is None:
            continue
        table = np.zeros(len(column.values) + 1, dtype=np.int64)
        for label, size_bytes in size_of.items():
            value_id = column.id_of(label)
            if value_id != ABSENT:
                table[value_id] = size_bytes
        here = table[column.value_ids]  # ABSENT, −1, points to the last entry
        np.copyto(sizes, here, where=(here > 0) & ((sizes == 0) | (here < sizes)))
    return []


def _reaches(state: ClusterState, volume: PersistentVolume) -> NDArray[np.bool_]:
    if volume.node_affinity is None:
        return state.is_node
    return terms_met(state, volume.node_affinity, ALL_ROWS, with_fields=False)
