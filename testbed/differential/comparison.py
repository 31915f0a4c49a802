"""One case judged by our constraints and scores and by kube-scheduler's, node for node.

Ours are asked as `stowplan feasible` asks them: `stowplan.kube.manifest` reads the objects, every filter is
compiled, and every pod is judged alone. What is compared, each of it a kind of mismatch of its own:

* `feasible`: the nodes that no filter refuses.
* `filter`: per filter, the nodes that it refuses when it is asked alone.
* `first`: per node, the filter that is named first.
* `best`: among feasible nodes, those with the highest total; kube-scheduler picks one of them, or the node
  that the pod is nominated for. Totals that differ without that are counted.

Where the answer tells what preemption would do, that is compared too (`testbed.differential.preemption`).

Our DynamicResources refuses on purpose whatever has resource claims, since kube-scheduler must allocate the
devices. Where kube-scheduler refuses less, the rest is compared without it; the case counts as left alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stowplan.core.constraints import FILTERS, CompiledFilters
from stowplan.core.domain import PendingTask, Phase, Task, Workflow, WorkflowProgress, WorkProfile
from stowplan.core.policy import CycleView
from stowplan.core.policy.kube import KubeScoring
from stowplan.errors import InvalidObject
from stowplan.kube.manifest import LoadedObjects, load_objects
from testbed.differential.oracle import Answer, Invalid, Panicked, PodVerdict, Verdicts
from testbed.differential.preemption import Crowd, compare_preemption
from testbed.differential.tally import Mismatch, Tally

__all__ = ["Scoring", "compare"]

_DEVICES: Final = "DynamicResources"
_DEVICES_BIT: Final = 1 << FILTERS.index(_DEVICES)
_BIT_OF: Final = {name: 1 << number for number, name in enumerate(FILTERS)}
_NUMBER_OF: Final = {name: number + 1 for number, name in enumerate(FILTERS)}
_WORK: Final = WorkProfile((Phase(1.0),))
_SHOWN_NODES: Final = 5

Masks = Mapping[str, NDArray[np.bool_]]


def compare(objects: Sequence[Mapping[str, Any]], answer: Answer, *, has_scores: bool = True) -> Tally:
    """Judge the pods of a case and compare with kube-scheduler's answer.

    Args:
        objects: The case.
        answer: What the oracle says of the same objects.
        has_scores: Compare the scores too; the answer must have them.

    Returns:
        The sums of this one case, with what differs.
    """
    tally = Tally(clusters=1)
    match answer:
        case Invalid():
            for one in answer.objects:
                tally.note(Mismatch(kind="invalid", pod=f"{one.kind} {one.name}", theirs=one.message))
        case Panicked():
            theirs = f"{answer.at}: {answer.message}\n" + "\n".join(answer.frames[:8])
            tally.note(Mismatch(kind="panic", pod=answer.pod, filter=answer.at, theirs=theirs))
        case Verdicts():
            try:
                loaded = load_objects(objects)
            except InvalidObject as error:
                tally.note(Mismatch(kind="loading", ours=str(error)))
                return tally
            _Case(loaded, answer, tally, objects).compare(has_scores=has_scores)
    return tally


@dataclass(slots=True)
class _Case:
    loaded: LoadedObjects
    verdicts: Verdicts
    tally: Tally
    objects: Sequence[Mapping[str, Any]]
    rows: NDArray[np.intp] = field(init=False)
    number_of_plugin: NDArray[np.int8] = field(init=False)
    scoring: Scoring | None = None
    crowd: Crowd | None = None

    def __post_init__(self) -> None:
        state = self.loaded.state
        self.rows = np.array([state.row(name) for name in self.verdicts.nodes], dtype=np.intp)
        numbers = [0, *(_NUMBER_OF.get(name, -1) for name in self.verdicts.plugins)]
        self.number_of_plugin = np.array(numbers, dtype=np.int8)

    def compare(self, *, has_scores: bool) -> None:
        ours = [pod.key for pod in self.loaded.pending]
        if sorted(ours) != sorted(self.verdicts.pods):
            self.tally.note(Mismatch(kind="pods", ours=f"{ours}", theirs=f"{list(self.verdicts.pods)}"))
            return
        for index, pod in enumerate(self.loaded.pending):
            compiled = CompiledFilters(self.loaded.state, pod.shape)
            verdict = self.verdicts.pods[pod.key]
            self._compare_filters(pod.key, compiled, verdict)
            if verdict.preemption is not None and not pod.shape.resource_claims:
                if self.crowd is None:
                    self.crowd = Crowd(self.loaded, self.objects)
                emptying = self.crowd.emptying(pod.key, compiled)
                compare_preemption(pod.key, emptying, verdict, self.verdicts, self.tally)
            if has_scores and verdict.total:
                if self.scoring is None:
                    self.scoring = Scoring(self.loaded)
                self._compare_scores(
                    pod.key, self.scoring.totals(index, compiled)[self.rows], compiled, verdict
                )

    def _compare_filters(self, key: str, compiled: CompiledFilters, verdict: PodVerdict) -> None:
        bits = compiled.refusing_bits()[self.rows]
        first = compiled.refused_by[self.rows]
        tally = self.tally
        tally.cases += 1
        tally.judgements += len(bits)
        theirs = {name: self.verdicts.mask(refused) for name, refused in verdict.refused.items()}
        is_left_alone = bool((bits & _DEVICES_BIT).any()) and not theirs.get(_DEVICES, np.False_).all()
        if is_left_alone:
            tally.left_alone += 1
            bits &= ~_DEVICES_BIT
            theirs.pop(_DEVICES, None)
        for name in {*theirs, *(name for name, bit in _BIT_OF.items() if (bits & bit).any())}:
            mine = (bits & _BIT_OF.get(name, 0)) != 0
            differs = mine != theirs.get(name, np.False_)
            if differs.any():
                self._note("filter", key, compiled, differs, verdict, name)
        is_feasible = bits == 0
        tally.feasible += int(np.count_nonzero(is_feasible))
        self._count_decisive(bits)
        if is_left_alone:  # what the others say together; kube-scheduler's own feasible nodes are with it
            differs = np.any([*theirs.values(), np.zeros_like(is_feasible)], axis=0) == is_feasible
        else:
            differs = self.verdicts.mask(verdict.feasible) != is_feasible
        if differs.any():
            self._note("feasible", key, compiled, differs, verdict)
        differs = self.number_of_plugin[np.frombuffer(verdict.first, dtype=np.uint8)] != first
        if differs.any() and not is_left_alone:
            self._note("first", key, compiled, differs, verdict)

    def _count_decisive(self, bits: NDArray[np.int32]) -> None:
        tally = self.tally
        for number, name in enumerate(FILTERS):
            decided = int(np.count_nonzero(bits == 1 << number))
            if decided:
                tally.decisive[name] = tally.decisive.get(name, 0) + decided
                tally.decisive_cases[name] = tally.decisive_cases.get(name, 0) + 1

    def _note(
        self,
        kind: str,
        key: str,
        compiled: CompiledFilters,
        differs: NDArray[np.bool_],
        verdict: PodVerdict,
        name: str = "",
    ) -> None:
        places = np.flatnonzero(differs)
        place = int(places[0])
        row = int(self.rows[place])
        number = verdict.first[place]
        theirs = "feasible" if number == 0 else f"first {self.verdicts.plugins[number - 1]}"
        for reason in verdict.reasons:
            if self.verdicts.mask(reason.nodes)[place] and name in ("", reason.plugin):
                theirs += f"; {reason.plugin} {reason.step} {reason.code}: {reason.reason}"
        refusing = ", ".join(compiled.all_refusing(row)) or "nothing"
        self.tally.note(
            Mismatch(
                kind=kind,
                pod=key,
                filter=name,
                nodes=tuple(self.verdicts.nodes[one] for one in places[:_SHOWN_NODES]),
                ours=f"refused by {refusing}; {compiled.reason(row) or 'feasible'}",
                theirs=theirs,
            )
        )

    def _compare_scores(
        self, key: str, scores: NDArray[np.float64], compiled: CompiledFilters, verdict: PodVerdict
    ) -> None:
        places = np.flatnonzero(self.verdicts.mask(verdict.feasible))
        if len(places) < 2 or not compiled.feasible[self.rows[places]].all():
            return
        ours = scores[places]
        theirs = np.array(verdict.total, dtype=np.float64)
        nominated = compiled.shape.own_nomination and self.loaded.state.nominations.node_of(key)
        if nominated in {
            self.verdicts.nodes[place] for place in places
        }:  # it is tried first, and then no other
            theirs = np.array([self.verdicts.nodes[place] == nominated for place in places], dtype=np.float64)
            ours = np.where(np.isneginf(ours), 0.0, 1.0)
        tally = self.tally
        tally.scored += 1
        our_best, their_best = ours == ours.max(), theirs == theirs.max()
        tally.totals_equal += bool(np.array_equal(ours, theirs))
        tally.best_equal += bool(np.array_equal(our_best, their_best))
        tally.best_within += not (their_best & ~our_best).any()
        if (their_best != our_best).any():
            place = int(np.flatnonzero(their_best != our_best)[0])
            parts = {name: part[place] for name, part in verdict.scores.items()}
            mine = self.scoring.parts(int(self.rows[places[place]])) if self.scoring is not None else {}
            tally.note(
                Mismatch(
                    kind="best",
                    pod=key,
                    nodes=(self.verdicts.nodes[places[place]],),
                    ours=f"{ours[place]:g}, best {ours.max():g}; {mine}",
                    theirs=f"{theirs[place]:g}, best {theirs.max():g}; {parts}",
                )
            )


class Scoring:
    """Our kube-scheduler policy on one cluster."""

    def __init__(self, loaded: LoadedObjects) -> None:
        """Score the cluster's pending pods, each by itself."""
        self._rule = KubeScoring()
        self._tasks: list[PendingTask] = []
        for pod in loaded.pending:
            progress = WorkflowProgress(pod.key, Workflow(pod.key, (Task("t", pod.shape, _WORK, 1.0),)), 0.0)
            self._tasks.append(PendingTask(pod.key, progress, 0, 0.0))
        self._last = 0
        self._rule.begin(CycleView(loaded.state, 0.0, self._tasks, np.random.default_rng(0)))

    def totals(self, index: int, compiled: CompiledFilters) -> NDArray[np.float64]:
        """Return the totals for the pod number `index`, by row, right where it is feasible."""
        self._last = index
        return self._rule.scores(self._tasks[index], compiled)

    def parts(self, row: int) -> Mapping[str, float]:
        """Return what the last total of `row` is made of."""
        return self._rule.contributions(self._tasks[self._last], row)
