"""From the JSON of a Workflow to facts for its tracking; runs in a thread, for large ones take a while.

A controller writes the whole status at every step. What is kept from one reading to the next is the phase of
each node and what the node means in the graph, so that nodes that have not changed cost no more than a look.
The facts of one reading are to be applied before those of the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from stowplan.core.domain import TaskStatus
from stowplan.errors import InvalidObject
from stowplan.kube.argo import NodePath, NodeStatus, match_path, parse_node_name
from stowplan.serve.workflows.index import GraphIndex, Scope
from stowplan.serve.workflows.tracking import Items, Tracking
from stowplan.serve.workflows.widths import WidthSources

__all__ = ["Fact", "StatusReader"]

Fact = Callable[[Tracking], None]
"""Something to tell a tracking."""

_STATES: Final[Mapping[str, TaskStatus]] = {
    "": TaskStatus.PENDING,
    "Pending": TaskStatus.PENDING,
    "Running": TaskStatus.RUNNING,
    "Succeeded": TaskStatus.DONE,
    "Failed": TaskStatus.FAILED,
    "Error": TaskStatus.FAILED,
    "Skipped": TaskStatus.SKIPPED,
    "Omitted": TaskStatus.SKIPPED,
}


@dataclass(frozen=True, slots=True)
class _Meaning:
    """What a node of the status is in the graph.

    `task` is set for one that stands for an instance of a task; `attempt` then for one of its attempts.
    `scopes` are the tasks within it.
    """

    path: NodePath
    task: int | None = None
    items: Items = ()
    attempt: int | None = None
    scopes: tuple[Scope, ...] = ()

    def facts(self, state: TaskStatus, *, is_tried_again: bool) -> Iterator[Fact]:
        """Yield what the node says in `state`."""
        has_ended = state >= TaskStatus.DONE
        if self.task is not None and self.attempt is not None:
            now = None if has_ended else int(state)  # the whole decides what an end means
            yield partial(Tracking.tried, task=self.task, items=self.items, attempt=self.attempt, state=now)
        elif self.task is not None:
            if is_tried_again and state == TaskStatus.RUNNING:
                state = TaskStatus.PENDING  # between attempts nothing runs
            yield partial(Tracking.said, task=self.task, items=self.items, state=int(state))
        elif self.attempt is None:
            for scope in self.scopes:
                yield partial(Tracking.enclosed, scope=scope, has_ended=has_ended)


_NONE: Final = _Meaning(NodePath(()))


class StatusReader:
    """Reads the statuses of one workflow, one after the other."""

    def __init__(self, index: GraphIndex, workflow: str) -> None:
        """Read for a graph; `workflow` is the name that names of nodes begin with."""
        self.index = index
        self._workflow = workflow
        self._widths = WidthSources(index)
        self._codes: dict[str, str] = {}
        self._meanings: dict[str, _Meaning] = {}
        self._latest: dict[tuple[str, ...], int] = {}

    def changes(self, nodes: Mapping[str, NodeStatus]) -> list[Fact] | None:
        """Return what is new since the reading before; None: it cannot be told apart, read all `anew`.

        That is so where nodes have gone (somebody had the workflow run again from there), or where a call of
        a whole template is tried again, so that what was said of its tasks no longer counts.
        """
        if len(nodes) < len(self._codes) or any(key not in nodes for key in self._codes):
            return None
        facts: list[Fact] = []
        for key, node in nodes.items():
            code = _code(node)
            if self._codes.get(key) == code:
                continue
            meaning = self._meanings.get(key)
            if meaning is None:
                path = self._path(node)
                if path is not None and self._is_newer_try(path):
                    return None
                meaning = self._meanings[key] = self._meaning(path, node)
            self._codes[key] = code
            facts += self._facts(meaning, node)
        return facts

    def anew(self, nodes: Mapping[str, NodeStatus]) -> list[Fact]:
        """Forget what was read, and return all that `nodes` say."""
        self._codes = {key: _code(node) for key, node in nodes.items()}
        self._latest = {}
        paths = {key: self._path(node) for key, node in nodes.items()}
        for path in paths.values():
            if path is not None:
                for prefix, attempt in _tries_around(path):
                    self._latest[prefix] = max(attempt, self._latest.get(prefix, attempt))
        self._meanings = {key: self._meaning(paths[key], node) for key, node in nodes.items()}
        return [fact for key, node in nodes.items() for fact in self._facts(self._meanings[key], node)]

    def _path(self, node: NodeStatus) -> NodePath | None:
        try:
            return parse_node_name(self._workflow, node.name)
        except InvalidObject:
            return None  # not of the graph, whatever it is

    def _is_newer_try(self, path: NodePath) -> bool:
        """Note the tries of the templates around a node; tell whether one is newer than was known."""
        is_newer = False
        for prefix, attempt in _tries_around(path):
            known = self._latest.setdefault(prefix, attempt)
            is_newer = is_newer or attempt > known
        return is_newer

    def _meaning(self, path: NodePath | None, node: NodeStatus) -> _Meaning:
        if path is None:
            return _NONE
        if any(attempt < self._latest.get(prefix, attempt) for prefix, attempt in _tries_around(path)):
            return _Meaning(path)  # within a try that another has followed
        attempt = path.segments[-1].attempt
        match = match_path(self.index.graph, path)
        if match is None:
            is_group = node.type == "TaskGroup"
            scopes = self.index.scopes(path, is_group=is_group)
            return _Meaning(path, attempt=attempt, scopes=scopes)
        task = self.index.view.tasks_by_node.get(match.node.index)
        if task is None or match.is_within:
            return _Meaning(path)
        return _Meaning(path, task, match.items, attempt)

    def _facts(self, meaning: _Meaning, node: NodeStatus) -> Iterator[Fact]:
        state = _STATES.get(node.phase, TaskStatus.PENDING)
        if node.is_fulfilled and state < TaskStatus.DONE:
            state = TaskStatus.DONE  # a daemon that is up: whoever waits for it goes on
        yield from meaning.facts(state, is_tried_again=node.type == "Retry")
        for loop, width in self._widths.widths(meaning.path, node):
            yield partial(Tracking.widen, place=loop, width=width)


def _code(node: NodeStatus) -> str:
    """Return what of a node matters here."""
    return f"{node.phase}{'+' if node.daemoned else ''}{'=' if node.outputs is not None else ''}"


def _tries_around(path: NodePath) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield the templates around a node that are tried several times, and in which try the node is."""
    prefix: list[str] = []
    for segment in path.segments[:-1]:
        prefix.append(f"{segment.text}#{segment.item}")
        if segment.attempt is not None:
            yield tuple(prefix), segment.attempt
