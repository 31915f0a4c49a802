"""PodTopologySpread: no topology domain may get too far ahead of the emptiest (KEP-895, 3022, 3094, 3243).

For each constraint DoNotSchedule, over the nodes that have the topology keys of all of them and that the
constraint's node inclusion policies let count: a domain holds as many pods as match the selector in the
pod's namespace and are not being deleted; the global minimum is the least of any domain, or zero while
there are fewer domains than minDomains. A node is refused when it lacks the label, or when its domain's
count, plus one if the pod matches its own selector, exceeds the minimum by more than maxSkew. An empty
selector counts nothing, although it matches the pod (`podtopologyspread/common.go`).
"""

from __future__ import annotations

from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.constraints.domains import Domains
from stowplan.core.constraints.filter import ALL_ROWS, NO_ROWS, NodeFilter, Rows
from stowplan.core.constraints.journal import ChangeBatch, Relevance, journal_of
from stowplan.core.constraints.matching import required_affinity_met, untolerated_table
from stowplan.core.constraints.trial import MovingPods, Trial, Verdict
from stowplan.core.domain import (
    Change,
    ChangeKind,
    ClusterState,
    LabelSelector,
    PodShape,
    SpreadConstraint,
    WhenUnsatisfiable,
)

__all__ = ["PodTopologySpread"]

_NO_DOMAIN: Final = np.iinfo(np.int64).max // 2
_MANY_DOMAINS: Final = 64
"""Beyond so many changed domains it is cheaper to look at every row."""


class _Constraint:
    """One constraint with its counts per domain."""

    __slots__ = ("counts", "domains", "is_bad", "is_eligible", "least", "limit", "lowest", "rule")

    def __init__(
        self,
        rule: SpreadConstraint,
        domains: Domains,
        is_eligible: NDArray[np.bool_],
        *,
        matches_itself: bool,
    ) -> None:
        self.rule = rule
        self.domains = domains
        self.is_eligible = is_eligible
        self.counts = domains.zeros()
        self.limit = rule.max_skew - int(matches_itself)
        present = np.zeros(domains.count + 1, dtype=np.bool_)
        present[domains.ids[is_eligible]] = True
        present[-1] = False
        is_too_few = int(present.sum()) < rule.min_domains
        self.lowest: NDArray[np.int64] | None = None if is_too_few else np.where(present, 0, _NO_DOMAIN)
        self.least = 0
        self.is_bad: NDArray[np.bool_] = np.zeros(domains.count + 1, dtype=np.bool_)

    def add(self, rows: NDArray[np.intp], by: NDArray[np.int64]) -> None:
        """Count `by` pods on each of `rows`."""
        counted = self.is_eligible[rows]
        domains = self.domains.ids[rows[counted]]
        np.add.at(self.counts, domains, by[counted])
        if self.lowest is not None:
            np.add.at(self.lowest, domains, by[counted])

    def minimum(self) -> int:
        """Return the global minimum."""
        return 0 if self.lowest is None else int(self.lowest.min())

    def judge(self) -> NDArray[np.bool_]:
        """Return which domains are refused; the last entry stands for rows without the label."""
        is_bad = self.counts > self.limit + self.least
        is_bad[-1] = True
        return is_bad


