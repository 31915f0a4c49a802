"""From a Nextflow process graph and recorded times to the dependencies between tasks.

Nextflow draws processes and channel operators (`dag.html`, Cytoscape elements), not tasks, and channels that
it creates anew start at an origin without an edge. A task is submitted once its inputs are there, so for a
task t and a process Q before it in the graph:

1. A task of Q can be a parent when it was submitted before t and completed by the time t was (pods' times
have a resolution of one second). So, whatever is drawn, no cycle comes out.
2. When Q or t's process has one task, all of those are parents.
3. When an operator between them lets nothing through until its channel is closed (`groupTuple`, `collect` …)
   and all of Q was complete before the first task of t's process, all of Q are.
4. Else those of the same tag are; when Q has none, those whose tag names the same sample (the words of one
   tag are among the words of the other).
5. Without tags, tasks pair up in order when the processes have as many tasks as each other: the k-th
submitted follows the k-th completed. Otherwise t follows the one that completed last before it was submitted.

A task left without parents that was submitted after others had completed follows the task of the same sample
(of any, when it has no tag) that completed last before its submission: the edge that the drawing lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from stowplan.errors import InvalidFile
from stowplan.simulate.workloads.nextflow_trace import TraceRow

__all__ = ["infer_edges", "name_tasks", "parse_process_graph"]

_NODE: Final = re.compile(
    r"\{\s*data:\s*\{\s*id:\s*'(?P<id>[^']+)'(?:,\s*label:\s*'(?P<label>(?:[^'\\]|\\.)*)')?\s*\},"
    r"\s*classes:\s*'(?P<kind>\w+)'"
)
_EDGE: Final = re.compile(r"\{\s*data:\s*\{\s*source:\s*'(?P<source>[^']+)',\s*target:\s*'(?P<target>[^']+)'")
_RESOLUTION_S: Final = 1.0
_BARRIERS: Final = frozenset(
    (
        "collect",
        "collectFile",
        "count",
        "groupTuple",
        "last",
        "max",
        "min",
        "reduce",
        "sum",
        "toList",
        "toSortedList",
    )
)
"""Operators that emit when their input channel is closed, so when every task before them has completed."""

_FIRST_ROUND_S: Final = 5.0
"""Tasks submitted within this time of the first have nothing before them."""


def parse_process_graph(text: str, name: str) -> dict[str, dict[str, bool]]:
    """Return the processes directly before each process; the value tells whether a barrier lies between.

    `name` is the file in messages.

    Raises:
        InvalidFile: no process is drawn, or an edge leads from or to nothing.
    """
    drawn = {match["id"]: (match["kind"], match["label"] or "") for match in _NODE.finditer(text)}
    after: dict[str, list[str]] = {}
    for match in _EDGE.finditer(text):
        for end in (match["source"], match["target"]):
            if end not in drawn:
                raise InvalidFile(f"{name}: an edge names {end!r}, which is not drawn; the file is truncated")
        after.setdefault(match["source"], []).append(match["target"])
    before: dict[str, dict[str, bool]] = {label: {} for kind, label in drawn.values() if kind == "PROCESS"}
    if not before:
        raise InvalidFile(f"{name}: draws no process; give the dag.html that Nextflow writes with -with-dag")
    for identifier, (kind, label) in drawn.items():
        if kind == "PROCESS":
            for reached, is_barred in _reached_processes(identifier, drawn, after):
                if reached != label:
                    before[reached][label] = before[reached].get(label, False) or is_barred
    return before


def _reached_processes(
    start: str, drawn: Mapping[str, tuple[str, str]], after: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, bool]]:
    """Yield the processes that a process reaches through operators, and whether a barrier is on the way."""
    seen: set[tuple[str, bool]] = set()
    waiting = [(reached, False) for reached in after.get(start, ())]
    while waiting:
        step = waiting.pop()
        if step in seen:
            continue
        seen.add(step)
        (identifier, is_barred), (kind, label) = step, drawn[step[0]]
        if kind == "PROCESS":
            yield label, is_barred
        else:
            waiting += ((reached, is_barred or label in _BARRIERS) for reached in after.get(identifier, ()))


def name_tasks(rows: Sequence[TraceRow]) -> dict[str, TraceRow]:
    """Return the rows in order of submission by the task's name, numbered when it occurs again."""
    named: dict[str, TraceRow] = {}
    seen: dict[str, int] = {}
    for row in sorted(
        rows, key=lambda row: (row.submit_s, int(row.task_id) if row.task_id.isdecimal() else 0)
    ):
        count = seen[row.name] = seen.get(row.name, 0) + 1
        named[row.name if count == 1 else f"{row.name} #{count}"] = row
    return named


