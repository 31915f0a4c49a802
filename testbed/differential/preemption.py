"""Our preemption on the objects of a case, and how it compares with kube-scheduler's.

Every node is tried on both sides, whatever the number of candidates: then nothing depends on an offset.
What is compared, each a kind of mismatch:

* `eligible`: whether the pod may preempt at all.
* `potential`: the nodes on which preemption is tried.
* `victims`: the nodes on which it helps, and for each the victims in order and the broken budgets.
* `chosen`: kube-scheduler's choice is one of those that we hold for equally good.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from random import Random
from typing import Any, Final

from stowplan.core.constraints import CompiledFilters
from stowplan.core.domain import DisruptionBudget
from stowplan.core.preemption import Candidate, SearchSettings, preference, search, why_not_eligible
from stowplan.kube.manifest import LoadedObjects
from stowplan.kube.manifest.budgets import read_budget
from stowplan.kube.manifest.cursor import Cursor
from testbed.differential.oracle import PodVerdict, Verdicts
from testbed.differential.tally import Mismatch, Tally

__all__ = ["Crowd", "Emptying", "compare_preemption"]

_EVERY_NODE: Final = SearchSettings(examines_all=True)
_PREEMPTED: Final = ("True", "PreemptionByScheduler")

Objects = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Emptying:
    """What preemption would do for one pod.

    Attributes:
        ineligible: Why it may not preempt now.
        potential: Nodes on which it is tried.
        victims: By node on which it helps, the pods that must go, and how many budgets that breaks.
        equally_good: Nodes of which one is chosen.
    """

    ineligible: str
    potential: frozenset[str]
    victims: Mapping[str, tuple[tuple[str, ...], int]]
    equally_good: frozenset[str]


class Crowd:
    """What preemption needs to know of the objects of a case besides the cluster."""

    def __init__(self, loaded: LoadedObjects, objects: Objects) -> None:
        """Read it from `objects`, of which `loaded` was made."""
        self._state = loaded.state
        self._budgets: list[DisruptionBudget] = []
        self._started_s: dict[str, float] = {}
        self._leaving: set[str] = set()
        self._pods: dict[str, Mapping[str, Any]] = {}
        for one in objects:
            metadata = one["metadata"]
            namespace, name = metadata.get("namespace", "default"), metadata["name"]
            if one["kind"] == "PodDisruptionBudget":
                self._budgets.append(read_budget(namespace, name, Cursor(one, f"budget {name}")))
            elif one["kind"] == "Pod":
                self._read_pod(f"{namespace}/{name}", one)

    def _read_pod(self, key: str, pod: Mapping[str, Any]) -> None:
        self._pods[key] = pod
        status = pod.get("status") or {}
        if status.get("startTime"):
            self._started_s[key] = datetime.fromisoformat(status["startTime"]).timestamp()
        if "deletionTimestamp" in pod["metadata"]:
            self._read_conditions(key, status.get("conditions") or ())

    def _read_conditions(self, key: str, conditions: Sequence[Mapping[str, str]]) -> None:
        for condition in conditions:
            if condition.get("type") == "DisruptionTarget":  # only the first is looked at
                if (condition.get("status"), condition.get("reason")) == _PREEMPTED:
                    self._leaving.add(key)
                break

    def _started(self, key: str) -> float:
        return self._started_s.get(key, math.inf)

    def emptying(self, key: str, compiled: CompiledFilters) -> Emptying:
        """Return what we would do for a pod."""
        state, pod = self._state, self._pods[key]
        ineligible = why_not_eligible(
            state,
            compiled,
            can_preempt=pod["spec"].get("preemptionPolicy") != "Never",
            nominated=(pod.get("status") or {}).get("nominatedNodeName", ""),
            is_leaving=self._leaving.__contains__,
        )
        found = search(
            state,
            compiled,
            self._budgets,
            self._started,
            settings=_EVERY_NODE,
            generator=Random(0),  # noqa: S311  (a seeded test)
        )
        best = found.best and preference(found.best, self._started)
        yielding = compiled.yielding()
        return Emptying(
            ineligible,
            frozenset(name for name, row in state.rows() if yielding[row]),
            {one.node_name: _told(one) for one in found.candidates},
            frozenset(one.node_name for one in found.candidates if preference(one, self._started) == best),
        )


def _told(candidate: Candidate) -> tuple[tuple[str, ...], int]:
    return tuple(pod.key for pod in candidate.victims), candidate.violations


def compare_preemption(
    key: str, ours: Emptying, verdict: PodVerdict, verdicts: Verdicts, tally: Tally
) -> None:
    """Compare what we and kube-scheduler would do for a pod, and add it to `tally`."""
    theirs = verdict.preemption
    if theirs is None:
        return
    tally.preemptions += 1
    tally.helped += bool(theirs.candidates)
    tally.emptied += len(theirs.candidates)
    tally.breaking += sum(one.violations > 0 for one in theirs.candidates)
    tally.ineligible += bool(theirs.ineligible)
    if bool(ours.ineligible) != bool(theirs.ineligible):
        tally.note(
            Mismatch(kind="eligible", pod=key, ours=f"{ours.ineligible!r}", theirs=f"{theirs.ineligible!r}")
        )
    potential = verdicts.names(theirs.potential)
    if potential != ours.potential:
        nodes = tuple(sorted(potential ^ ours.potential))
        said = f"tried on {nodes[0]}: {nodes[0] in ours.potential}"
        reasons = [
            f"{reason.plugin} {reason.code}: {reason.reason}"
            for reason in verdict.reasons
            if nodes[0] in verdicts.names(reason.nodes)
        ]
        tally.note(Mismatch(kind="potential", pod=key, nodes=nodes[:5], ours=said, theirs="; ".join(reasons)))
    there = {one.node: (one.victims, one.violations) for one in theirs.candidates}
    if there != ours.victims:
        either = sorted(there.keys() | ours.victims.keys())
        nodes = tuple(node for node in either if there.get(node) != ours.victims.get(node))
        node = nodes[0]
        tally.note(
            Mismatch(
                kind="victims",
                pod=key,
                nodes=nodes[:5],
                ours=f"{ours.victims.get(node)}",
                theirs=f"{there.get(node)}",
            )
        )
    elif there and theirs.chosen not in ours.equally_good:
        tally.note(
            Mismatch(
                kind="chosen",
                pod=key,
                nodes=(theirs.chosen, *sorted(ours.equally_good)[:4]),
                ours=f"{sorted(ours.equally_good)}",
                theirs=theirs.chosen,
            )
        )
