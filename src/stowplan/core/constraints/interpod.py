"""InterPodAffinity: required affinity and anti-affinity between pods, from both sides.

Semantics: kube-scheduler 1.37 `interpodaffinity/filtering.go` and framework `AffinityTerm`.

* Affinity: only pods that match *all* terms of the pod count. Each counts in the domain of its node for
  every term's topology key. A node is accepted when it has all the keys and each of its domains has such a
  pod; or, so that the first pod of a group can start, when no domain anywhere has one, the pod matches its
  own terms, and the node has all the keys.
* Anti-affinity: a node is refused when one of its domains has a pod that matches a term with that topology
  key.
* Symmetry: a node is refused when one of its domains has a pod whose own required anti-affinity matches
  this pod.

Pods being deleted count. A namespace selector of the pod's own terms selects among the namespaces that
exist (the empty one selects all); that of another pod's term is compared with the labels of this pod's
namespace, none when it is unknown.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from stowplan.core.constraints.domains import Domains
from stowplan.core.constraints.filter import NO_ROWS, NodeFilter, Rows
from stowplan.core.constraints.journal import ChangeBatch, Relevance, journal_of
from stowplan.core.constraints.relation_trial import Bearing, RelationTrial
from stowplan.core.constraints.trial import MovingPods, Trial
from stowplan.core.domain import (
    Change,
    ChangeKind,
    ClusterState,
    Labels,
    PodAffinityTerm,
    PodShape,
)

__all__ = ["InterPodAffinity"]

_MANY_DOMAINS = 64


class _OwnTerm:
    """A required term of the pod to place, with its namespaces looked up."""

    __slots__ = ("key", "namespaces", "takes_all", "term")

    def __init__(self, state: ClusterState, owner_namespace: str, term: PodAffinityTerm) -> None:
        self.term = term
        self.key = term.topology_key
        selector = term.namespace_selector
        names = set(term.namespaces)
        if not names and selector is None:
            names = {owner_namespace}
        self.takes_all = selector is not None and not selector.requirements
        if selector is not None and selector.requirements:
            names |= {name for name, labels in state.namespaces.items() if selector.matches(dict(labels))}
        self.namespaces = names

    def matches(self, namespace: str, labels: dict[str, str]) -> bool:
        if not (self.takes_all or namespace in self.namespaces):
            return False
        return self.term.selector is not None and self.term.selector.matches(labels)


class _Counts:
    """Pods per domain of one topology key: those wanted near, those repelled, those that repel."""

    __slots__ = ("domains", "repelled", "repelling", "wanted")

    def __init__(self, domains: Domains) -> None:
        self.domains = domains
        self.wanted = domains.zeros()
        self.repelled = domains.zeros()
        self.repelling = domains.zeros()

    def add(self, kind: NDArray[np.int64], rows: NDArray[np.intp], counts: NDArray[np.int64]) -> None:
        domains = self.domains.ids[rows]
        has_label = domains >= 0
        np.add.at(kind, domains[has_label], counts[has_label])


class InterPodAffinity(NodeFilter):
    """Pods that must be near are not, or pods that must not be near are."""

    name: ClassVar[str] = "InterPodAffinity"
    watches: ClassVar[ChangeKind] = ChangeKind.NODE | ChangeKind.NAMESPACE
    is_row_filter: ClassVar[bool] = False
    follows_pods: ClassVar[bool] = True

    def __init__(self, state: ClusterState, shape: PodShape) -> None:
        """Bind to a state and a shape."""
        super().__init__(state, shape)
        self._has_terms = bool(shape.affinity or shape.anti_affinity)
        self._affinity: list[_OwnTerm] = []
        self._anti: list[_OwnTerm] = []
        self._wanted_keys: tuple[str, ...] = ()
        self._counts: dict[str, _Counts] = {}
        self._wanted_anywhere = 0
        self._matches_itself = False
        self._bearing_of: dict[PodShape, Bearing] = {}
        self._touched: set[tuple[str, int]] = set()
        self._is_everywhere = False
        self._groups = Relevance()
        self._repels = Relevance()

    def compile(self) -> None:
        """Count every bound pod that bears on this one."""
        state, shape = self._state, self._shape
        self._counts = {}
        self._wanted_anywhere = 0
        self._bearing_of.clear()
        self._groups.clear()
        self._repels.clear()
        self._touched.clear()
        self._is_everywhere = False
        self._affinity = [_OwnTerm(state, shape.namespace, term) for term in shape.affinity]
        self._anti = [_OwnTerm(state, shape.namespace, term) for term in shape.anti_affinity]
        self._wanted_keys = tuple(dict.fromkeys(term.key for term in self._affinity))
        own = dict(shape.labels)
        self._matches_itself = all(term.matches(shape.namespace, own) for term in self._affinity)
        for key in self._wanted_keys:
            self._counts_of(key)
        if self._has_terms:
            self._count_groups()
        for owner, counter in state.index.anti_affinity_terms.items():
            if owner.weight == 0 and self._is_repelled_by(owner.namespace, owner.term):
                rows, counts = counter.arrays()
                counted = self._counts_of(owner.term.topology_key)
                counted.add(counted.repelling, rows, counts)

    def _count_groups(self) -> None:
        for group, counter in self._state.index.groups.items():
            is_wanted, repelled = self._own_bearing(group.namespace, group.labels)
            if not (is_wanted or repelled):
                continue
            rows, counts = counter.arrays()
            if is_wanted:
                for key in self._wanted_keys:
                    counted = self._counts_of(key)
                    counted.add(counted.wanted, rows, counts)
                    self._wanted_anywhere += int(counts[counted.domains.ids[rows] >= 0].sum())
            for key in repelled:
                counted = self._counts_of(key)
                counted.add(counted.repelled, rows, counts)

    def _counts_of(self, key: str) -> _Counts:
        counted = self._counts.get(key)
        if counted is None:
            counted = self._counts[key] = _Counts(Domains(self._state, key))
        return counted

    def _own_bearing(self, namespace: str, labels: Labels) -> tuple[bool, tuple[str, ...]]:
        as_dict = dict(labels)
        is_wanted = bool(self._affinity) and all(term.matches(namespace, as_dict) for term in self._affinity)
        return is_wanted, tuple(term.key for term in self._anti if term.matches(namespace, as_dict))

    def _is_repelled_by(self, owner_namespace: str, term: PodAffinityTerm) -> bool:
        """Tell whether a bound pod's anti-affinity term matches the pod to place."""
        shape, selector = self._shape, term.namespace_selector
        if not term.namespaces and selector is None:
            is_inside = shape.namespace == owner_namespace
        else:
            labels = dict(self._state.namespaces.get(shape.namespace, ()))
            is_inside = shape.namespace in term.namespaces or (
                selector is not None and selector.matches(labels)
            )
        return is_inside and term.selector is not None and term.selector.matches(dict(shape.labels))

    def _has_own_bearing(self, shape: PodShape) -> bool:
        is_wanted, repelled = self._own_bearing(shape.namespace, shape.labels)
        return is_wanted or bool(repelled)

    def _is_repelled_by_shape(self, shape: PodShape) -> bool:
        return any(self._is_repelled_by(shape.namespace, term) for term in shape.anti_affinity)

    def _bearing(self, shape: PodShape) -> Bearing:
        bearing = self._bearing_of.get(shape)
        if bearing is None:
            is_wanted, repelled = self._own_bearing(shape.namespace, shape.labels)
            repelling = tuple(
                term.topology_key
                for term in shape.anti_affinity
                if self._is_repelled_by(shape.namespace, term)
            )
            bearing = self._bearing_of[shape] = Bearing(is_wanted, repelled, repelling)
        return bearing

    def refused(self, rows: Rows) -> NDArray[np.bool_] | None:
        """Refuse rows by their domains' counts."""
        refused: NDArray[np.bool_] | None = None
        for key in self._wanted_keys:
            counted = self._counts[key]
            near = counted.domains.ids[rows] >= 0
            if not self._may_start():
                near &= counted.wanted[counted.domains.ids[rows]] > 0
            refused = ~near if refused is None else refused | ~near
        for counted in self._counts.values():
            blocked = counted.repelled + counted.repelling
            if blocked.any():
                hit = blocked[counted.domains.ids[rows]] > 0
                refused = hit if refused is None else refused | hit
        return refused

    def _may_start(self) -> bool:
        """Tell whether the pod may be the first of its group."""
        return self._wanted_anywhere == 0 and self._matches_itself

    def refuses(self, row: int) -> bool:
        """Tell whether one row is refused."""
        may_start = self._may_start()
        for key in self._wanted_keys:
            counted = self._counts[key]
            domain = counted.domains.ids[row]
            if domain < 0 or not (may_start or counted.wanted[domain] > 0):
                return True
        for counted in self._counts.values():
            domain = counted.domains.ids[row]
            if counted.repelled[domain] > 0 or counted.repelling[domain] > 0:
                return True
        return False

    def trial(self, rows: NDArray[np.intp], pods: MovingPods) -> Trial | None:
        """Return the counts in the domains of some rows.

        Other pods are only looked at when the filter is not skipped for this pod: it has terms, or some bound
        pod repels it.
        """
        if not self._has_terms and not any(counted.repelling.any() for counted in self._counts.values()):
            return None
        for shape in pods.shapes:  # one that is not bound yet may be the first that bears on it by a key
            bearing = self._bearing(shape)
            for key in (*bearing.repelled, *bearing.repelling):
                self._counts_of(key)
        near: dict[str, NDArray[np.int64]] = {}
        blocked: dict[str, NDArray[np.int64]] = {}
        has_label: dict[str, NDArray[np.bool_]] = {}
        for key, counted in self._counts.items():
            domains = counted.domains.ids[rows]
            has_label[key] = domains >= 0
            blocked[key] = counted.repelled[domains] + counted.repelling[domains]
            if key in self._wanted_keys:
                near[key] = counted.wanted[domains]
        anywhere = self._wanted_anywhere if self._matches_itself else None
        return RelationTrial(pods, self._bearing, has_label, near, blocked, anywhere)

    def yielding(self) -> NDArray[np.bool_] | None:
        """Rows where every pod is near that must be: then some pod is that must not be."""
        yields = np.ones(self._state.capacity, dtype=np.bool_)
        may_start = self._may_start()
        for key in self._wanted_keys:
            counted = self._counts[key]
            yields &= counted.domains.ids >= 0
            if not may_start:
                yields &= counted.wanted[counted.domains.ids] > 0
        return yields

    def refused_when_empty(self) -> NDArray[np.bool_] | None:
        """Refuse rows that lack a topology key of the pod's affinity."""
        lacking = np.zeros(self._state.capacity, dtype=np.bool_)
        for key in self._wanted_keys:
            lacking |= self._counts[key].domains.ids < 0
        return lacking

    def note(self, change: Change) -> None:
        """Count the pod in the domains of its row."""
        shape = change.shape
        if shape is None or not (self._has_terms or shape.anti_affinity):
            return
        bearing = self._bearing(shape)
        if bearing.is_nothing:
            return
        if bearing.is_wanted:
            for key in self._wanted_keys:
                if self._add(key, self._counts_of(key).wanted, change):
                    before = self._may_start()
                    self._wanted_anywhere += change.by
                    self._is_everywhere |= before != self._may_start()
        for key in bearing.repelled:
            self._add(key, self._counts_of(key).repelled, change)
        for key in bearing.repelling:
            self._add(key, self._counts_of(key).repelling, change)

    def note_batch(self, batch: ChangeBatch) -> None:
        """Count the pods that bear on this one."""
        journal = journal_of(self._state)
        bears = self._repels.of(batch.repels, journal.repels.shapes, self._is_repelled_by_shape)
        if self._has_terms:
            bears = bears | self._groups.of(batch.groups, journal.groups.shapes, self._has_own_bearing)
        for number in np.flatnonzero(bears):
            self.note(batch.changes[number])

    def _add(self, key: str, kind: NDArray[np.int64], change: Change) -> bool:
        domain = int(self._counts[key].domains.ids[change.row])
        if domain < 0:
            return False
        before = int(kind[domain])
        kind[domain] = before + change.by
        if (before > 0) != (before + change.by > 0):
            self._touched.add((key, domain))
        return True

    def settle(self) -> NDArray[np.intp] | None:
        """Return the rows of the domains that gained their first or lost their last such pod."""
        if self._is_everywhere or len(self._touched) > _MANY_DOMAINS:
            self._is_everywhere = False
            self._touched.clear()
            return None
        if not self._touched:
            return NO_ROWS
        rows = np.concatenate([self._counts[key].domains.rows(domain) for key, domain in self._touched])
        self._touched.clear()
        return rows

    def reason(self, row: int) -> str:
        """Say which side of which rule is not met."""
        said: list[str] = []
        may_start = self._may_start()
        for key in self._wanted_keys:
            counted = self._counts[key]
            domain = int(counted.domains.ids[row])
            if domain < 0:
                said.append(f"the node lacks the label {key} that the pod's affinity is about")
            elif not (may_start or counted.wanted[domain] > 0):
                said.append(
                    f"no pod that the pod's affinity asks for runs in {key}={counted.domains.values[domain]}"
                )
        for key, counted in self._counts.items():
            domain = int(counted.domains.ids[row])
            if domain < 0:
                continue
            place = f"{key}={counted.domains.values[domain]}"
            repelled, repelling = int(counted.repelled[domain]), int(counted.repelling[domain])
            if repelled > 0:
                said.append(f"{repelled} pods that the pod's anti-affinity excludes run in {place}")
            if repelling > 0:
                said.append(f"{repelling} pods whose anti-affinity excludes this pod run in {place}")
        return "; ".join(said)
