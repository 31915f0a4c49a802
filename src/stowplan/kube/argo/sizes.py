"""How much a call would add to a graph, so that expanding fan-outs never makes a workflow too large."""

from __future__ import annotations

from typing import Final, cast

from stowplan.kube.argo.effective import template_type
from stowplan.kube.argo.fanout import Fanout
from stowplan.kube.argo.objects import Json, as_list, as_mapping
from stowplan.kube.argo.resolution import AtRunTime, Resolved, Resolver
from stowplan.kube.argo.spots import ReadLimits
from stowplan.kube.argo.variables import Variables, put_in, tags_in

__all__ = ["RoomForItems", "is_open", "named_with"]

_PART: Final = 2  # half of the nodes may be items of expanded fan-outs


def _names(holder: Json) -> Json:
    """Return what names the template of a step, task or hook."""
    return {key: holder[key] for key in ("template", "templateRef") if holder.get(key) is not None}


def is_open(holder: Json) -> bool:
    """Tell whether which template is meant depends on variables."""
    return bool(tags_in(_names(holder)))


def named_with(holder: Json, variables: Variables) -> Json:
    """Return what names the template of a step, task or hook, with variables put in."""
    named = _names(holder)
    if tags_in(named):
        named = as_mapping(put_in(named, variables))
    return {**named, "inline": holder["inline"]} if holder.get("inline") is not None else named


class RoomForItems:
    """Decides which fan-outs are expanded, and keeps count of what they take."""

    def __init__(self, resolver: Resolver, limits: ReadLimits) -> None:
        """Look up templates with `resolver`, which has found no problem with them."""
        self._resolver = resolver
        self._limits = limits
        self._left = limits.max_nodes // _PART
        self._sizes: dict[int, tuple[Json, int]] = {}  # by identity; the values hold on to the keys

    def take(self, fanout: Fanout, task: Json, found: Resolved | AtRunTime | None) -> bool:
        """Take the room for a node per item of a task, and tell whether there was enough."""
        if fanout.items is None or not 0 < len(fanout.items) <= self._limits.expand_up_to:
            return False
        inner = self._size(found, ()) if isinstance(found, Resolved) else 1
        needed = len(fanout.items) * (inner + _hooks(task))
        if needed > self._left:
            return False
        self._left -= needed
        return True

    def _size(self, found: Resolved, chain: tuple[int, ...]) -> int:
        """Return how many nodes and calls a template adds when no fan-out in it is expanded."""
        template, key = found.template, id(found.template)
        if key in chain or template_type(template) not in ("dag", "steps"):
            return 1
        if key not in self._sizes:
            groups = cast(
                "list[object]", template.get("steps") or [as_mapping(template.get("dag")).get("tasks")]
            )
            total = 1
            for task in (item for group in groups for item in as_list(group)):
                inner = None if is_open(task) else self._resolver.resolve(task, found.base, found.path)
                total += self._size(inner, (*chain, key)) if isinstance(inner, Resolved) else 1
                total += _hooks(task)
            self._sizes[key] = (template, total)
        return self._sizes[key][1]


def _hooks(task: Json) -> int:
    return len(as_mapping(task.get("hooks"))) + (task.get("onExit") is not None)
