"""Results appear whole or not at all.

Everything is written into a hidden folder inside the target and moved into place when complete, each file by
an atomic rename. A run that fails, is killed or fills the disk leaves earlier results as they were, and a
folder that was made for it is removed. Whether the target can be written is tried before the simulation
starts: nobody should wait an hour to learn that a folder is read-only.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from stowplan.errors import OutputError

__all__ = ["ResultFolder"]


class ResultFolder:
    """A folder that results are published into; a context manager around the work that makes them.

    Raises:
        OutputError: on entry, the folder cannot be made or written.
    """

    def __init__(self, path: Path) -> None:
        """Publish into `path`."""
        self.path = path
        self._made: list[Path] = []

    def __enter__(self) -> Self:
        """Make the folder, and try that a file can be written there."""
        try:
            self._made = self._make()
            with tempfile.NamedTemporaryFile(dir=self.path, prefix=".stowplan-"):
                pass
        except OSError as error:
            self._remove_made()
            raise _unwritable(self.path, error) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Remove the folders that were made here if nothing was published."""
        self._remove_made()

    def _make(self) -> list[Path]:
        missing = [
            folder
            for folder in (self.path, *self.path.parents)
            if not folder.exists() and not folder.is_symlink()
        ]
        self.path.mkdir(parents=True, exist_ok=True)
        return missing

    def _remove_made(self) -> None:
        for folder in self._made:  # the deepest first
            try:
                folder.rmdir()
            except OSError:
                return  # something was published there, or it is gone
        self._made = []

    def publish(self, writers: Mapping[str, Callable[[Path], object]]) -> list[Path]:
        """Let each writer (name → function of the path) make its file, then move all into place.

        Returns:
            the paths, in the order of `writers`.

        Raises:
            OutputError: a file could not be written; none was published.
        """
        staging: Path | None = None
        try:
            staging = Path(tempfile.mkdtemp(dir=self.path, prefix=".stowplan-"))
            for name, write in writers.items():
                write(staging / name)
            for name in writers:
                (staging / name).replace(self.path / name)
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
