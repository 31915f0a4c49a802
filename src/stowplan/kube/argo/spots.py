"""What the builder of a graph carries with it: where it stands, where a call is written, what is before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stowplan.kube.argo.depends import Depends, Result
from stowplan.kube.argo.fanout import Fanout
from stowplan.kube.argo.graph import ROOT, Chance, Hook
from stowplan.kube.argo.objects import Json, as_list, as_mapping, text_of
from stowplan.kube.argo.resolution import Base
from stowplan.kube.argo.variables import Variables, put_in

__all__ = ["Gate", "ReadLimits", "Site", "Spot", "locks_of"]


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """How much a graph may hold.

    A fan-out of at most `expand_up_to` items becomes a node each; a wider one stays one node that is counted.
    A workflow with more than `max_nodes` nodes and calls is refused.
    """

    expand_up_to: int = 256
    max_nodes: int = 50_000


@dataclass(frozen=True, slots=True)
class Site:
    """Where in the manifests a call is written: what names mean there, its path, the values known there."""

    base: Base
    path: str
    variables: Variables

    def within(self, part: str) -> Site:
        """Return the site of a part of this one."""
        return Site(self.base, f"{self.path}.{part}", self.variables)


@dataclass(frozen=True, slots=True)
class Spot:
    """Where in the graph a call stands.

    `chain` are the named templates around it, `boundary` is the innermost of all around.
    """

    place: str
    call: int = ROOT
    chance: Chance = Chance.CERTAIN
    boundary: Json | None = None
    chain: tuple[tuple[str, str], ...] = ()
    hook: Hook = Hook.NONE
    on_exit: bool = False
    when: str = ""
    depends: Depends | None = None
    fanout: Fanout | None = None
    item: str = ""
    continue_on: frozenset[Result] = frozenset()


class Gate:
    """Nodes that others wait for. Many waiting for many share one join between them."""

    __slots__ = ("_is_used", "_join", "_make_join", "nodes")

    def __init__(self, make_join: Callable[[tuple[int, ...]], int], nodes: Sequence[int]) -> None:
        """Stand for `nodes`; `make_join` adds a join after them to the graph."""
        self._make_join = make_join
        self._join: int | None = None
        self._is_used = False
        self.nodes = tuple(dict.fromkeys(nodes))

    def parents(self) -> tuple[int, ...]:
        """Return the parents of a node that waits for them."""
        if len(self.nodes) <= 1 or not self._is_used:
            self._is_used = True
            return self.nodes
        if self._join is None:
            self._join = self._make_join(self.nodes)
        return (self._join,)


def locks_of(holder: Json, variables: Variables) -> tuple[str, ...]:
    """Return the mutexes and semaphores of a template or workflow."""
    if holder.get("synchronization") is None:
        return ()
    fields = as_mapping(put_in(holder["synchronization"], variables))
    found = [f"mutex:{text_of(item.get('name'))}" for item in as_list(fields.get("mutexes"))]
    for item in as_list(fields.get("semaphores")):
        reference, database = as_mapping(item.get("configMapKeyRef")), as_mapping(item.get("database"))
        key = f"{text_of(reference.get('name'))}/{text_of(reference.get('key'))}"
        found.append(f"semaphore:{text_of(database.get('key')) if database else key}")
    return tuple(found)
