"""The real kube-scheduler's verdict on a case against ours, and against the oracle's, node for node.

The oracle is asked about the case as it is written: its own defaults and admission are then proved too. We
are asked twice: about the case as it is written, as a file would have it, and as the API server held it.
Kinds of mismatch:

* `feasible`, `held`: our nodes that no filter refuses, as written and as held, are not those that the
  extender was told of.
* `oracle`: the oracle's are not.
* `best`: the node that was chosen is not among our best; `oracle-best`: not among the oracle's.
* `oracle-scores`: some node's score is not the oracle's. Where ours differs without that the best do, it is
  only counted.
* `outcome`: the oracle and kube-scheduler differ in whether the pod is looked at at all, or whether that ends
  with a node, with none, with an error or a crash. After an error of a filter no node is known to have
  passed, so no nodes are compared.
* `words`: kube-scheduler counts other reasons in its message than the oracle.
* `refused`: one takes the case's objects, the other does not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np

from stowplan.core.constraints import CompiledFilters
from stowplan.kube.manifest import load_objects
from testbed.differential.comparison import Scoring
from testbed.differential.oracle import Answer, Invalid, Panicked, PodVerdict, Verdicts
from testbed.differential.real_scheduler import Outcome, RealAnswer, RealVerdict, Refused
from testbed.differential.tally import Mismatch, Sums
from testbed.spec import Json

__all__ = ["RealTally", "compare_real", "expected_reasons", "reasons_in"]

_SHOWN_NODES: Final = 5
_BY_ITSELF: Final = "PreEnqueue"
_DEVICES: Final = "DynamicResources"
_PANICKED: Final = "panicked: "
_WITHOUT_NODES: Final = (Outcome.GAVE_UP, Outcome.CRASHED)


class RealTally(Sums, kw_only=True):
    """Sums over cases; a case is one pod that waits, in one cluster.

    Attributes:
        outcomes: What became of the pods.
        chosen: Pods for which a node was chosen of two or more.
        chosen_in_our_best: Those for which it is among our best.
        chosen_in_oracle_best: Those for which it is among the oracle's.
        scored: Those that were not nominated for one of their nodes, which we score no other then.
        our_totals_equal: Of these, those for which our score of every feasible node is kube-scheduler's.
        worded: Pods without a node whose reasons were compared.
    """

    outcomes: dict[str, int] = msgspec.field(default_factory=dict[str, int])
    chosen: int = 0
    chosen_in_our_best: int = 0
    chosen_in_oracle_best: int = 0
    scored: int = 0
    our_totals_equal: int = 0
    worded: int = 0


@dataclass(frozen=True, slots=True)
class _Ours:
    """What we say of one pod.

    Attributes:
        feasible: The nodes that no filter refuses.
        best: Those of them with the highest score.
        totals: Their scores.
        why: By node, why it is refused.
    """

    feasible: frozenset[str]
    best: frozenset[str]
    totals: dict[str, float]
    why: dict[str, str]


def compare_real(objects: Sequence[Json], real: RealAnswer | Refused, oracle: Answer) -> RealTally:
    """Compare the answers to a case.

    Args:
        objects: The case.
        real: The real scheduler's answer.
        oracle: The oracle's answer to the same objects, with validation, scores and reasons.

    Returns:
        The sums of this one case, with what differs.
    """
    tally = RealTally(clusters=1)
    if isinstance(real, Refused) or not isinstance(oracle, Verdicts):
        if isinstance(real, Refused) and isinstance(oracle, Invalid):
            tally.outcomes["REFUSED"] = 1
        else:
            tally.note(Mismatch(kind="refused", ours=_not_judged(oracle), theirs=_not_judged(real)))
        return tally
    written, held = _ours(objects), _ours(real.objects)
    pods = {_key(one): one for one in objects if one["kind"] == "Pod"}
    for pod, verdict in real.verdicts.items():
        tally.cases += 1
        name = verdict.outcome.name
        tally.outcomes[name] = tally.outcomes.get(name, 0) + 1
        nominated = pods[pod].get("status", {}).get("nominatedNodeName")
        has_claims = "resourceClaims" in pods[pod]["spec"]
        one = _Case(tally, pod, verdict, oracle, oracle.pods[pod], nominated, has_claims)
        one.compare(written[pod], held[pod])
    return tally


@dataclass(frozen=True, slots=True)
class _Case:
    tally: RealTally
    pod: str
    real: RealVerdict
    verdicts: Verdicts
    oracle: PodVerdict
    nominated_for: str | None
    has_resource_claims: bool

    def compare(self, written: _Ours, held: _Ours) -> None:
        real, tally = self.real, self.tally
        expected = _expected_outcome(self.verdicts, self.oracle)
        if real.outcome is not expected:
            self._note("outcome", f"{expected.value}", f"{real.outcome.value}: {real.message}")
        if real.outcome in _WITHOUT_NODES and not real.feasible:
            return
        tally.judgements += len(self.verdicts.nodes)
        tally.feasible += len(real.feasible)
        is_left_alone = self._is_left_alone()
        tally.left_alone += is_left_alone
        if not is_left_alone:
            self._same("feasible", written.feasible, written.why)
            self._same("held", held.feasible, held.why)
        self._same("oracle", self.verdicts.names(self.oracle.feasible), {})
        if real.outcome is Outcome.UNSCHEDULABLE and not self._is_refused_twice():
            tally.worded += 1
            ours, theirs = expected_reasons(self.verdicts, self.oracle), reasons_in(real.message)
            if ours != theirs:
                self._note("words", str(dict(ours - theirs)), str(dict(theirs - ours)))
        if real.chosen is not None and len(real.feasible) > 1 and not is_left_alone:
            self._compare_chosen(written)

    def _is_left_alone(self) -> bool:
        """Whether the pod has claims to devices that kube-scheduler sees to: we leave it to it on purpose."""
        refused = self.oracle.refused.get(_DEVICES)
        is_refused = refused is not None and bool(self.verdicts.mask(refused).all())
        return self.has_resource_claims and not is_refused

    def _is_refused_twice(self) -> bool:
        """Whether the node that the pod is nominated for was left out by a PreFilter.

        That node is tried by the filters all the same, and has their words instead.
        """
        left_out = self.oracle.ruled_out.values()
        return any(self.nominated_for in self.verdicts.names(bitmap) for bitmap in left_out)

    def _compare_chosen(self, ours: _Ours) -> None:
        tally, chosen = self.tally, self.real.chosen
        tally.chosen += 1
        totals = _oracle_totals(self.verdicts, self.oracle)
        if chosen is not None and chosen in totals and totals[chosen] == max(totals.values()):
            tally.chosen_in_oracle_best += 1
        else:
            self._note("oracle-best", f"{totals}", f"{chosen}")
        if totals != dict(self.real.totals):
            nodes = sorted(name for name, _ in totals.items() ^ self.real.totals.items())
            ours_there, theirs_there = totals.get(nodes[0]), self.real.totals.get(nodes[0])
            self._note("oracle-scores", f"{ours_there}", f"{theirs_there}", list(dict.fromkeys(nodes)))
        if self.real.nominated is None:
            tally.scored += 1
            tally.our_totals_equal += ours.totals == self.real.totals
        # Where the nominated node fits, that one is ours, as it would have been kube-scheduler's.
        nominated = self.real.nominated
        if chosen in ours.best if nominated is None else ours.best == frozenset({nominated}):
            tally.chosen_in_our_best += 1
        else:
            self._note("best", f"{sorted(ours.best)}", f"{nominated or chosen}")

    def _same(self, kind: str, feasible: frozenset[str], why: dict[str, str]) -> None:
        differing = feasible ^ self.real.feasible
        if not differing:
            return
        nodes = sorted(differing)
        first = nodes[0]
        ours = "feasible" if first in feasible else f"refused: {why.get(first, '')}"
        theirs = "feasible" if first in self.real.feasible else f"refused: {self._words(first)}"
        self._note(kind, ours, theirs, nodes)

    def _words(self, node: str) -> str:
        """Why the oracle refuses a node."""
        place = self.verdicts.nodes.index(node)
        return "; ".join(
            f"{one.plugin} {one.step}: {one.reason}"
            for one in self.oracle.reasons
            if self.verdicts.mask(one.nodes)[place]
        )

    def _note(self, kind: str, ours: str, theirs: str, nodes: Sequence[str] = ()) -> None:
        self.tally.note(
            Mismatch(kind=kind, pod=self.pod, nodes=tuple(nodes[:_SHOWN_NODES]), ours=ours, theirs=theirs)
        )


def _not_judged(answer: RealAnswer | Refused | Answer) -> str:
    match answer:
        case Refused():
            return answer.message
        case Invalid():
            return "; ".join(f"{one.kind} {one.name}: {one.message}" for one in answer.objects)
        case Panicked():
            return f"panic at {answer.at} for pod {answer.pod}: {answer.message}"
        case _:
            return "judged"


def _key(pod: Json) -> str:
    return f"{pod['metadata'].get('namespace', 'default')}/{pod['metadata']['name']}"


def _ours(objects: Sequence[Json]) -> dict[str, _Ours]:
    loaded = load_objects(objects)
    scoring = Scoring(loaded)
    found: dict[str, _Ours] = {}
    for index, pod in enumerate(loaded.pending):
        compiled = CompiledFilters(loaded.state, pod.shape)
        scores = scoring.totals(index, compiled)
        totals = {name: float(scores[row]) for name, row in loaded.state.rows() if compiled.feasible[row]}
        highest = max(totals.values(), default=-np.inf)
        found[pod.key] = _Ours(
            frozenset(totals),
            frozenset(name for name, total in totals.items() if total == highest),
            totals,
            {name: compiled.reason(row) or "" for name, row in loaded.state.rows() if name not in totals},
        )
    return found


def _oracle_totals(verdicts: Verdicts, oracle: PodVerdict) -> dict[str, int]:
    places = np.flatnonzero(verdicts.mask(oracle.feasible))
    if len(oracle.total) != len(places):
        return {}
    return {verdicts.nodes[place]: total for place, total in zip(places, oracle.total, strict=True)}


# ---- kube-scheduler's words ----


def _expected_outcome(verdicts: Verdicts, oracle: PodVerdict) -> Outcome:
    """What the oracle's verdict means for the pod."""
    if any(one.step == _BY_ITSELF for one in oracle.reasons):
        return Outcome.NEVER_QUEUED
    if oracle.unscored.startswith(_PANICKED):
        return Outcome.CRASHED
    if oracle.failed or oracle.unscored:
        return Outcome.GAVE_UP
    is_feasible = verdicts.mask(oracle.feasible).any()
    return Outcome.CHOSEN if is_feasible else Outcome.UNSCHEDULABLE


