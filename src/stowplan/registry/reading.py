"""A release is read whole, verified against its sums, and only then looked into.

A file that is truncated, altered, missing or not listed is refused by name; nothing is loaded leniently. The
sums say that the files belong together and are as they were written; who wrote them is said by whoever hands
over the digest of the release (`expected`), which comes from a place that others cannot write.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Final

from stowplan.core.policy.learned import Release, manifest_from_bytes
from stowplan.errors import InvalidFile

__all__ = ["MANIFEST", "MOST_BYTES", "NODE_GRAPH", "SUMS", "TASK_GRAPH", "load_release"]

MANIFEST: Final = "manifest.json"
NODE_GRAPH: Final = "node.onnx"
TASK_GRAPH: Final = "task.onnx"
SUMS: Final = "SHA256SUMS"
MOST_BYTES: Final = 10 << 20
"""Of one file: nothing larger is read."""
_FILES: Final = (MANIFEST, NODE_GRAPH, TASK_GRAPH)
_LINE: Final = re.compile(r"(?P<sum>[0-9a-f]{64})  (?P<name>[^/\n]+)\n")
_MEND: Final = "fetch the release again, or export it anew"


def load_release(folder: Path, *, expected: str | None = None) -> Release:
    """Return the release in `folder`.

    Args:
        folder: with the files of one release.
        expected: digest that the release must have, in hexadecimal; None: any.

    Raises:
        InvalidFile: a file is missing, too large, altered or not listed; the manifest is of another format or
            for other columns than this version encodes; or it is another release than expected.
    """
    if not folder.is_dir():
        raise InvalidFile(f"there is no release of a model at {folder}: it must be a folder with {SUMS}")
    sums = _read(folder, SUMS)
    listed = _listed(folder, sums)
    contents = {name: _verified(folder, name, listed[name]) for name in _FILES}
    try:
        manifest = manifest_from_bytes(contents[MANIFEST])
    except InvalidFile as error:
        raise InvalidFile(f"{folder / MANIFEST}: {error}") from None
    release = Release(manifest, contents)
    if expected is not None and release.digest != expected.lower():
        raise InvalidFile(
            f"the release at {folder} has digest {release.digest}, expected is {expected}; name the release "
            "that was meant"
        )
    return release


def _listed(folder: Path, sums: bytes) -> dict[str, str]:
    path = folder / SUMS
    found: dict[str, str] = {}
    for number, line in enumerate(sums.decode("utf-8", errors="replace").splitlines(keepends=True), start=1):
        match = _LINE.fullmatch(line)
        if match is None or match["name"] in found:
            raise InvalidFile(f"{path}, line {number} is {line[:80]!r}, not a sum and a new name; {_MEND}")
        found[match["name"]] = match["sum"]
    present = {entry.name for entry in folder.iterdir()} - {SUMS}
    for name in sorted({*found, *present, *_FILES}):
        if name not in _FILES:
            raise InvalidFile(f"{folder / name} is no part of a release; take it away, or {_MEND}")
        if name not in found:
            raise InvalidFile(f"{path} does not list {name}; {_MEND}")
    return found


def _verified(folder: Path, name: str, wanted: str) -> bytes:
    content = _read(folder, name)
    given = hashlib.sha256(content).hexdigest()
    if given != wanted:
        raise InvalidFile(
            f"{folder / name} was altered or truncated: its SHA-256 is {given}, {SUMS} says {wanted}; {_MEND}"
        )
    return content


def _read(folder: Path, name: str) -> bytes:
    path = folder / name
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise InvalidFile(f"{path} of a release cannot be read: {error.strerror}; {_MEND}") from None
    if len(content) > MOST_BYTES:
        raise InvalidFile(f"{path} is larger than {MOST_BYTES} bytes, which no file of a release is; {_MEND}")
    return content
