"""Image archives: OCI image layouts in one tar, as `ctr images import` takes them.

The same input gives the same bytes: entries are sorted, times are 0, everything belongs to root. Nothing is
compressed, since the archive is written and read on one machine. Only files, folders and links are kept: a
container gets its devices from its runtime.

Source: OCI image specification 1.0 (layout, index, manifest, config, layer); the annotation by which
containerd names an imported image is in its `images/annotations.go`.
"""

import hashlib
import io
import json
import os
import stat
import tarfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

_READ_BYTES = 1 << 20


@dataclass(frozen=True)
class Entry:
    """One thing in a layer.

    Attributes:
        path: Where it stands in the image, without a leading slash.
        mode: Its permission bits.
        content: The bytes of a file, or the file of this machine that has them.
        target: Where a symbolic link points; None for anything else.
        is_folder: Whether it is a folder.
    """

    path: str
    mode: int
    content: bytes | Path = b""
    target: str | None = None
    is_folder: bool = False


def file(path: str, content: bytes | Path, mode: int = 0o644) -> Entry:
    """A regular file with the given content, or with that of a file of this machine."""
    return Entry(path, mode, content)


def link(path: str, target: str) -> Entry:
    """A symbolic link."""
    return Entry(path, 0o777, target=target)


def folder(path: str, mode: int = 0o755) -> Entry:
    """A folder; those above any entry are made without being named."""
    return Entry(path, mode, is_folder=True)


def tree(root: Path, place: str = "", leave_out: Iterable[str] = ()) -> Iterator[Entry]:
    """Everything under a folder of this machine, as entries below `place`.

    Args:
        root: The folder.
        place: Where its content stands in the image; empty for the image's root.
        leave_out: Paths, relative to `root`, of which only the folder itself is kept, not what is in it.
    """
    empty = {root / path for path in leave_out}
    for parent, folders, files in os.walk(root):
        names = [*folders, *files]
        if Path(parent) in empty:
            folders.clear()
            continue
        for name in names:
            path = Path(parent) / name
            status = path.lstat()
            where = str(PurePosixPath(place) / path.relative_to(root))
            if stat.S_ISLNK(status.st_mode):
                yield link(where, str(path.readlink()))
            elif stat.S_ISDIR(status.st_mode):
                yield folder(where, stat.S_IMODE(status.st_mode))
            elif stat.S_ISREG(status.st_mode):
                yield file(where, path, stat.S_IMODE(status.st_mode))


@dataclass(frozen=True)
class Layer:
    """A layer in a file of this machine: an uncompressed tar."""

    path: Path

    @cached_property
    def digest(self) -> str:
        """The hexadecimal SHA-256 of the layer."""
        with self.path.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()

    @property
    def size_bytes(self) -> int:
        """The size of the layer."""
        return self.path.stat().st_size


def write_layer(place: Path, entries: Iterable[Entry]) -> Layer:
    """Write a layer.

    Args:
        place: The file to write.
        entries: What is in it; of two with the same path the later one counts.
    """
    named = {entry.path: entry for entry in entries}
    for path in list(named):
        for above in PurePosixPath(path).parents:
            if str(above) != "." and str(above) not in named:
                named[str(above)] = folder(str(above))
    with tarfile.open(place, "w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(named):
            _add(tar, named[path])
    return Layer(place)


@dataclass(frozen=True)
class Config:
    """How a container of the image starts.

    Attributes:
        entrypoint: The program and its first arguments; empty where the image is started with a command only.
        command: The arguments that a pod's own replace.
        environment: Environment variables.
        user: `UID:GID`; empty for root.
        working_folder: Where the program starts.
    """

    entrypoint: Sequence[str] = ()
    command: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    user: str = ""
    working_folder: str = "/"

    def as_json(self, architecture: str, layers: Iterable[Layer]) -> bytes:
        """The image's config as the OCI image specification has it."""
        config: dict[str, Any] = {
            "Env": [f"{name}={value}" for name, value in sorted(self.environment.items())],
            "WorkingDir": self.working_folder,
        }
        optional = {"Entrypoint": list(self.entrypoint), "Cmd": list(self.command), "User": self.user}
        config |= {name: value for name, value in optional.items() if value}
        return _json(
            {
                "architecture": architecture,
                "os": "linux",
                "config": config,
                "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer.digest}" for layer in layers]},
            }
        )


def write_archive(place: Path, name: str, architecture: str, config: Config, layers: Sequence[Layer]) -> None:
    """Write an image archive.

    Args:
        place: The file to write.
        name: The image's full name, as a pod asks for it.
        architecture: As OCI and Debian call it, such as `amd64`.
        config: How its containers start.
        layers: Its layers, the lowest first.
    """
    config_bytes = config.as_json(architecture, layers)
    manifest_bytes = _json(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": _descriptor("config.v1+json", _sha256(config_bytes), len(config_bytes)),
            "layers": [_descriptor("layer.v1.tar", layer.digest, layer.size_bytes) for layer in layers],
        }
    )
    manifest = _descriptor("manifest.v1+json", _sha256(manifest_bytes), len(manifest_bytes))
    manifest["platform"] = {"architecture": architecture, "os": "linux"}
    manifest["annotations"] = {"io.containerd.image.name": name}
    contents: dict[str, bytes | Path] = {f"blobs/sha256/{layer.digest}": layer.path for layer in layers}
    contents[f"blobs/sha256/{_sha256(config_bytes)}"] = config_bytes
    contents[f"blobs/sha256/{_sha256(manifest_bytes)}"] = manifest_bytes
    contents["index.json"] = _json({"schemaVersion": 2, "manifests": [manifest]})
    contents["oci-layout"] = _json({"imageLayoutVersion": "1.0.0"})
    with tarfile.open(place, "w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(contents):
            _add(tar, file(path, contents[path]))


def _add(tar: tarfile.TarFile, entry: Entry) -> None:
    info = tarfile.TarInfo(entry.path)  # its owner is root and its time 0 until told otherwise
    info.mode = entry.mode
    if entry.is_folder:
        info.type = tarfile.DIRTYPE
        tar.addfile(info)
    elif entry.target is not None:
        info.type, info.linkname = tarfile.SYMTYPE, entry.target
        tar.addfile(info)
    else:
        with _opened(entry.content) as content:
            info.size = content.seek(0, os.SEEK_END)
            content.seek(0)
            tar.addfile(info, content)


def _opened(content: bytes | Path) -> BinaryIO:
    if isinstance(content, bytes):
        return io.BytesIO(content)
    return content.open("rb", buffering=_READ_BYTES)


def _descriptor(kind: str, digest: str, size_bytes: int) -> dict[str, Any]:
    media_type = f"application/vnd.oci.image.{kind}"
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": size_bytes}


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