def expected_reasons(verdicts: Verdicts, oracle: PodVerdict) -> Counter[str]:
    """How many nodes kube-scheduler counts for each reason of a pod without a node (`FitError`).

    A pod that is refused as a whole has one reason, counted once; nodes that a PreFilter left out have one
    that names the plugins that did.
    """
    first = np.frombuffer(oracle.first, dtype=np.uint8)
    counted: Counter[str] = Counter()
    left_out = np.zeros(len(first), dtype=np.bool_)
    for bitmap in oracle.ruled_out.values():
        left_out |= verdicts.mask(bitmap)
    for one in oracle.reasons:
        number = verdicts.plugins.index(one.plugin) + 1
        if one.step == "PreFilter":
            if (first == number).all():
                return Counter(one.reason.split(", "))
            continue
        if one.step == "Filter":
            count = int(np.count_nonzero(verdicts.mask(one.nodes) & (first == number) & ~left_out))
            for reason in one.reason.split(", ") if count else ():
                counted[reason] += count
    if left_out.any():
        names = " ".join(sorted(oracle.ruled_out))
        counted[f"node(s) didn't satisfy plugin(s) [{names}]"] += int(np.count_nonzero(left_out))
    return counted


def reasons_in(message: str) -> Counter[str]:
    """Return the reasons in kube-scheduler's message, with the number of nodes where it names one."""
    _, _, listed = message.partition(" nodes are available: ")
    counted: Counter[str] = Counter()
    for part in listed.rstrip().removesuffix(".").split(", "):
        number, _, reason = part.partition(" ")
        if number.isdecimal():
            counted[reason] += int(number)
        else:
            counted[part] += 1
    return counted
