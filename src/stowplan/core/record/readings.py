"""Readings of a cycle held fast, as plain data, and back: a policy that looked at them decides again by them.

A record holds the rows of the board that are not as the chain last said; the first of a chain, and the first
after a board of another make, hold all. Cycles in which nobody measured hold none, and their frames are what
they were before there were readings. Numbers are kept bit for bit, with the times at which they were
measured.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stowplan.core.record.frames import from_runs, to_runs
from stowplan.core.record.values import Plain
from stowplan.core.semantics.board import NodeReadings
from stowplan.errors import InvalidFile

__all__ = ["ReadingsCapture", "ReadingsFollower", "readings_from_plain", "readings_to_plain"]

_FLOATS = np.dtype("<f8")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingsCapture:
    """Rows of a board, n of `total`.

    Attributes:
        now_s: as of when values are known.
        quantities: (Q,) what the columns are.
        is_whole: whether it is all of the board.
        total: rows of the board.
        rows: (n,) ascending.
        values, measured_s: float64 (n, Q); see `NodeReadings`.
    """

    now_s: float
    quantities: tuple[str, ...]
    is_whole: bool
    total: int
    rows: NDArray[np.intp]
    values: NDArray[np.float64]
    measured_s: NDArray[np.float64]


class ReadingsFollower:
    """Captures a board, each time against what was last kept."""

    def __init__(self) -> None:
        """Know of no board."""
        self._quantities: tuple[str, ...] = ()
        self._kept = np.zeros((2, 0, 0))  # values and times, as the chain has them

    def start_over(self) -> None:
        """Have the next capture be whole."""
        self._quantities = ()

    def capture(self, board: NodeReadings) -> ReadingsCapture:
        """Hold fast what of `board` is not as it was kept."""
        is_whole = board.quantities != self._quantities or len(board) < self._kept.shape[1]
        now = np.stack([board.values, board.measured_s])
        changed = np.ones(len(board), dtype=np.bool_)
        if not is_whole:
            known = self._kept.shape[1]
            is_same = (now[:, :known] == self._kept) | (np.isnan(now[:, :known]) & np.isnan(self._kept))
            changed[:known] = ~is_same.all(axis=(0, 2))
        rows = np.flatnonzero(changed)
        return ReadingsCapture(
            now_s=board.now_s,
            quantities=board.quantities,
            is_whole=is_whole,
            total=len(board),
            rows=rows,
            values=now[0, rows],
            measured_s=now[1, rows],
        )

    def kept(self, capture: ReadingsCapture) -> None:
        """Note that `capture`, the latest, is being written."""
        old = self._kept
        self._kept = np.full((2, capture.total, len(capture.quantities)), np.nan)
        if not capture.is_whole:
            self._kept[:, : old.shape[1]] = old
        self._kept[0, capture.rows], self._kept[1, capture.rows] = capture.values, capture.measured_s
        self._quantities = capture.quantities


def readings_to_plain(capture: ReadingsCapture) -> Plain:
    """Return a capture as plain data."""
    plain: Plain = {
        "now_s": capture.now_s,
        "total": capture.total,
        "rows": to_runs(capture.rows.tolist()),
        "values": capture.values.astype(_FLOATS).tobytes(),
        "measured_s": capture.measured_s.astype(_FLOATS).tobytes(),
    }
    return {**plain, "quantities": list(capture.quantities)} if capture.is_whole else plain


def readings_from_plain(plain: Plain, before: NodeReadings | None) -> NodeReadings:
    """Return the board of a record: a new one when all of it is there, else `before`, brought up to date.

    Raises:
        InvalidFile: it goes on from a board that the chain does not have, or is damaged.
        UnknownName: it holds a quantity that the catalogue does not have.
    """
    quantities, total = plain.get("quantities"), int(plain["total"])
    if quantities is not None:
        before = NodeReadings(total, quantities)
    if before is None:
        raise InvalidFile("the record goes on from readings that its chain does not hold")
    before.grow(total)
    before.advance(plain["now_s"])
    rows = np.array(from_runs(plain["rows"]), dtype=np.intp)
    shape = (rows.size, len(before.quantities))
    values, measured_s = (
        np.frombuffer(plain[name], dtype=_FLOATS).astype(np.float64).reshape(shape)
        for name in ("values", "measured_s")
    )
    before.put_rows(rows, values, measured_s)
    return before