class PodTopologySpread(NodeFilter):
    """The pods of a kind would be spread too unevenly."""

    name: ClassVar[str] = "PodTopologySpread"
    watches: ClassVar[ChangeKind] = ChangeKind.NODE
    is_row_filter: ClassVar[bool] = False
    follows_pods: ClassVar[bool] = True

    def __init__(self, state: ClusterState, shape: PodShape) -> None:
        """Bind to a state and a shape."""
        super().__init__(state, shape)
        self._rules = self.rules_of(shape)
        self._constraints: list[_Constraint] = []
        self._violations: NDArray[np.int8] = np.zeros(0, dtype=np.int8)
        self._matches_of: dict[PodShape, tuple[int, ...]] = {}
        self._touched: dict[int, set[int]] = {}
        self._relevance = Relevance()

    @staticmethod
    def rules_of(shape: PodShape) -> tuple[SpreadConstraint, ...]:
        """Return the constraints that filter; the others only score."""
        return tuple(
            rule for rule in shape.spread if rule.when_unsatisfiable is WhenUnsatisfiable.DO_NOT_SCHEDULE
        )

    def compile(self) -> None:
        """Count the matching pods of every domain."""
        state, shape = self._state, self._shape
        domains = {key: Domains(state, key) for key in {rule.topology_key for rule in self._rules}}
        has_all = state.is_node.copy()
        for one in domains.values():
            has_all &= one.ids >= 0
        accepted = required_affinity_met(state, shape, ALL_ROWS)
        own_labels = dict(shape.labels)
        self._constraints = []
        for rule in self._rules:
            is_eligible = has_all
            if rule.honor_node_affinity and accepted is not None:
                is_eligible = is_eligible & accepted
            if rule.honor_node_taints:
                table = untolerated_table(state, shape.tolerations)
                is_eligible = is_eligible & ~table[state.taint_set_ids]
            matches_itself = rule.selector is not None and rule.selector.matches(own_labels)
            self._constraints.append(
                _Constraint(rule, domains[rule.topology_key], is_eligible, matches_itself=matches_itself)
            )
        for group, counter in state.index.groups.items():
            if group.namespace != shape.namespace or group.is_terminating:
                continue
            labels = dict(group.labels)
            matched = [one for one in self._constraints if _counts(one.rule.selector, labels)]
            if matched:
                rows, counts = counter.arrays()
                for one in matched:
                    one.add(rows, counts)
        self._matches_of.clear()
        self._relevance.clear()
        self._touched.clear()
        self._judge_all()

    def _judge_all(self) -> None:
        self._violations = np.zeros(self._state.capacity, dtype=np.int8)
        for one in self._constraints:
            one.least = one.minimum()
            one.is_bad = one.judge()
            self._violations += one.is_bad[one.domains.ids]

    def refused(self, rows: Rows) -> NDArray[np.bool_] | None:
        """Refuse rows that violate any constraint."""
        return self._violations[rows] > 0

    def refuses(self, row: int) -> bool:
        """Tell whether one row violates any constraint."""
        return bool(self._violations[row] > 0)

    def trial(self, rows: NDArray[np.intp], pods: MovingPods) -> Trial | None:
        """Return the counts in the domains of some rows."""
        namespace = self._shape.namespace
        return _SpreadTrial([_DomainTrial(one, rows, pods, namespace) for one in self._constraints], pods)

    def yielding(self) -> NDArray[np.bool_] | None:
        """Rows whose first violated constraint is not that they lack its label."""
        yields = np.zeros(self._state.capacity, dtype=np.bool_)
        is_open = np.ones(self._state.capacity, dtype=np.bool_)
        for one in self._constraints:
            has_label = one.domains.ids >= 0
            is_bad = one.is_bad[one.domains.ids]
            yields |= is_open & is_bad & has_label
            is_open &= ~is_bad
        return yields

    def refused_when_empty(self) -> NDArray[np.bool_] | None:
        """Refuse rows without the label; a domain where no pod runs is never ahead."""
        lacking = np.zeros(self._state.capacity, dtype=np.bool_)
        for one in self._constraints:
            lacking |= one.domains.ids < 0
        return lacking

    def note(self, change: Change) -> None:
        """Count the pod in the domains of its row."""
        shape = change.shape
        if shape is None or change.is_terminating:
            return
        for number in self._matches(shape):
            one = self._constraints[number]
            if one.is_eligible[change.row]:
                domain = int(one.domains.ids[change.row])
                one.counts[domain] += change.by
                if one.lowest is not None:
                    one.lowest[domain] += change.by
                self._touched.setdefault(number, set()).add(domain)

    def note_batch(self, batch: ChangeBatch) -> None:
        """Count the pods that any constraint selects."""
        journal = journal_of(self._state)
        concerns = self._relevance.of(batch.groups, journal.groups.shapes, self._is_counted)
        for number in np.flatnonzero(concerns):
            self.note(batch.changes[number])

    def _is_counted(self, shape: PodShape) -> bool:
        return bool(self._matches(shape))

    def _matches(self, shape: PodShape) -> tuple[int, ...]:
        """Return the numbers of the constraints that count pods of this shape."""
        if shape.namespace != self._shape.namespace:
            return ()
        matches = self._matches_of.get(shape)
        if matches is None:
            labels = dict(shape.labels)
            matches = tuple(
                number for number, one in enumerate(self._constraints) if _counts(one.rule.selector, labels)
            )
            self._matches_of[shape] = matches
        return matches

    def settle(self) -> NDArray[np.intp] | None:
        """Judge the domains that changed, or all of them when the minimum moved."""
        if not self._touched:
            return NO_ROWS
        touched: list[NDArray[np.intp]] = []
        is_everywhere = False
        for number, domains in self._touched.items():
            one = self._constraints[number]
            least = one.minimum()
            if least != one.least:
                one.least = least
                is_bad = one.judge()
                changed = np.flatnonzero(is_bad != one.is_bad)
                one.is_bad = is_bad
                if len(changed) > _MANY_DOMAINS:
                    is_everywhere = True
                    continue
                flipped = [int(domain) for domain in changed]
            else:
                flipped = [
                    domain
                    for domain in domains
                    if (one.counts[domain] > one.limit + least) != one.is_bad[domain]
                ]
            for domain in flipped:
                is_now_bad = bool(one.counts[domain] > one.limit + least)
                one.is_bad[domain] = is_now_bad
                rows = one.domains.rows(domain)
                self._violations[rows] += 1 if is_now_bad else -1
                touched.append(rows)
        self._touched.clear()
        if is_everywhere:
            self._judge_all()
            return None
        return np.concatenate(touched) if touched else NO_ROWS

    def reason(self, row: int) -> str:
        """Name each constraint that is violated, with its counts."""
        said: list[str] = []
        for one in self._constraints:
            domain = int(one.domains.ids[row])
            key = one.rule.topology_key
            if domain < 0:
                said.append(f"the node lacks the label {key} that the pod is spread over")
            elif one.is_bad[domain]:
                place = f"{key}={one.domains.values[domain]}"
                said.append(
                    f"{place} has {int(one.counts[domain])} matching pods, the emptiest domain {one.least}; "
                    f"one more would exceed maxSkew {one.rule.max_skew}"
                )
        return "; ".join(said)


