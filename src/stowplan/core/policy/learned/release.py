"""What a release of a model is: its manifest, and the bytes of its two graphs.

The manifest binds the graphs to what they were made for: the columns of the encoder, the statistics of
training, the sizes of the network. A model that is served with anything else would answer, and be wrong; so
whatever differs is refused, and the refusal names it. Files are not read here: `stowplan.registry` does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from stowplan.core.encoder import SCHEMA, FeatureGroup, Schema, difference
from stowplan.core.policy.learned.sizes import NetworkSizes
from stowplan.core.semantics import FrozenStatistics
from stowplan.errors import InvalidFile, InvalidInput

__all__ = [
    "FORMAT",
    "MANIFEST",
    "NODE_GRAPH",
    "TASK_GRAPH",
    "Manifest",
    "Release",
    "manifest_from_bytes",
    "manifest_to_bytes",
]

FORMAT: Final = "stowplan.policy/1"
MANIFEST: Final = "manifest.json"
NODE_GRAPH: Final = "node.onnx"
TASK_GRAPH: Final = "task.onnx"


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a model is and what it was made for.

    Attributes:
        name: of the model, for people.
        made_by: version of Stowplan that exported it.
        schema: columns that the encoder must give, in order.
        statistics: of training, of these columns.
        network: sizes of the network.
        training: SHA-256 of the configuration of training, in hexadecimal.
        off: groups of columns that were unknown in training, and so must be in serving.
        format: version of the layout of a release.
    """

    name: str
    made_by: str
    schema: Schema
    statistics: FrozenStatistics
    network: NetworkSizes
    training: str
    off: tuple[FeatureGroup, ...] = ()
    format: str = FORMAT

    def require_fit(self) -> None:
        """Refuse a model that was made for something else than this version's encoder.

        Raises:
            InvalidFile: the format or the columns differ, or sizes and columns do not belong together.
        """
        if self.format != FORMAT:
            raise InvalidFile(
                f"model {self.name!r} is of format {self.format!r}, this version reads {FORMAT!r}; "
                "export it with this version"
            )
        other = difference(self.schema, SCHEMA)
        if other:
            raise InvalidFile(
                f"model {self.name!r} was trained on other columns than this version encodes: {other}; "
                f"train it anew, or serve it with Stowplan {self.made_by}"
            )
        for what, columns, size in (
            ("task", self.schema.task.width, self.network.task_features),
            ("node", self.schema.node.width, self.network.node_features),
            ("cluster", self.schema.cluster.width, self.network.cluster_features),
        ):
            if columns != size:
                raise InvalidFile(
                    f"model {self.name!r}: its network takes {size} numbers of a {what}, its columns give "
                    f"{columns}; take the manifest of the release"
                )


@dataclass(frozen=True, slots=True)
class Release:
    """A model, as its files are; verified by whoever read them.

    Attributes:
        manifest: what it is.
        files: content of each file by its name: `MANIFEST`, `NODE_GRAPH`, `TASK_GRAPH`.
    """

    manifest: Manifest
    files: Mapping[str, bytes]

    @classmethod
    def of(cls, manifest: Manifest, *, node_graph: bytes, task_graph: bytes) -> Release:
        """Return a new release of two ONNX graphs."""
        content = manifest_to_bytes(manifest)
        return cls(manifest, {MANIFEST: content, NODE_GRAPH: node_graph, TASK_GRAPH: task_graph})

    @property
    def sums(self) -> str:
        """SHA-256 of each file, as `sha256sum` writes and checks them."""
        files = sorted(self.files.items())
        return "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in files)

    @property
    def digest(self) -> str:
        """SHA-256 of `sums` in hexadecimal: the identity of the model."""
        return hashlib.sha256(self.sums.encode()).hexdigest()


def manifest_to_bytes(manifest: Manifest) -> bytes:
    """Return the manifest as indented JSON; the same manifest gives the same bytes."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"


def manifest_from_bytes(content: bytes) -> Manifest:
    """Return a manifest that fits this version.

    Raises:
        InvalidFile: it is truncated or altered, of another format, or for other columns.
    """
    try:
        manifest = msgspec.json.decode(content, type=Manifest)
    except (msgspec.MsgspecError, InvalidInput) as error:
        raise InvalidFile(
            f"the manifest of a model cannot be read: {error}; take the one of its release"
        ) from None
    manifest.require_fit()
    return manifest
