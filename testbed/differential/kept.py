"""A case with kube-scheduler's verdict, small enough to be kept as a file and checked without the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from stowplan.core.constraints import FILTERS, CompiledFilters
from stowplan.kube.manifest import load_objects
from testbed.differential.comparison import Scoring
from testbed.differential.generator import Manifest
from testbed.differential.oracle import Preempting, Verdicts
from testbed.differential.preemption import Crowd, Emptying
from testbed.differential.tally import Mismatch

__all__ = [
    "Expected",
    "ExpectedPreemption",
    "KeptCase",
    "expected_of",
    "ours",
    "read_case",
    "write_case",
]


class ExpectedPreemption(msgspec.Struct, frozen=True, omit_defaults=True):
    """What preemption would do for one pod.

    Attributes:
        is_eligible: Whether the pod may preempt.
        potential: The nodes on which it is tried, sorted.
        victims: By node on which it helps, the pods that must go, in order.
        violations: By node, how many of them a budget should have kept, where there are any.
        chosen: Nodes that are the best; of equal ones, kube-scheduler names any one.
    """

    is_eligible: bool = True
    potential: list[str] = []
    victims: dict[str, list[str]] = {}
    violations: dict[str, int] = {}
    chosen: list[str] = []


class Expected(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is said of one pod.

    Attributes:
        refused: By filter, the nodes that it refuses when it is asked alone, sorted.
        first: By node that is refused, the filter that is named.
        best: The nodes with the highest score, sorted.
        preemption: What preemption would do, where that was asked.
    """

    refused: dict[str, list[str]] = {}
    first: dict[str, str] = {}
    best: list[str] = []
    preemption: ExpectedPreemption | None = None


class KeptCase(msgspec.Struct, frozen=True, omit_defaults=True):
    """One kept case.

    Attributes:
        note: What was wrong when it was found.
        kind: The kind of mismatch.
        filter: The filter that differed, where it was one.
        seed: The case that it was shrunk from.
        objects: The objects.
        pods: kube-scheduler's verdict by pod.
    """

    note: str
    kind: str
    filter: str
    seed: int
    objects: list[Manifest]
    pods: dict[str, Expected]


def expected_of(objects: Sequence[Manifest], verdicts: Verdicts) -> dict[str, Expected]:
    """Return what kube-scheduler says of the pods among `objects`."""
    promised = {
        f"{one['metadata'].get('namespace', 'default')}/{one['metadata']['name']}": one["status"][
            "nominatedNodeName"
        ]
        for one in objects
        if one.get("status", {}).get("nominatedNodeName")
    }
    said: dict[str, Expected] = {}
    for key, verdict in verdicts.pods.items():
        places = np.flatnonzero(verdicts.mask(verdict.feasible))
        best = [
            verdicts.nodes[place]
            for place, total in zip(places, verdict.total, strict=False)
            if total == max(verdict.total)
        ]
        if promised.get(key) in verdicts.names(verdict.feasible):  # it is tried before all others
            best = [promised[key]]
        said[key] = Expected(
            {name: sorted(nodes) for name, nodes in sorted(verdicts.refused_by(key).items())},
            {node: name for node, name in verdicts.first_of(key).items() if name is not None},
            sorted(best),
            None if verdict.preemption is None else _theirs(verdict.preemption, verdicts),
        )
    return said


def _theirs(said: Preempting, verdicts: Verdicts) -> ExpectedPreemption:
    return ExpectedPreemption(
        is_eligible=not said.ineligible,
        potential=sorted(verdicts.names(said.potential)),
        victims={one.node: list(one.victims) for one in sorted(said.candidates, key=lambda one: one.node)},
        violations={one.node: one.violations for one in said.candidates if one.violations},
        chosen=[said.chosen] if said.chosen else [],
    )


def _ours(said: Emptying) -> ExpectedPreemption:
    return ExpectedPreemption(
        is_eligible=not said.ineligible,
        potential=sorted(said.potential),
        victims={node: list(victims) for node, (victims, _) in sorted(said.victims.items())},
        violations={node: count for node, (_, count) in said.victims.items() if count},
        chosen=sorted(said.equally_good),
    )


def ours(objects: Sequence[Manifest], *, has_preemptions: bool = False) -> dict[str, Expected]:
    """Return what we say, by pod; what preemption would do only when that is asked."""
    loaded = load_objects(objects)
    state = loaded.state
    scoring, crowd = Scoring(loaded), Crowd(loaded, objects)
    said: dict[str, Expected] = {}
    for index, pod in enumerate(loaded.pending):
        compiled = CompiledFilters(state, pod.shape)
        refused: dict[str, list[str]] = {}
        for name, row in sorted(state.rows()):
            for one in compiled.all_refusing(row):
                refused.setdefault(one, []).append(name)
        first = {name: int(compiled.refused_by[row]) for name, row in state.rows()}
        totals = np.where(compiled.feasible, scoring.totals(index, compiled), -np.inf)
        best = [name for name, row in state.rows() if compiled.feasible[row] and totals[row] == totals.max()]
        said[pod.key] = Expected(
            dict(sorted(refused.items())),
            {name: FILTERS[number - 1] for name, number in first.items() if number},
            sorted(best),
            _ours(crowd.emptying(pod.key, compiled)) if has_preemptions else None,
        )
    return said


def write_case(folder: Path, mismatch: Mismatch, objects: Sequence[Manifest], verdicts: Verdicts) -> Path:
    """Write a shrunk case into `folder` and return the file."""
    where = f"{mismatch.pod} on {', '.join(mismatch.nodes)}"
    note = f"{where}: we said {mismatch.ours}; kube-scheduler {mismatch.theirs}"
    case = KeptCase(
        note, mismatch.kind, mismatch.filter, mismatch.seed, list(objects), expected_of(objects, verdicts)
    )
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{(mismatch.filter or mismatch.kind).lower()}-{mismatch.seed}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(case), indent=1) + b"\n")
    return path


def read_case(path: Path) -> KeptCase:
    """Read a kept case.

    Raises:
        msgspec.ValidationError: the file is not one.
    """
    return msgspec.json.decode(path.read_bytes(), type=KeptCase)
