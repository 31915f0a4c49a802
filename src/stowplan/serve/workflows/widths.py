"""How wide a fan-out is, as soon as the task that makes its list has ended.

A list that an earlier task makes (`withParam: "{{tasks.list.outputs.result}}"`) is in that task's node of the
status. Reading it there tells the width before the first item begins, and where only some items may run at
once, long before the last.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Final

from stowplan.kube.argo import NodePath, NodeStatus
from stowplan.serve.workflows.index import GraphIndex

__all__ = ["WidthSources", "width_of"]

_OUTPUT: Final = re.compile(
    r"\{\{\s*(?:tasks|steps)\.([-A-Za-z0-9]+)\.outputs\.(?:result|parameters\.([-A-Za-z0-9_]+))\s*\}\}"
)
_LAST: Final = re.compile(r"(?:\[[0-9]+\])?\.([-A-Za-z0-9]+)(?:#(?:\*|[0-9]+))?$")
_WIDEST: Final = 1_000_000  # a status of 1.5 MiB holds no longer list; a number may say anything


def width_of(text: str) -> int | None:
    """Return how many items a list or a count has, None where the text is neither."""
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, list):
        return len(value)  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _WIDEST:
        return value
    return None


class WidthSources:
    """The nodes whose outputs tell the widths of a graph's outer loops."""

    def __init__(self, index: GraphIndex) -> None:
        """Find for each loop of unknown width the task that its expression names."""
        self._loops: dict[str, list[tuple[str, str]]] = {}
        graph = index.graph
        places: dict[tuple[str, str], str] = {}
        for holder in (*graph.calls, *graph.nodes):
            match = _LAST.search(holder.place)
            if match is not None:
                places.setdefault((holder.place[: match.start()], match[1]), holder.place)
        for loop in index.open_loops():
            match = _OUTPUT.fullmatch(loop.expression)
            if loop.width is not None or match is None or "#*" in loop.place[:-2]:
                continue
            inner = loop.place
            # The name means a task beside the loop, or beside a call around it that passed the list on.
            while (last := _LAST.search(inner)) is not None:
                inner = inner[: last.start()]
                source = places.get((inner, match[1]))
                if source is not None:
                    self._loops.setdefault(source, []).append((loop.place, match[2] or ""))
                    break

    def widths(self, path: NodePath, node: NodeStatus) -> Iterator[tuple[str, int]]:
        """Yield the loops that a node of the status tells the width of, with the width."""
        if not self._loops or node.outputs is None:
            return
        place = "".join(
            segment.text + ("" if segment.item is None else f"#{segment.item}") for segment in path.segments
        )
        for loop, parameter in self._loops.get(place, ()):
            text = node.output(parameter)
            width = None if text is None else width_of(text)
            if width is not None:
                yield loop, width