def infer_edges(
    run: Mapping[str, TraceRow], before: Mapping[str, Mapping[str, bool]]
) -> tuple[tuple[str, str], ...]:
    """Return (parent, child) names of one run, named by `name_tasks`, by the rules of the module."""
    history = _History(run)
    edges: list[tuple[str, str]] = []
    for process, children in history.by_process.items():
        parents_of: dict[str, list[str]] = {child: [] for child in children}
        for parent, is_barred in sorted(before.get(process, {}).items()):
            if parent in history.by_process:
                pair = _Pair(history, history.by_process[parent], children, is_barred=is_barred)
                for child in children:
                    parents_of[child] += pair.parents(child)
        for child, parents in parents_of.items():
            edges += ((parent, child) for parent in parents or history.lost_parent(child))
    return tuple(edges)


class _History:
    """Who ended before whom in one run, and who belongs to the same sample."""

    def __init__(self, run: Mapping[str, TraceRow]) -> None:
        self.run = run
        self.by_process: dict[str, list[str]] = {}  # names in order of submission
        for name, row in run.items():
            self.by_process.setdefault(row.process, []).append(name)
        self._order = {name: position for position, name in enumerate(run)}
        self._words = {name: frozenset(re.findall(r"[A-Za-z0-9.]+", row.tag)) for name, row in run.items()}
        self._first_s = min(row.submit_s for row in run.values())

    def can_precede(self, parent: str, child: str) -> bool:
        completed_s, submitted_s = self.run[parent].complete_s, self.run[child].submit_s
        return self._order[parent] < self._order[child] and completed_s <= submitted_s + _RESOLUTION_S

    def is_same_tag(self, one: str, other: str) -> bool:
        return bool(self._words[one]) and self.run[one].tag == self.run[other].tag

    def is_same_sample(self, one: str, other: str) -> bool:
        first, second = self._words[one], self._words[other]
        return bool(first and second) and (first <= second or second <= first)

    def lost_parent(self, child: str) -> list[str]:
        if self.run[child].submit_s <= self._first_s + _FIRST_ROUND_S:
            return []
        earlier = [
            name
            for name in self.run
            if self.can_precede(name, child) and (not self._words[child] or self.is_same_sample(name, child))
        ]
        return [max(earlier, key=lambda name: self.run[name].complete_s)] if earlier else []


class _Pair:
    """Two processes, one before the other."""

    def __init__(
        self, history: _History, candidates: Sequence[str], children: Sequence[str], *, is_barred: bool
    ) -> None:
        self._history = history
        self._candidates = sorted(candidates, key=lambda name: history.run[name].complete_s)
        self._children = children
        self._collects = is_barred and history.can_precede(self._candidates[-1], children[0])

    def parents(self, child: str) -> list[str]:
        history = self._history
        feasible = [name for name in self._candidates if history.can_precede(name, child)]
        if len(self._candidates) == 1 or len(self._children) == 1 or self._collects or not feasible:
            return feasible
        for is_related in (history.is_same_tag, history.is_same_sample):
            if any(is_related(name, child) for name in self._candidates):
                return [name for name in feasible if is_related(name, child)]
        if len(self._candidates) == len(self._children):
            paired = self._candidates[self._children.index(child)]
            return [paired] if paired in feasible else [feasible[-1]]
        return [feasible[-1]]
