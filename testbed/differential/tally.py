"""What a run of the differential test adds up: what was compared, which filters decided, what differed."""

from __future__ import annotations

from collections import Counter
from typing import Final, Self

import msgspec

__all__ = ["KEPT_MISMATCHES", "Mismatch", "Sums", "Tally"]

KEPT_MISMATCHES: Final = 200
"""Of more, only the number is kept."""


class Mismatch(msgspec.Struct, frozen=True, kw_only=True):
    """One difference.

    Attributes:
        kind: One of the comparison's (`feasible`, `filter`, `first`, `best`), `pods` (others are judged),
            `loading` (we refuse an object that the API accepts), `invalid` (the API refuses one of the
            generator's) or `panic` (of one of kube-scheduler's plugins).
        seed: Of the case.
        emphasis: Of the case.
        pod: `namespace/name`.
        filter: The filter that differs, where it is one.
        nodes: Where, some of them.
        ours: What we say, of the first of them.
        theirs: What kube-scheduler says.
    """

    kind: str
    seed: int = 0
    emphasis: str = ""
    pod: str = ""
    filter: str = ""
    nodes: tuple[str, ...] = ()
    ours: str = ""
    theirs: str = ""


class Sums(msgspec.Struct, kw_only=True):
    """What every run adds up; a case is one pod that waits, in one cluster.

    Attributes:
        clusters: How many were made.
        cases: How many pods were judged.
        judgements: How many pods and nodes, in pairs.
        feasible: In how many of those no filter refused the pod.
        left_alone: Cases left to kube-scheduler on purpose (resource claims), which itself refuses less.
        differing: Mismatches by kind.
        mismatches: The first of them.
    """

    clusters: int = 0
    cases: int = 0
    judgements: int = 0
    feasible: int = 0
    left_alone: int = 0
    differing: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    mismatches: list[Mismatch] = msgspec.field(default_factory=list[Mismatch])

    @property
    def different(self) -> int:
        """How many mismatches there are of any kind."""
        return sum(self.differing.values())

    def note(self, mismatch: Mismatch) -> None:
        """Add a mismatch."""
        self.differing[mismatch.kind] = self.differing.get(mismatch.kind, 0) + 1
        if len(self.mismatches) < KEPT_MISMATCHES:
            self.mismatches.append(mismatch)

    def add(self, other: Self) -> None:
        """Add the sums of another run."""
        for name in self.__struct_fields__:
            mine, theirs = getattr(self, name), getattr(other, name)
            if isinstance(mine, dict):
                setattr(self, name, dict(Counter(mine) + Counter(theirs)))
            elif isinstance(mine, list):
                setattr(self, name, [*mine, *theirs][:KEPT_MISMATCHES])
            else:
                setattr(self, name, mine + theirs)


class Tally(Sums, kw_only=True):
    """Sums of a run against the oracle.

    Attributes:
        decisive_cases: By filter, in how many cases it was the only one to refuse some node.
        decisive: By filter, of how many pairs it was the only one to refuse.
        scored: Cases with two feasible nodes or more, whose scores were compared.
        best_equal: Those in which the best nodes are the same.
        best_within: Those in which all of kube-scheduler's best nodes are among ours.
        totals_equal: Those in which every total is the same.
        preemptions: Cases whose preemption was compared.
        helped: Those in which it would help on some node.
        ineligible: Those in which the pod may not preempt.
        emptied: Nodes on which it would help, over all cases.
        breaking: Those on which it would break a disruption budget.
    """

    decisive_cases: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    decisive: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    scored: int = 0
    best_equal: int = 0
    best_within: int = 0
    totals_equal: int = 0
    preemptions: int = 0
    helped: int = 0
    ineligible: int = 0
    emptied: int = 0
    breaking: int = 0
