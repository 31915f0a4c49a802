"""The controller's names for nodes and pods, made and taken apart.

A node's name tells where it stands in the workflow: `nightly[0].sort(3:chr4).merge(1)` is attempt 1 of task
`merge` in item 3 of step `sort` of step group 0 of workflow `nightly`. Names of tasks have letters, digits
and hyphens only and parentheses are removed from items, so that the parts can be told apart without knowing
the workflow.

Source: Argo Workflows 4.0, `workflow/util/pod_name.go`, `operator.go` (generateNodeName), `hooks.go`,
`exit_handler.go`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from stowplan.errors import InvalidObject

__all__ = ["NodePath", "Segment", "node_id", "parse_node_name", "pod_name"]

_POD_NAME_PREFIX: Final = 242  # 253 for any name in Kubernetes, less the hash and its hyphen
_FNV_OFFSET: Final = 0x811C9DC5
_FNV_PRIME: Final = 0x01000193
_SEGMENT: Final = re.compile(
    r"""
      \[(?P<group>[0-9]+)\]
    | \.hooks\.(?P<hook>[-A-Za-z0-9_.]+)
    | \.(?P<task>[A-Za-z0-9][-A-Za-z0-9]*)
    | \((?P<item>[0-9]+):(?P<text>[^)]*)\)
    | \((?P<attempt>[0-9]+)\)
    """,
    re.VERBOSE | re.ASCII,
)


def _fnv1a32(text: str) -> int:
    value = _FNV_OFFSET
    for byte in text.encode():
        value = ((value ^ byte) * _FNV_PRIME) & 0xFFFFFFFF
    return value


def node_id(workflow_name: str, node_name: str) -> str:
    """Return the id under which `status.nodes` holds the node."""
    return workflow_name if node_name == workflow_name else f"{workflow_name}-{_fnv1a32(node_name)}"


def pod_name(workflow_name: str, node_name: str, template_name: str, version: str = "v2") -> str:
    """Return the name of the node's pod.

    `version` is that of the workflow's annotation `workflows.argoproj.io/pod-name-format`: `v1` takes the
    node's id, anything else is `v2`, which has the template's name in it.
    """
    if version == "v1":
        return node_id(workflow_name, node_name)
    if node_name == workflow_name:
        return workflow_name
    prefix = f"{workflow_name}-{template_name}" if template_name else workflow_name
    return f"{prefix[:_POD_NAME_PREFIX]}-{_fnv1a32(node_name)}"


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a node's name.

    `text` is `[2]` for a step group, `.sort` for a task or step, `.hooks.running` or `.onExit` for a hook,
    empty for the workflow itself. `item` and `item_text` are set in a fan-out, `attempt` where retries are
    allowed.
    """

    text: str
    item: int | None = None
    item_text: str = ""
    attempt: int | None = None


@dataclass(frozen=True, slots=True)
class NodePath:
    """A node's name, without the workflow's, in parts. The first part is the workflow's root."""

    segments: tuple[Segment, ...]

    @property
    def place(self) -> str:
        """The place in the workflow, items and attempts left out: what runs have in common."""
        return "".join(segment.text for segment in self.segments)

    @property
    def items(self) -> tuple[int, ...]:
        """The item numbers on the way, outermost first."""
        return tuple(segment.item for segment in self.segments if segment.item is not None)

    @property
    def attempt(self) -> int:
        """Which attempt of the node itself this is, from 0; 0 too where retries are not allowed."""
        return self.segments[-1].attempt or 0

    @property
    def attempts(self) -> tuple[int, ...]:
        """The attempts on the way, those of enclosing templates too, outermost first."""
        return tuple(segment.attempt for segment in self.segments if segment.attempt is not None)


_plain_segment = lru_cache(maxsize=2048)(Segment)
"""Segments of tasks and groups, of which every node within has one: they are shared."""


def parse_node_name(workflow_name: str, node_name: str) -> NodePath:
    """Take a node's name apart.

    Raises:
        InvalidObject: the name does not begin with the workflow's, or is not one that the controller makes.
    """
    if not node_name.startswith(workflow_name):
        raise InvalidObject(
            f"node name {node_name!r} does not begin with the name of its workflow, {workflow_name!r}; "
            "compare the pod's annotation workflows.argoproj.io/node-name with its label "
            "workflows.argoproj.io/workflow"
        )
    rest = node_name[len(workflow_name) :]
    parts: list[Segment] = []
    current = _plain_segment("")
    position = 0
    while position < len(rest):
        match = _SEGMENT.match(rest, position)
        if match is None:
            raise InvalidObject(
                f"node name {node_name!r} cannot be read from {rest[position:]!r} on; the controller writes "
                "[group], .task, (item:text) and (attempt)"
            )
        position = match.end()
        if match["attempt"] is not None:
            current = Segment(current.text, current.item, current.item_text, int(match["attempt"]))
        elif match["item"] is not None:
            current = Segment(current.text, int(match["item"]), match["text"])
        else:
            parts.append(current)
            current = _plain_segment(match.group())
    parts.append(current)
    return NodePath(tuple(parts))
