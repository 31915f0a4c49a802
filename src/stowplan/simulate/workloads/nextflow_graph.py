"""From a Nextflow process graph and recorded times to the dependencies between tasks.

Nextflow draws processes and channel operators (`dag.html`, Cytoscape elements), not tasks, and channels that
it creates anew start at an origin without an edge. A task is submitted once its inputs are there, so for a
task t and a process Q before it in the graph:

1. Only tasks of Q that completed before t was submitted can be parents (pods' times have a resolution of 1
s). 2. When Q or t's process has one task, all of those are.
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
    by_process: dict[str, list[str]] = {}
    for name, row in run.items():
        by_process.setdefault(row.process, []).append(name)
    words = {name: frozenset(re.findall(r"[A-Za-z0-9.]+", row.tag)) for name, row in run.items()}
    edges: list[tuple[str, str]] = []
    for process, children in by_process.items():
        parents_of: dict[str, list[str]] = {child: [] for child in children}
        for parent, is_barred in sorted(before.get(process, {}).items()):
            if parent in by_process:
                pair = _Pair(run, words, by_process[parent], children, is_barred=is_barred)
                for child in children:
                    parents_of[child] += pair.parents(child)
        for child, parents in parents_of.items():
            edges += ((parent, child) for parent in parents or _lost_parent(run, words, child))
    return tuple(edges)


class _Pair:
    """Two processes, one before the other, in one run."""

    def __init__(
        self,
        run: Mapping[str, TraceRow],
        words: Mapping[str, frozenset[str]],
        candidates: Sequence[str],
        children: Sequence[str],
        *,
        is_barred: bool,
    ) -> None:
        self.run = run
        self.words = words
        self.candidates = sorted(candidates, key=lambda name: run[name].complete_s)
        self.children = children  # in order of submission
        last_complete_s = run[self.candidates[-1]].complete_s
        self.collects = is_barred and last_complete_s <= run[children[0]].submit_s + _RESOLUTION_S

    def parents(self, child: str) -> list[str]:
        submitted_s = self.run[child].submit_s + _RESOLUTION_S
        feasible = [name for name in self.candidates if self.run[name].complete_s <= submitted_s]
        if len(self.candidates) == 1 or len(self.children) == 1 or self.collects or not feasible:
            return feasible
        for is_related in (self._same_tag, self._same_sample):
            if any(is_related(name, child) for name in self.candidates):
                return [name for name in feasible if is_related(name, child)]
        if len(self.candidates) == len(self.children):
            paired = self.candidates[self.children.index(child)]
            return [paired] if paired in feasible else [feasible[-1]]
        return [feasible[-1]]

    def _same_tag(self, one: str, other: str) -> bool:
        return bool(self.words[one]) and self.run[one].tag == self.run[other].tag

    def _same_sample(self, one: str, other: str) -> bool:
        return _is_same_sample(self.words[one], self.words[other])


def _is_same_sample(one: frozenset[str], other: frozenset[str]) -> bool:
    return bool(one and other) and (one <= other or other <= one)


def _lost_parent(run: Mapping[str, TraceRow], words: Mapping[str, frozenset[str]], child: str) -> list[str]:
    submitted_s = run[child].submit_s
    if submitted_s <= min(row.submit_s for row in run.values()) + _FIRST_ROUND_S:
        return []
    earlier = [
        name
        for name, row in run.items()
        if name != child
        and row.complete_s <= submitted_s + _RESOLUTION_S
        and (not words[child] or _is_same_sample(words[name], words[child]))
    ]
    return [max(earlier, key=lambda name: run[name].complete_s)] if earlier else []
