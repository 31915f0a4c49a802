"""The status that the controller writes: which nodes there are by now, and what became of them.

`status.nodes` holds only what has begun. In a large workflow it is compressed, or moved to the archive's
database; all three are told apart here, because a reader that took an empty map for no progress would be
wrong.

Source: Argo Workflows 4.0, `workflow/packer/packer.go`, `util/file/fileutil.go`, `workflow_types.go`
(NodeStatus).
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

import msgspec

from stowplan.kube.argo.objects import Json, as_mapping, text_of

__all__ = [
    "NodeStatus",
    "NodesHere",
    "NodesOffloaded",
    "NodesUnreadable",
    "StatusNodes",
    "WorkflowStatus",
    "read_status",
]

_LARGEST: Final = 256 * 1024 * 1024  # bytes of status once decompressed; etcd holds 1.5 MiB of it compressed
_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_DONE: Final = frozenset({"Succeeded", "Skipped", "Failed", "Error", "Omitted"})


class _Flag(msgspec.Struct):
    hooked: bool = False
    retried: bool = False


class _Memo(msgspec.Struct):
    hit: bool = False


class _Parameter(msgspec.Struct):
    name: str = ""
    value: object = None


class _Outputs(msgspec.Struct):
    result: str | None = None
    parameters: list[_Parameter] | None = None


class NodeStatus(msgspec.Struct, rename="camel"):
    """A node of `status.nodes`, as far as it is read here (times are as the API has them, RFC 3339)."""

    id: str = ""
    name: str = ""
    display_name: str = ""
    type: str = ""
    template_name: str = ""
    phase: str = ""
    boundary_id: str = msgspec.field(default="", name="boundaryID")
    started_at: str | None = None
    finished_at: str | None = None
    host_node_name: str = ""
    message: str = ""
    daemoned: bool | None = None
    children: list[str] | None = None
    node_flag: _Flag | None = None
    memoization_status: _Memo | None = None
    outputs: _Outputs | None = None

    @property
    def is_fulfilled(self) -> bool:
        """Whether those that wait for the node may be looked at: it has ended, or is a daemon that is up."""
        return self.phase in _DONE or (self.daemoned is True and self.phase != "Pending")

    @property
    def is_hook(self) -> bool:
        """Whether the node is a hook or an exit handler."""
        return self.node_flag is not None and self.node_flag.hooked

    def output(self, parameter: str = "") -> str | None:
        """Return an output parameter, or without a name what a script printed; None: it is not there."""
        if self.outputs is None:
            return None
        if not parameter:
            return self.outputs.result
        for given in self.outputs.parameters or ():
            if given.name == parameter:
                return given.value if isinstance(given.value, str) else None
        return None

    @property
    def was_cached(self) -> bool:
        """Whether memoisation ended it without a pod."""
        return self.memoization_status is not None and self.memoization_status.hit


@dataclass(frozen=True, slots=True)
class NodesHere:
    """The nodes by id. `was_compressed` tells how they were stored."""

    nodes: Mapping[str, NodeStatus]
    was_compressed: bool = False


@dataclass(frozen=True, slots=True)
class NodesOffloaded:
    """The nodes are in the archive's database, under this version; only `pods` tell of them here."""

    version: str


@dataclass(frozen=True, slots=True)
class NodesUnreadable:
    """The nodes are here, but not in a form that can be read. `codec` names it, `reason` the mend."""

    codec: str
    reason: str


StatusNodes = NodesHere | NodesOffloaded | NodesUnreadable


@dataclass(frozen=True, slots=True)
class WorkflowStatus:
    """How far a workflow is. `phase` is empty where the controller has not seen it yet."""

    phase: str
    progress: str
    started_at: str
    finished_at: str
    nodes: StatusNodes

    @property
    def is_done(self) -> bool:
        """Whether the workflow has ended."""
        return self.phase in ("Succeeded", "Failed", "Error")


def read_status(raw: Json) -> WorkflowStatus:
    """Read the status of a Workflow object."""
    status = as_mapping(raw.get("status"))
    return WorkflowStatus(
        phase=text_of(status.get("phase")),
        progress=text_of(status.get("progress")),
        started_at=text_of(status.get("startedAt")),
        finished_at=text_of(status.get("finishedAt")),
        nodes=_nodes(status),
    )


def _nodes(status: Json) -> StatusNodes:
    plain, packed = status.get("nodes"), text_of(status.get("compressedNodes"))
    if plain or not (packed or text_of(status.get("offloadNodeStatusVersion"))):
        return _converted(plain or {}, "plain", was_compressed=False)
    if packed:
        return _unpacked(packed)
    return NodesOffloaded(text_of(status.get("offloadNodeStatusVersion")))


def _converted(value: object, codec: str, *, was_compressed: bool) -> StatusNodes:
    try:
        nodes = msgspec.convert(value, dict[str, NodeStatus], strict=True)
    except msgspec.ValidationError as error:
        return NodesUnreadable(
            codec, f"a node has a field of another type than the controller writes ({error})"
        )
    return NodesHere(nodes, was_compressed)


def _unpacked(packed: str) -> StatusNodes:
    try:
        data = base64.b64decode(packed, validate=True)
    except (binascii.Error, ValueError) as error:
        return NodesUnreadable("base64", f"compressedNodes is cut off or altered ({error})")
    if data.startswith(_ZSTD):
        return NodesUnreadable(
            "zstd", "set the controller's compression to gzip, or read the nodes from the archive"
        )
    if not data.startswith(_GZIP):
        return NodesUnreadable(
            "unknown",
            "set the controller's compression to gzip (this may be brotli), or read them from the archive",
        )
    unpacker = zlib.decompressobj(wbits=31)
    try:
        text = unpacker.decompress(data, _LARGEST)
    except zlib.error as error:
        return NodesUnreadable("gzip", f"compressedNodes is altered ({error})")
    if not unpacker.eof:
        reason = "more than 256 MiB" if unpacker.unconsumed_tail else "cut off"
        return NodesUnreadable("gzip", f"compressedNodes is {reason}; read the nodes from the archive")
    try:
        decoded = msgspec.json.decode(text, type=dict[str, NodeStatus])
    except (msgspec.DecodeError, RecursionError) as error:
        return NodesUnreadable("gzip", f"what is in compressedNodes is no map of nodes ({error})")
    return NodesHere(cast("Mapping[str, NodeStatus]", decoded), was_compressed=True)
