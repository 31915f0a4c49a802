"""A task graph prepared for being followed: which tasks a node of the status speaks of, and how many each is.

A place in the graph names its loops: `.outer#*.inner#2` is item 2 of `inner`, for any item of `outer`. The
loops on the way to a task are numbered outermost first, and an instance of a task has one number for each.
A loop that is `#*` has as many items as its width says, which may only be known at run time.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Final

from stowplan.kube.argo import DomainView, NodeKind, NodePath, TaskGraph

__all__ = ["GraphIndex", "Loop", "Scope"]

_LOOP: Final = re.compile(r"#(\*|[0-9]+)")
_HOOK: Final = re.compile(r"(\.onExit(?![-A-Za-z0-9])|\.hooks\.)")
_ITEM_HOOK: Final = re.compile(rf"(#(\*|[0-9]+))?{_HOOK.pattern}")
_WITHIN: Final = ".[#"  # what may follow a place in that of something within it
_MOST_LOOPS: Final = 10


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop on the way to a task. `place` is the place up to and with it; `width` None: not known yet."""

    place: str
    width: int | None
    expression: str = ""

    @property
    def is_open(self) -> bool:
        """Whether its items are counted, and not in the graph one by one."""
        return self.place.endswith("*")


@dataclass(frozen=True, slots=True)
class Scope:
    """Tasks that are within a node of the status, `holder`, in the items that it stands for."""

    holder: str
    tasks: tuple[int, ...]
    items: tuple[int, ...]


@dataclass(frozen=True)
class GraphIndex:
    """A task graph, its view as a core workflow, and lookups by place.

    Attributes:
        graph, view: what was read; a task is an index into `view.nodes`.
        loops: (tasks,) the loops on the way to each task, outermost first.
        joins: tasks that stand for edges only.
    """

    graph: TaskGraph
    view: DomainView
    loops: tuple[tuple[Loop, ...], ...] = field(init=False, repr=False)
    joins: frozenset[int] = field(init=False, repr=False)
    _places: Sequence[tuple[str, int]] = field(init=False, repr=False)
    _by_loop: Mapping[str, tuple[int, ...]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Index the tasks."""
        nodes = [self.graph.nodes[node] for node in self.view.nodes]
        widths: dict[str, tuple[int | None, str]] = {}
        for holder in (*self.graph.calls, *nodes):
            if holder.fanout is not None and holder.place.endswith("*"):
                widths[holder.place] = (holder.fanout.width, holder.fanout.expression)
        loops: list[tuple[Loop, ...]] = []
        by_loop: dict[str, list[int]] = {}
        places: list[tuple[str, int]] = []
        for task, node in enumerate(nodes):
            found: list[Loop] = []
            for match in _LOOP.finditer(node.place) if node.kind is not NodeKind.JOIN else ():
                place = node.place[: match.end()]
                width, expression = widths.get(place, (None, "")) if match[1] == "*" else (1, "")
                found.append(Loop(place, width, expression))
                if match[1] == "*":
                    by_loop.setdefault(place, []).append(task)
            loops.append(tuple(found))
            if node.kind is not NodeKind.JOIN:
                places.append((node.place, task))
        object.__setattr__(self, "loops", tuple(loops))
        object.__setattr__(
            self, "joins", frozenset(t for t, node in enumerate(nodes) if node.kind is NodeKind.JOIN)
        )
        object.__setattr__(self, "_places", tuple(sorted(places)))
        object.__setattr__(self, "_by_loop", {place: tuple(tasks) for place, tasks in by_loop.items()})

    def __len__(self) -> int:
        """Return the number of tasks."""
        return len(self.view.nodes)

    def tasks_in_loop(self, place: str) -> tuple[int, ...]:
        """Return the tasks on whose way an open loop is."""
        return self._by_loop.get(place, ())

    def open_loops(self) -> list[Loop]:
        """Return the open loops, each once."""
        return list({loop.place: loop for way in self.loops for loop in way if loop.is_open}.values())

    def scopes(self, path: NodePath, *, is_group: bool) -> tuple[Scope, ...]:
        """Return the tasks that a node of the status encloses: what has not begun when it ends never will.

        Args:
            path: of the node.
            is_group: it is the group of all items of a loop; their exit handlers may outlast it.
        """
        segments = path.segments
        looped = [number for number, segment in enumerate(segments) if segment.item is not None]
        if len(looped) > _MOST_LOOPS:
            return ()
        found: list[Scope] = []
        for choice in product((False, True), repeat=len(looped)):
            is_open = dict(zip(looped, choice, strict=True))
            place = "".join(
                segment.text
                + ("" if segment.item is None else "#*" if is_open[number] else f"#{segment.item}")
                for number, segment in enumerate(segments)
            )
            tasks = self._within(place, _ITEM_HOOK if is_group else _HOOK)
            if tasks:
                found.append(Scope(place, tasks, path.items))
        return tuple(found)

    def _within(self, place: str, hook: re.Pattern[str]) -> tuple[int, ...]:
        size = len(place)
        found: list[int] = []
        for at in range(bisect_left(self._places, (place, -1)), len(self._places)):
            inner, task = self._places[at]
            if not inner.startswith(place):
                break
            # The hooks of the node itself come when it has ended.
            if len(inner) > size and inner[size] in _WITHIN and not hook.match(inner, size):
                found.append(task)
        return tuple(found)
