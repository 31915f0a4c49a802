"""The task graph of a workflow: what may run, in which order, and what of it is only known at run time.

Nodes are what the workflow waits for: pods, and the few things without one. Their parents are the nodes that
must be fulfilled first (whether or not they succeeded: `depends` says what then). Templates that hold others
are not nodes; each call of one is a `Call`, which carries what applies to all within (conditions, limits,
retries).

Nodes come in topological order: parents stand before children.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from functools import cached_property
from typing import Final

from stowplan.core.domain import PodShape
from stowplan.kube.argo.depends import Depends, Result
from stowplan.kube.argo.fanout import Fanout
from stowplan.kube.argo.retry import Retry

__all__ = [
    "ANY_ITEM",
    "ROOT",
    "Call",
    "Chance",
    "Hook",
    "Node",
    "NodeKind",
    "PodPlan",
    "TaskGraph",
    "UnknownField",
]

ANY_ITEM: Final = "#*"
"""In a place: any item of a fan-out that is not expanded; `#2` is the third of one that is."""

ROOT: Final = -1
"""`Node.call` and `Call.caller` of what no template encloses."""


class NodeKind(StrEnum):
    """What stands behind a node."""

    POD = "pod"
    AGENT = "agent"  # http and plugin templates: run in the workflow's one agent pod
    SUSPEND = "suspend"
    RECURSION = "recursion"  # a template that is within itself: what it adds is not known
    AT_RUN_TIME = "at-run-time"  # which template runs is not known
    JOIN = "join"  # nothing: stands for many edges to many


class Chance(IntEnum):
    """Whether a node runs, provided that all before it goes well. The larger says less for it."""

    CERTAIN = 0
    CONDITIONAL = 1  # a condition, or a fan-out that may be empty, is only known at run time
    ON_FAILURE = 2  # only if something before it fails
    NEVER = 3


class Hook(StrEnum):
    """What part of a task's or the workflow's life a node hangs on."""

    NONE = ""
    EXIT = "exit"  # when it has ended
    DURING = "during"  # as soon as the hook's expression holds; beside it, as a rule


@dataclass(frozen=True, slots=True)
class UnknownField:
    """A field of the pod that is only known at run time, and the variables that will tell."""

    path: str
    variables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PodPlan:
    """The pod that the controller will create, as far as it is known.

    `shape` lacks what `unknown` names. `priority_class` is the name of the priority class, whose value the
    cluster knows. `containers` are the names of all containers, init containers first. `inner_order` are the
    edges (before, after) between containers of a container set.
    """

    shape: PodShape
    priority_class: str = ""
    unknown: tuple[UnknownField, ...] = ()
    containers: tuple[str, ...] = ()
    inner_order: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a `dag` or `steps` template.

    `place` is its place in the workflow (see `NodePath.place`, with items as `#2` or `#*`),
    `caller` the index of the call around it. `chance` includes that of the callers. `parallelism` limits how
    many of its direct children run at once. `fanout` is set where it is called once for each of many items
    that are not expanded. `unreached` are tasks that no target of the dag needs.
    """

    place: str
    template: str
    caller: int = ROOT
    chance: Chance = Chance.CERTAIN
    when: str = ""
    depends: Depends | None = None
    fanout: Fanout | None = None
    retry: Retry | None = None
    parallelism: int | None = None
    fail_fast: bool = False
    locks: tuple[str, ...] = ()
    is_memoized: bool = False
    unreached: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Node:
    """A node of the graph.

    `place` is as in `Call`. `template` is the key of the template (see `Resolved.key`; an inline one is named
    by its place). `parents` must all be fulfilled first. `when` is the condition as far as it is not decided,
    `depends` the logic over its predecessors by name of task. `fanout` is set where the node stands for many
    (see `ReadLimits`), `item` is the label of the one item that it stands for. `may_skip_pod` tells that
    memoisation may end the node without a pod. A `daemon` is waited for until it is ready, not until it ends.
    `inputs` are the input parameters, with `{{…}}` where they are only known at run time. `note` says what of
    an AT_RUN_TIME or RECURSION node.
    """

    index: int
    kind: NodeKind
    place: str
    template: str
    parents: tuple[int, ...]
    call: int = ROOT
    chance: Chance = Chance.CERTAIN
    pod: PodPlan | None = None
    when: str = ""
    depends: Depends | None = None
    fanout: Fanout | None = None
    item: str = ""
    retry: Retry | None = None
    hook: Hook = Hook.NONE
    daemon: bool = False
    may_skip_pod: bool = False
    locks: tuple[str, ...] = ()
    inputs: tuple[tuple[str, str], ...] = ()
    continue_on: frozenset[Result] = frozenset()
    note: str = ""


@dataclass(frozen=True)
class TaskGraph:
    """A workflow's nodes and calls.

    `origin` names what the workflow was made from: its WorkflowTemplate or CronWorkflow, the beginning of its
    generated name, or its name; runs of one origin have one history. `agent` is the pod that all AGENT nodes
    share. `parallelism` limits the pods of the workflow, `locks` are what it holds as a whole.
    """

    name: str
    namespace: str
    origin: str
    nodes: tuple[Node, ...]
    calls: tuple[Call, ...]
    agent: PodPlan | None = None
    parallelism: int | None = None
    locks: tuple[str, ...] = ()
    _by_place: Mapping[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Index the nodes by place."""
        places = {node.place: node.index for node in self.nodes if node.kind is not NodeKind.JOIN}
        object.__setattr__(self, "_by_place", places)

    def at(self, place: str) -> Node | None:
        """Return the node at a place."""
        index = self._by_place.get(place)
        return None if index is None else self.nodes[index]

    @cached_property
    def children(self) -> tuple[tuple[int, ...], ...]:
        """The nodes that wait for each node."""
        found: list[list[int]] = [[] for _ in self.nodes]
        for node in self.nodes:
            for parent in node.parents:
                found[parent].append(node.index)
        return tuple(map(tuple, found))

    def callers(self, call: int) -> tuple[Call, ...]:
        """Return the calls around, outermost first: the call itself last."""
        found: list[Call] = []
        while call != ROOT:
            found.append(self.calls[call])
            call = self.calls[call].caller
        return tuple(reversed(found))

    def count(self, node: Node) -> int | None:
        """Return how many instances of a node there will be, None where a width is only known at run time.

        Conditions and retries are not counted.
        """
        total = 1
        for fanout in (node.fanout, *(call.fanout for call in self.callers(node.call))):
            if fanout is not None:
                if fanout.width is None:
                    return None
                total *= fanout.width
        return total

    def pod_count(self) -> int | None:
        """Return how many pods there are if every condition holds and nothing fails; None if unknown."""
        total = 0
        for node in self.nodes:
            if node.kind is NodeKind.RECURSION or node.kind is NodeKind.AT_RUN_TIME:
                return None
            if node.kind is NodeKind.POD and node.chance < Chance.ON_FAILURE:
                count = self.count(node)
                if count is None:
                    return None
                total += count
        return total + (self.agent is not None)
