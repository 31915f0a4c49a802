"""A release is written beside its place and moved there whole: nobody ever sees half of one."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from stowplan.core.policy.learned import Release
from stowplan.errors import OutputError
from stowplan.registry.reading import MOST_BYTES, SUMS

__all__ = ["write_release"]


def write_release(release: Release, folder: Path) -> None:
    """Write `release` as the new folder `folder`.

    Raises:
        OutputError: there is something already, it is too large to be read again, or it cannot be written.
    """
    for name, content in release.files.items():
        if len(content) > MOST_BYTES:
            raise OutputError(
                f"{name} would be {len(content)} bytes; a file of a release has {MOST_BYTES} at most"
            )
    if folder.exists():
        raise OutputError(f"{folder} exists; a release is never overwritten, give another folder")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        try:
            for name, content in {**release.files, SUMS: release.sums.encode()}.items():
                _write(beside / name, content)
            beside.chmod(0o755)
            beside.rename(folder)
        except BaseException:
            shutil.rmtree(beside, ignore_errors=True)
            raise
    except OSError as error:
        raise OutputError(f"the release cannot be written to {folder}: {error.strerror}") from None


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
