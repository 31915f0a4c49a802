"""VolumeZone: a bound volume's zone and region labels must be those of the node.

Semantics: kube-scheduler 1.37 `volumezone/volume_zone.go`. A node without any zone or region label is
accepted. A label of a volume may list several values, joined by two underscores; a label with an empty
value among them is ignored. A beta label of the volume is compared with the node's stable one when the node
lacks the beta label. A claim that is missing, or unbound although it is not left to the first consumer,
refuses every node. Claims of ephemeral volumes are not looked at.
"""

from __future__ import annotations

from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.constraints.filter import NodeFilter, Rows, row_numbers
from stowplan.core.constraints.matching import label_ids
from stowplan.core.domain import BindingMode, ChangeKind, ClusterState, PersistentVolume, PodShape

__all__ = ["VolumeZone"]

_BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
_BETA_REGION: Final = "failure-domain.beta.kubernetes.io/region"
_ZONE: Final = "topology.kubernetes.io/zone"
_REGION: Final = "topology.kubernetes.io/region"
_KEYS: Final = (_BETA_ZONE, _BETA_REGION, _ZONE, _REGION)
_STABLE: Final = {_BETA_ZONE: _ZONE, _BETA_REGION: _REGION}


class VolumeZone(NodeFilter):
    """The node is in another zone or region than a volume of the pod."""

    name: ClassVar[str] = "VolumeZone"
    watches: ClassVar[ChangeKind] = ChangeKind.STORAGE

    def __init__(self, state: ClusterState, shape: PodShape) -> None:
        """Bind to a state and a shape."""
        super().__init__(state, shape)
        self._error = ""
        self._wanted: list[tuple[str, str, frozenset[str]]] = []  # (volume, label key, accepted values)

    @staticmethod
    def is_needed(shape: PodShape) -> bool:
        """Tell whether the shape has a claim that this filter is about."""
        return any(volume.claim is not None and not volume.is_ephemeral for volume in shape.volumes)

    def compile(self) -> None:
        """Look up the volumes of the pod's claims."""
        self._error, self._wanted = "", []
        for volume in self._shape.volumes:
            if volume.claim is not None and not volume.is_ephemeral:
                self._look_up(volume.claim)
                if self._error:
                    return

    def _look_up(self, name: str) -> None:
        storage, namespace = self._state.storage, self._shape.namespace
        claim = storage.claims.get((namespace, name))
        if claim is None:
            self._error = f"PersistentVolumeClaim {namespace}/{name} does not exist"
        elif claim.volume:
            volume = storage.volumes.get(claim.volume)
            if volume is None:
                self._error = f"PersistentVolume {claim.volume!r} of claim {namespace}/{name} does not exist"
            else:
                self._wanted += _topologies(volume)
        elif not claim.storage_class:
            self._error = f"claim {namespace}/{name} is unbound and names no storage class"
        else:
            described = storage.classes.get(claim.storage_class)
            if described is None:
                self._error = (
                    f"StorageClass {claim.storage_class!r} of claim {namespace}/{name} does not exist"
                )
            elif described.binding_mode is not BindingMode.WAIT_FOR_FIRST_CONSUMER:
                self._error = f"claim {namespace}/{name} is not bound to a volume yet"

    def refused(self, rows: Rows) -> NDArray[np.bool_] | None:
        """Refuse nodes elsewhere."""
        count = len(row_numbers(self._state, rows))
        if self._error:
            return np.ones(count, dtype=np.bool_)
        if not self._wanted:
            return None
        is_zoned = np.zeros(count, dtype=np.bool_)
        for key in _KEYS:
            ids = label_ids(self._state, key, rows)
            if ids is not None:
                is_zoned |= ids >= 0
        is_elsewhere = np.zeros(count, dtype=np.bool_)
        for _, key, values in self._wanted:
            is_elsewhere |= ~self._accepted(key, values, rows, count)
        return is_zoned & is_elsewhere

    def _accepted(self, key: str, values: frozenset[str], rows: Rows, count: int) -> NDArray[np.bool_]:
        accepted = np.zeros(count, dtype=np.bool_)
        is_open = np.ones(count, dtype=np.bool_)
        for one in dict.fromkeys((key, _STABLE.get(key, key))):
            column = self._state.labels.get(one)
            if column is None:
                continue
            ids = column.value_ids[rows]
            table = np.array([*(label in values for label in column.values), False], dtype=np.bool_)
            accepted |= is_open & table[ids]
            is_open &= ids < 0
        return accepted

    @property
    def rejects_pod(self) -> bool:
        """Whether a claim or its volume cannot be looked up."""
        return bool(self._error)

    def reason(self, row: int) -> str:
        """Name the volume and the labels."""
        if self._error:
            return self._error
        labels = dict(self._state.node(row).labels)
        for volume, key, values in self._wanted:
            has = labels.get(key, labels.get(_STABLE.get(key, key)))
            if has not in values:
                there = " or ".join(sorted(values))
                return f"volume {volume!r} is in {key} {there}, the node in {has or 'none'}"
        return "a volume of the pod is in another zone"


def _topologies(volume: PersistentVolume) -> list[tuple[str, str, frozenset[str]]]:
    labels = dict(volume.labels)
    found: list[tuple[str, str, frozenset[str]]] = []
    for key in _KEYS:
        if key in labels:
            values = [part.strip() for part in labels[key].split("__")]
            if all(values):
                found.append((volume.name, key, frozenset(values)))
    return found
