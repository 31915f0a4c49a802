"""What a run gives back: six frames with units in their column names, and their files.

`tasks` has one row per attempt, and one (attempt 0) for every task that never ran or got no further attempt
for a reason that its last attempt does not tell; `workflows` one per submission; `usage` the cluster's
resources over time; `node_usage` the same by node; `training` one per gang that trained; `summary` one row
for the whole run. Every frame begins with `policy` and `seed`, so frames of several runs stack.
`docs/SIMULATOR.md` lists all columns.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import polars as pl

from stowplan.errors import InvalidInput
from stowplan.simulate.report.folder import ResultFolder

__all__ = ["FRAMES", "RunResult", "write_frames"]

FRAMES: Final = ("tasks", "workflows", "usage", "node_usage", "training", "summary")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """The frames of one run, or of several stacked. `is_partial`: some run did not come to its end."""

    tasks: pl.DataFrame
    workflows: pl.DataFrame
    usage: pl.DataFrame
    node_usage: pl.DataFrame
    training: pl.DataFrame
    summary: pl.DataFrame
    is_partial: bool

    def frames(self) -> Iterator[tuple[str, pl.DataFrame]]:
        """Iterate over (name, frame) in the order of `FRAMES`."""
        for name in FRAMES:
            yield name, getattr(self, name)

    @classmethod
    def stacked(cls, results: Iterable[RunResult]) -> RunResult:
        """Return the rows of all `results`, in their order.

        Raises:
            InvalidInput: there is no result.
        """
        listed = list(results)
        if not listed:
            raise InvalidInput("there is no result to stack; run at least one simulation to its first event")
        frames = {name: pl.concat([getattr(result, name) for result in listed]) for name in FRAMES}
        return cls(**frames, is_partial=any(result.is_partial for result in listed))

    def digest(self) -> str:
        """Return the SHA-256 of all frames, independent of any file format.

        Two results are equal byte for byte exactly when their digests are. Numbers count with their bits,
        text as UTF-8 with its length; nulls are marked.
        """
        state = hashlib.sha256()
        for name, frame in self.frames():
            state.update(f"{name} {frame.height}\n".encode())
            for column in frame.iter_columns():
                state.update(f"{column.name} {column.dtype}\n".encode())
                state.update(column.is_null().to_numpy().tobytes())
                if column.dtype == pl.String:
                    for text in column.fill_null(""):
                        encoded = str(text).encode()
                        state.update(len(encoded).to_bytes(8, "little"))
                        state.update(encoded)
                else:
                    state.update(column.fill_null(0).to_numpy().tobytes())
        return state.hexdigest()

    def write_parquet(self, folder: Path) -> list[Path]:
        """Write `NAME.parquet` for every frame into `folder`, made if missing; return the paths.

        Raises:
            OutputError: the folder cannot be made or written.
        """
        return write_frames(folder, dict(self.frames()))


def write_frames(folder: Path, frames: Mapping[str, pl.DataFrame]) -> list[Path]:
    """Write each frame to `folder`/NAME.parquet, all of them or none; return the paths.

    Raises:
        OutputError: the folder cannot be made or written; the message names it.
    """

    def writer(frame: pl.DataFrame) -> Callable[[Path], object]:
        return lambda path: frame.write_parquet(path, compression="zstd")

    with ResultFolder(folder) as results:
        return results.publish({f"{name}.parquet": writer(frame) for name, frame in frames.items()})