class _DomainTrial:
    """How many pods one constraint counts in the domain of each row.

    Unlike bound pods, those that come and go count for an empty selector too, and when they are being deleted
    (`updateWithPod`).
    """

    __slots__ = ("_added", "_counts", "_elsewhere", "_limit", "_lowest", "_weights", "lacks_label")

    def __init__(self, one: _Constraint, rows: NDArray[np.intp], pods: MovingPods, namespace: str) -> None:
        domains = one.domains.ids[rows]
        selector = one.rule.selector
        self.lacks_label = domains < 0
        self._limit = one.limit
        self._counts = one.counts[domains]
        self._lowest = None if one.lowest is None else one.lowest[domains]
        self._elsewhere = None if one.lowest is None else _least_elsewhere(one.lowest, domains)
        self._added = np.zeros(len(rows), dtype=np.int64)
        is_counted = one.is_eligible[rows] & ~self.lacks_label
        self._weights = is_counted[pods.places] * pods.by_shape(
            lambda shape: (
                selector is not None and shape.namespace == namespace and selector.matches(dict(shape.labels))
            )
        )

    def count(self, numbers: NDArray[np.intp], places: NDArray[np.intp], by: int) -> None:
        np.add.at(self._added, places, by * self._weights[numbers])

    def is_ahead(self, places: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Tell which rows' domains would be too far ahead of the emptiest."""
        added, least = self._added[places], np.int64(0)
        if self._lowest is not None and self._elsewhere is not None:
            least = np.minimum(self._elsewhere[places], self._lowest[places] + added)
        return self._counts[places] + added > self._limit + least


class _SpreadTrial(Trial):
    """The constraints, each with the domains of the rows."""

    __slots__ = ("_constraints", "_places")

    def __init__(self, constraints: list[_DomainTrial], pods: MovingPods) -> None:
        self._constraints = constraints
        self._places = pods.places

    def count(self, numbers: NDArray[np.intp], by: int) -> None:
        places = self._places[numbers]
        for one in self._constraints:
            one.count(numbers, places, by)

    def verdicts(self, places: NDArray[np.intp]) -> NDArray[np.int8]:
        verdicts = np.zeros(len(places), dtype=np.int8)
        for one in reversed(self._constraints):  # the first that refuses has the last word
            verdicts[one.is_ahead(places)] = Verdict.REFUSES
            verdicts[one.lacks_label[places]] = Verdict.HOPELESS
        return verdicts


def _least_elsewhere(lowest: NDArray[np.int64], domains: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return for each of `domains` the least of all the others."""
    emptiest = int(lowest.argmin())
    least = int(lowest[emptiest])
    lowest[emptiest] = _NO_DOMAIN
    second = int(lowest.min())
    lowest[emptiest] = least
    return np.where(domains == emptiest, second, least)


def _counts(selector: LabelSelector | None, labels: dict[str, str]) -> bool:
    return selector is not None and bool(selector.requirements) and selector.matches(labels)
