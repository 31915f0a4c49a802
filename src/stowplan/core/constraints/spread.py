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
from stowplan.core.constraints.filter import ALL_ROWS, NO_ROWS, NodeFilter, Rows, RowTrial, Verdict
from stowplan.core.constraints.journal import ChangeBatch, Relevance, journal_of
from stowplan.core.constraints.matching import required_affinity_met, untolerated_table
from stowplan.core.domain import (
    BoundPod,
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
        self._relevance = Relevance(lambda other: bool(self._matches(other)))

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

    def trial(self, row: int) -> RowTrial:
        """Return the counts in the domains of one row."""
        return _SpreadTrial(self._shape.namespace, self._constraints, row)

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
        for number in np.flatnonzero(self._relevance.of(batch.groups, journal.groups.shapes)):
            self.note(batch.changes[number])

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


class _SpreadTrial(RowTrial):
    """How many pods each constraint counts in the row's domain.

    Unlike bound pods, those that come and go count for an empty selector too, and when they are being deleted
    (`updateWithPod`).
    """

    __slots__ = ("_added", "_constraints", "_counted", "_namespace", "_others")

    def __init__(self, namespace: str, constraints: list[_Constraint], row: int) -> None:
        super().__init__(Verdict.ACCEPTS)
        self._namespace = namespace
        self._constraints = [(one, int(one.domains.ids[row])) for one in constraints]
        self._counted = [
            (number, one.rule.selector)
            for number, (one, domain) in enumerate(self._constraints)
            if domain >= 0 and one.is_eligible[row] and one.rule.selector is not None
        ]
        self._added = [0] * len(constraints)
        self._others = [_least_elsewhere(one, domain) for one, domain in self._constraints]

    def count(self, pod: BoundPod, by: int) -> None:
        if self._counted and pod.shape.namespace == self._namespace:
            labels = dict(pod.shape.labels)
            for number, selector in self._counted:
                if selector.matches(labels):
                    self._added[number] += by

    def verdict(self) -> Verdict:
        for (one, domain), added, others in zip(self._constraints, self._added, self._others, strict=True):
            if domain < 0:
                return Verdict.HOPELESS
            least = 0 if one.lowest is None else min(others, int(one.lowest[domain]) + added)
            if one.counts[domain] + added > one.limit + least:
                return Verdict.REFUSES
        return Verdict.ACCEPTS


def _least_elsewhere(one: _Constraint, domain: int) -> int:
    """Return the least of all domains but one."""
    lowest = one.lowest
    if lowest is None or domain < 0:
        return 0
    here = lowest[domain]
    lowest[domain] = _NO_DOMAIN
    least = int(lowest.min())
    lowest[domain] = here
    return least


def _counts(selector: LabelSelector | None, labels: dict[str, str]) -> bool:
    return selector is not None and bool(selector.requirements) and selector.matches(labels)
