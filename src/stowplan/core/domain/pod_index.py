"""Where pods of each kind are: the inverse indexes that inter-pod rules and volumes are evaluated with.

A cluster has many pods but few distinct (namespace, labels) groups, affinity terms and claims; each is stored
once with a count per row.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeVar

from stowplan.core.domain.columns import RowCounter
from stowplan.core.domain.events import BoundPod
from stowplan.core.domain.pod import HostPort, InlineDisk, PodAffinityTerm, PodShape
from stowplan.core.domain.selectors import Labels

__all__ = ["PodGroup", "PodIndex", "TermOwner"]

K = TypeVar("K", bound=Hashable)
_CACHED_SHAPES: Final = 4096


@dataclass(frozen=True, slots=True)
class PodGroup:
    """Bound pods that selectors cannot tell apart."""

    namespace: str
    labels: Labels
    is_terminating: bool


@dataclass(frozen=True, slots=True)
class TermOwner:
    """An affinity term of bound pods of one namespace. `weight` 0 marks a required term."""

    namespace: str
    term: PodAffinityTerm
    weight: int = 0


class PodIndex:
    """Counts per row of what the bound pods are, ask for and hold."""

    __slots__ = (
        "affinity_terms",
        "anti_affinity_terms",
        "claims",
        "direct_claims",
        "disks",
        "groups",
        "host_ports",
        "inline_csi",
    )

    def __init__(self) -> None:
        """Start with no pods."""
        self.groups: dict[PodGroup, RowCounter] = {}
        self.affinity_terms: dict[TermOwner, RowCounter] = {}
        self.anti_affinity_terms: dict[TermOwner, RowCounter] = {}
        self.host_ports: dict[HostPort, RowCounter] = {}
        self.claims: dict[tuple[str, str], RowCounter] = {}
        self.disks: dict[InlineDisk, RowCounter] = {}
        self.direct_claims: dict[tuple[str, str], RowCounter] = {}  # `claims` without ephemeral volumes
        self.inline_csi: dict[tuple[str, str], RowCounter] = {}  # (driver, handle)

    def copy(self) -> PodIndex:
        """Return an independent copy."""
        other = PodIndex()
        for name in self.__slots__:
            table: dict[Hashable, RowCounter] = getattr(self, name)
            setattr(other, name, {key: counter.copy() for key, counter in table.items()})
        return other

    def count(self, pod: BoundPod, row: int, by: int) -> None:
        """Add (`by` = 1) or remove (`by` = −1) a pod on `row`."""
        for name, key in _entries(pod.shape, pod.is_terminating):
            _count(getattr(self, name), key, row, by)


@lru_cache(maxsize=_CACHED_SHAPES)
def _entries(shape: PodShape, is_terminating: bool) -> tuple[tuple[str, Hashable], ...]:  # noqa: FBT001  (a cache key)
    """Return the (index, key) pairs that a pod of `shape` counts under."""
    namespace = shape.namespace
    entries: list[tuple[str, Hashable]] = [("groups", PodGroup(namespace, shape.labels, is_terminating))]
    entries += [("affinity_terms", TermOwner(namespace, term)) for term in shape.affinity]
    entries += [("affinity_terms", TermOwner(namespace, w.term, w.weight)) for w in shape.preferred_affinity]
    entries += [("anti_affinity_terms", TermOwner(namespace, term)) for term in shape.anti_affinity]
    entries += [
        ("anti_affinity_terms", TermOwner(namespace, w.term, w.weight)) for w in shape.preferred_anti_affinity
    ]
    entries += [("host_ports", port) for port in shape.host_ports]
    for volume in shape.volumes:
        if volume.claim is not None:
            entries.append(("claims", (namespace, volume.claim)))
            if not volume.is_ephemeral:
                entries.append(("direct_claims", (namespace, volume.claim)))
        if volume.disk is not None:
            entries.append(("disks", volume.disk))
        if volume.csi_driver is not None and volume.csi_handle is not None:
            entries.append(("inline_csi", (volume.csi_driver, volume.csi_handle)))
    return tuple(entries)


def _count(table: dict[K, RowCounter], key: K, row: int, by: int) -> None:
    counter = table.get(key)
    if counter is None:
        counter = table[key] = RowCounter()
    counter.add(row, by)
    if not counter:
        del table[key]
