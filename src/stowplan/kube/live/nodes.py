"""Nodes of the live cluster. A kubelet reports every few seconds; what it reports is seldom news."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from sys import intern
from typing import Final

import msgspec

from stowplan.core.domain import ClusterState, Labels, Node, NodeRemoved, NodeSet
from stowplan.kube.api.reflection import Identity
from stowplan.kube.live.listener import ClusterChange
from stowplan.kube.live.pods import PodBook
from stowplan.kube.live.wire import NOTHING
from stowplan.kube.manifest.cursor import Cursor
from stowplan.kube.manifest.nodes import read_node

__all__ = ["NodeBook"]


class _Metadata(msgspec.Struct, omit_defaults=True):
    name: str
    labels: msgspec.Raw = NOTHING


class _Spec(msgspec.Struct, omit_defaults=True):
    taints: msgspec.Raw = NOTHING
    unschedulable: msgspec.Raw = NOTHING


class _Status(msgspec.Struct, rename="camel", omit_defaults=True):
    allocatable: msgspec.Raw = NOTHING
    capacity: msgspec.Raw = NOTHING
    images: msgspec.Raw = NOTHING
    declared_features: msgspec.Raw = NOTHING


class _Node(msgspec.Struct, omit_defaults=True):
    metadata: _Metadata
    spec: _Spec | None = None
    status: _Status | None = None


_NODES: Final = msgspec.json.Decoder(_Node)
_encode = msgspec.json.Encoder().encode


class NodeBook:
    """Receives nodes, and reads those that are news.

    Args:
        state: changed as nodes come, change and go.
        pods: told when nodes come and go.
        changed: called after a change.
    """

    def __init__(self, state: ClusterState, pods: PodBook, changed: Callable[[ClusterChange], None]) -> None:
        self._state = state
        self._pods = pods
        self._changed = changed
        self._read: dict[str, tuple[bytes, Node]] = {}  # digest of what each node was read from

    def read(self, raw: bytes | msgspec.Raw) -> Node:
        """Read a node; one that says nothing new is the same object.

        Raises:
            InvalidObject: it has a field that cannot be used.
            msgspec.DecodeError: a field is of another type than the API says.
        """
        told = _NODES.decode(raw)
        read_from = _encode(told)
        digest = hashlib.blake2b(read_from, digest_size=16).digest()
        name = told.metadata.name
        known = self._read.get(name)
        if known is not None and known[0] == digest:
            return known[1]
        node = _sharing(read_node(name, Cursor(msgspec.json.decode(read_from), f"Node {name}")))
        self._read[name] = (digest, node)
        return node

    def set(self, identity: Identity, item: Node) -> None:
        """A node is new, or changed."""
        row = self._state.row(identity.name)
        before = self._state.node(row) if row >= 0 else None
        if item == before:
            return
        self._state.apply(NodeSet(item))
        if before is None:
            self._pods.node_came(item.name)
        self._changed(_change(before, item))

    def delete(self, identity: Identity) -> None:
        """A node is gone."""
        del self._read[identity.name]
        self._pods.node_goes(identity.name)
        self._state.apply(NodeRemoved(identity.name))
        self._changed(ClusterChange.NODE_REMOVED)

    def synced(self) -> None:
        """All were told: nothing is left to do."""


def _change(before: Node | None, now: Node) -> ClusterChange:
    """What a change of a node means to pods that found none."""
    if before is None:
        return ClusterChange.NODE_ADDED
    change = ClusterChange(0)
    has_more = any(amount > before.allocatable.get(name, 0) for name, amount in now.allocatable.items())
    is_open_again = before.unschedulable and not now.unschedulable
    if has_more or is_open_again or not set(before.taints) <= set(now.taints):
        change |= ClusterChange.NODE_ADDED
    if dataclasses.replace(before, allocatable=now.allocatable) != now:
        change |= ClusterChange.NODE_CHANGED
    return change or ClusterChange.NODE_CHANGED


def _sharing(node: Node) -> Node:
    """The same node, of texts that it shares with the others: thousands have the same images and labels."""
    return dataclasses.replace(
        node,
        labels=_shared(node.labels),
        images=tuple((intern(image), size_bytes) for image, size_bytes in node.images),
    )


def _shared(labels: Labels) -> Labels:
    return tuple((intern(key), intern(value)) for key, value in labels)
