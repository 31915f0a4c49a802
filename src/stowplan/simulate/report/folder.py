"""Results appear whole or not at all.

Everything is written into a hidden folder beside the target and moved in when complete, file by file, each by
an atomic rename. A run that fails, is killed or fills the disk leaves the earlier results as they were.
Whether the target can be written is tried before the simulation starts: nobody should wait an hour to learn
that a folder is read-only.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from stowplan.errors import OutputError

__all__ = ["ResultFolder"]


class ResultFolder:
    """A folder that results are published into.

    Raises:
        OutputError: the folder cannot be made or written; said at once, on creation.
    """

    def __init__(self, path: Path) -> None:
        """Make the folder, and try that a file can be written there."""
        self.path = path
        try:
            path.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=path, prefix=".stowplan-"):
                pass
        except OSError as error:
            raise _unwritable(path, error) from error

    def publish(self, writers: Mapping[str, Callable[[Path], object]]) -> list[Path]:
        """Let each writer (name → function of the path) make its file, then move all into place.

        Raises:
            OutputError: a file could not be written; none was published.
        """
        staging: Path | None = None
        try:
            staging = Path(tempfile.mkdtemp(dir=self.path, prefix=".stowplan-"))
            for name, write in writers.items():
                write(staging / name)
            for name in writers:
                os.replace(staging / name, self.path / name)  # noqa: PTH105 (atomic on every platform, also over a file)
        except OSError as error:
            raise _unwritable(self.path, error) from error
        finally:
            if staging is not None:
                shutil.rmtree(staging, ignore_errors=True)
        return [self.path / name for name in writers]


def _unwritable(path: Path, error: OSError) -> OutputError:
    reason = error.strerror or str(error)
    return OutputError(
        f"cannot write results to {path} ({reason}); name a folder that can be written with --out"
    )
